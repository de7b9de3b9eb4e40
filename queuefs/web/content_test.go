package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/web"
)

var modified = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// serve asks for "0123456789", whose entity tag is "t"; header is names and
// values in turn.
func serve(t testing.TB, header ...string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	asked := r.Header.Clone()
	w := httptest.NewRecorder()
	w.Code = 0
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Etag", `"t"`)
	err := web.Serve(w, r, modified, strings.NewReader("0123456789"))
	if errors.Is(err, web.ErrRange) { // which the caller answers
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		err = nil
	}
	if !reflect.DeepEqual(r.Header, asked) {
		t.Errorf("the header of the request became %q, was %q", r.Header, asked)
	}
	return w, err
}

func TestRanges(t *testing.T) {
	for _, tt := range []struct {
		header, is string // Content-Range, "" for the whole
		status     int
	}{
		{"bytes=2-4", "bytes 2-4/10", 206},
		{"bytes=2-", "bytes 2-9/10", 206},
		{"bytes=-3", "bytes 7-9/10", 206},
		{"Bytes=2-4", "bytes 2-4/10", 206},
		{"bytes= 2-4 , ", "bytes 2-4/10", 206},
		{"bytes=,2-4", "bytes 2-4/10", 206},
		{"bytes=002-004", "bytes 2-4/10", 206},
		{"bytes=2-99", "bytes 2-9/10", 206},
		{"bytes=2-9223372036854775808", "bytes 2-9/10", 206},
		{"bytes=2-99999999999999999999999999", "bytes 2-9/10", 206},
		{"bytes=-99999999999999999999", "bytes 0-9/10", 206},
		{"bytes=4-3,-1", "", 200},
		{"bytes=50-60,-1", "bytes 9-9/10", 206},
		{"bytes=-0,-1", "bytes 9-9/10", 206},
		{"bytes=10-", "bytes */10", 416},
		{"bytes=-0", "bytes */10", 416},
		{"bytes=-000", "bytes */10", 416},
		{"bytes=99999999999999999999-", "bytes */10", 416},
		{"bytes=99999999999999999998-99999999999999999999", "bytes */10", 416},
		{"items=0-3", "", 200},
		{"octets=0-3", "", 200},
		{"bytes", "", 200},
		{"bytes=", "", 200},
		{"bytes=,", "", 200},
		{"bytes=-", "", 200},
		{"bytes=abc", "", 200},
		{"bytes=3", "", 200},
		{"bytes=+1-3", "", 200},
		{"bytes=1 - 3", "", 200},
		{"bytes=1-2-3", "", 200},
		{"bytes=0-1,x", "", 200},
		{"bytes=3-1", "", 200},
		{"bytes=0x1-0x2", "", 200},
		{"bytes=١-٢", "", 200},
		{"=0-1", "", 200},
		{"0-1", "", 200},
	} {
		w, err := serve(t, "Range", tt.header)
		if err != nil || w.Code != tt.status || w.Header().Get("Content-Range") != tt.is || tt.status == 200 && w.Body.String() != "0123456789" {
			t.Errorf("%q: got %d %q %q, %v, want %d %q", tt.header, w.Code, w.Header().Get("Content-Range"), w.Body, err, tt.status, tt.is)
		}
	}
	if w, _ := serve(t, "Range", "bytes=0-1", "Range", "bytes=0-1"); w.Code != 200 {
		t.Errorf("repeated: got %d", w.Code)
	}
	if w, _ := serve(t, "Range", "Bytes=0-1,3-4"); w.Code != 206 || strings.Count(w.Body.String(), "Content-Range: bytes ") != 2 {
		t.Errorf("two: got %d %s", w.Code, w.Body)
	}
	if w, _ := serve(t, "Range", "Bytes=0-1", "If-Range", `"other"`); w.Code != 200 {
		t.Errorf("of another state: got %d", w.Code)
	}
}

