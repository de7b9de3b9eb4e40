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

func TestListedIsTheHighestJobAtTheEndOfTheList(t *testing.T) {
	text, status := "", http.StatusPartialContent
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/resourcesync/jobs/pending/changelist.xml" || r.Header.Get("Range") != "bytes=-65536" {
			t.Errorf("request of %s, %q", r.URL, r.Header)
		}
		w.WriteHeader(status)
		w.Write([]byte(text))
	}))
	defer web.Close()
	d := served{url: web.URL}
	for _, c := range []struct {
		text string
		want int64
	}{
		{"", -1},
		{"00000000003</loc>\n<url><loc>/payload/j000000000009</loc>\n<url><loc>/payload/j000000000007</loc>\n</urlset>\n", 9},
	} {
		text = c.text
		if got, err := d.listed(t.Context()); got != c.want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", c.text, got, err, c.want)
		}
	}
	status = http.StatusNotFound
	if _, err := d.listed(t.Context()); err == nil {
		t.Error("no list is no error")
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
