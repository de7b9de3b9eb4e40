package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"cutie/publisher/destination"
)

// A server that does one of many answers wrong leaves the copy true, and what was answered
// well is not asked for again.
func TestOneOfManyAnswersIsWrong(t *testing.T) {
	const many, odd = 40, "/r35"
	text := func(path string) string { return fmt.Sprintf("%-64s", path) }
	for name, tt := range map[string]struct {
		fault  func(f *testSource, w http.ResponseWriter) bool
		asked  int // for odd
		failed int64
	}{
		"other content": {asked: 2, failed: 1, fault: func(_ *testSource, w http.ResponseWriter) bool {
			io.WriteString(w, text("/other"))
			return true
		}},
		"too long": {asked: 2, failed: 1, fault: func(_ *testSource, w http.ResponseWriter) bool {
			io.WriteString(w, text(odd)+"x")
			return true
		}},
		"too short": {asked: 2, failed: 1, fault: func(_ *testSource, w http.ResponseWriter) bool {
			io.WriteString(w, text(odd)[1:])
			return true
		}},
		"not found": {asked: 2, failed: 1, fault: func(_ *testSource, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}},
		"cut body": {asked: 2, fault: func(f *testSource, w http.ResponseWriter) bool {
			if f.Asked[odd] > 1 {
				return false
			}
			w.Header().Set("Content-Length", "64")
			io.WriteString(w, "/")
			panic(http.ErrAbortHandler)
		}},
		"busy": {asked: 2, fault: func(f *testSource, w http.ResponseWriter) bool {
			if f.Asked[odd] > 1 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}},
		"elsewhere": {asked: 1, fault: func(f *testSource, w http.ResponseWriter) bool {
			w.Header().Set("Location", "/moved")
			w.WriteHeader(http.StatusFound)
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			for i := range many {
				path := fmt.Sprint("/r", i)
				f.Put(path, text(path))
			}
			f.Fault("/moved", func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, text(odd)); return true })
			f.Fault(odd, func(w http.ResponseWriter, _ *http.Request) bool { return tt.fault(f, w) })
			p := newPlace(t, f)
			r := p.mustSync(func(o *destination.Options) { o.HTTP.Connections = 1 })
			if r.Failed != tt.failed || r.Fetched != many-tt.failed {
				t.Errorf("got %+v, said %q", r, p.said)
			}
			for i := range many {
				path, want := fmt.Sprint("/r", i), 1
				if path == odd {
					want = tt.asked
				}
				if f.Asked[path] != want {
					t.Errorf("%s was asked for %d times, want %d", path, f.Asked[path], want)
				}
			}
			if tt.failed > 0 {
				delete(f.Resources, odd)
			}
			p.want()
		})
	}
}