func TestPreconditions(t *testing.T) {
	before, after := modified.Add(-time.Hour).Format(http.TimeFormat), modified.Add(time.Hour).Format(http.TimeFormat)
	for _, tt := range []struct {
		name, value string
		status      int
	}{
		{"If-Match", `"t"`, 200},
		{"If-Match", "*", 200},
		{"If-Match", `"other"`, 412},
		{"If-Match", `W/"t"`, 412},
		{"If-Unmodified-Since", after, 200},
		{"If-Unmodified-Since", before, 412},
		{"If-None-Match", `"t"`, 304},
		{"If-None-Match", `"other"`, 200},
		{"If-Modified-Since", after, 304},
	} {
		w, err := serve(t, tt.name, tt.value, "Range", "items=0-1")
		if failed := tt.status == 412; failed != errors.Is(err, web.ErrPrecondition) || failed && (w.Code != 0 || w.Body.Len() > 0) || !failed && w.Code != tt.status {
			t.Errorf("%s: %s: got %d, %v, want %d", tt.name, tt.value, w.Code, err, tt.status)
		}
	}
}

// Several lines are one list (RFC 9110, 5.3).
func TestPreconditionsInSeveralLines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lines  []string
		status int
	}{
		{"If-Match", []string{`"x"`, `"t"`}, 200},
		{"If-Match", []string{`"t"`, `"x"`}, 200},
		{"If-Match", []string{"", `"x", "y"`, `"t"`}, 200},
		{"If-Match", []string{`"x"`, `W/"t"`}, 412},
		{"If-Match", []string{"", `"x"`}, 412},
		{"If-None-Match", []string{`"x"`, `"t"`}, 304},
		{"If-None-Match", []string{`"x"`, `"y"`, `W/"t"`}, 304},
		{"If-None-Match", []string{`"x"`, `"y"`}, 200},
	} {
		for _, also := range [][]string{nil, {"Range", "items=0-1"}} { // of which another request is made
			header := also
			for _, line := range tt.lines {
				header = append(header, tt.name, line)
			}
			w, err := serve(t, header...)
			if failed := tt.status == 412; failed != errors.Is(err, web.ErrPrecondition) || !failed && w.Code != tt.status {
				t.Errorf("%s: %q, %q: got %d, %v, want %d", tt.name, tt.lines, also, w.Code, err, tt.status)
			}
		}
	}
	w, err := serve(t, "If-Match", `"x"`, "If-Match", `"t"`, "If-None-Match", `"y"`, "If-None-Match", `"t"`)
	if err != nil || w.Code != 304 {
		t.Errorf("both: got %d, %v, want 304", w.Code, err)
	}
}

// What net/http makes of one range is made of it here, but for one that is empty.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-1,2-", "Bytes=99999999999999999999-", "bytes=-0", "x=y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Range"] = []string{header}
		http.ServeContent(w, r, "", modified, strings.NewReader("0123456789"))
		got, err := serve(t, "Range", header)
		if err != nil {
			t.Fatal(err)
		}
		is := got.Header().Get("Content-Range")
		switch {
		case got.Code == 206 && is != "" && got.Body.Len() == 0:
			t.Errorf("%q: %s without an octet", header, is)
		case got.Code == 206 && w.Code == 206 && !strings.Contains(header, ",") && w.Header().Get("Content-Range") != is:
			t.Errorf("%q: got %s, net/http %s", header, is, w.Header().Get("Content-Range"))
		case got.Code == 416 && is != "bytes */10":
			t.Errorf("%q: 416 with %q", header, is)
		case got.Code != 200 && got.Code != 206 && got.Code != 416:
			t.Errorf("%q: %d", header, got.Code)
		}
	})
}

func TestRangeIsForGet(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("HEAD", "/", nil)
	r.Header.Set("Range", "bytes=2-4")
	if err := web.Serve(w, r, time.Time{}, strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	if w.Code != 200 || w.Header().Get("Content-Length") != "10" || w.Header().Get("Content-Range") != "" {
		t.Errorf("HEAD with a range: got %d, %v, want the header of the whole", w.Code, w.Header())
	}
}
