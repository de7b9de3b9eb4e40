package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestJobNumberIsThatOfTheFirstJob(t *testing.T) {
	for text, want := range map[string]int64{
		"": -1, "/j": -1, "/j12": -1, "/jobs/pending/j000000000012": 12, "http://x/queues/jobs/payload/j000000000345</loc>": 345,
		"/journal/j000000001000 /j000000000001": 1000, "j000000000001": -1,
	} {
		if got := jobNumber([]byte(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestGrowthIsReadByTheEntityTagOfThen(t *testing.T) {
	type answer struct {
		status           int
		tag, extent, txt string
	}
	var now answer
	var asked http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/resourcesync/jobs/pending/changelist.xml" {
			t.Errorf("request of %s", r.URL)
		}
		asked = r.Header
		w.Header().Set("ETag", now.tag)
		if now.extent != "" {
			w.Header().Set("Content-Range", now.extent)
		}
		w.WriteHeader(now.status)
		w.Write([]byte(now.txt))
	}))
	defer web.Close()
	d, list := &served{url: web.URL}, growth{}
	const entries = "00000000003</loc>\n<url><loc>/payload/j000000000009</loc>\n<url><loc>/payload/j000000000007</loc>\n</urlset>\n"
	for i, c := range []struct {
		answer
		ranged, condition string // asked for
		want, length      int64
	}{
		{answer{200, `"a"`, "", ""}, "", "", -1, 0},
		{answer{200, `"b"`, "", entries}, "bytes=0-", `"a"`, 9, int64(len(entries))},
		{answer{206, `"c"`, "bytes 0-9/5000", "/j000000000012"}, "bytes=0-", `"b"`, 12, 5000},
		{answer{206, `"d"`, "bytes 3976-6999/7000", "/j000000000013"}, "bytes=3976-", `"c"`, 13, 7000},
		{answer{200, `"e"`, "", entries}, "bytes=5976-", `"d"`, 9, int64(len(entries))}, // another list
	} {
		now = c.answer
		if got, err := list.highest(t.Context(), d); got != c.want || list.length != c.length || list.tag != c.tag || err != nil {
			t.Errorf("%d: got %d, %+v, %v, want %d of %d bytes", i, got, list, err, c.want, c.length)
		}
		if asked.Get("Range") != c.ranged || asked.Get("If-Range") != c.condition {
			t.Errorf("%d: asked for %q if %q, want %q if %q", i, asked.Get("Range"), asked.Get("If-Range"), c.ranged, c.condition)
		}
	}
	for _, bad := range []answer{{status: 404}, {status: 206, extent: "bytes 0-9/*"}, {status: 206}} {
		now = bad
		if _, err := list.highest(t.Context(), d); err == nil {
			t.Errorf("%+v is no error", bad)
		}
	}
}

func TestAPaceGivesTurnsAtItsRate(t *testing.T) {
	p := pace{start: time.Now().Add(-time.Hour), each: time.Minute}
	for range 59 { // they are late
		if err := p.next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if early := time.Until(p.start.Add(60 * p.each)); early > 0 || p.n.Load() != 59 {
		t.Errorf("%d turns, the next one in %v", p.n.Load(), early)
	}
}
