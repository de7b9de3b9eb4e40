package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"cutie/publisher/destination"
	"cutie/publisher/destination/sourcetest"
)

// many is the number of resources from which on several requests are under way, if all go
// over one connection.
const many = 400

// With several requests under way, servers that do one of the answers wrong leave the copy
// true, and what was answered well is not asked for again.
func TestManyRequestsAtOnce(t *testing.T) {
	const odd = "/r350"
	text := func(path string) string { return fmt.Sprintf("%-64s", path) }
	for name, tt := range map[string]struct {
		fault  func(f *sourcetest.Source, w http.ResponseWriter) bool
		asked  int // for odd
		failed int64
	}{
		"other content": {asked: 3, failed: 1, fault: func(_ *sourcetest.Source, w http.ResponseWriter) bool {
			io.WriteString(w, text("/other"))
			return true
		}},
		"too long": {asked: 3, failed: 1, fault: func(_ *sourcetest.Source, w http.ResponseWriter) bool {
			io.WriteString(w, text(odd)+"x")
			return true
		}},
		"too short": {asked: 3, failed: 1, fault: func(_ *sourcetest.Source, w http.ResponseWriter) bool {
			io.WriteString(w, text(odd)[1:])
			return true
		}},
		"not found": {asked: 2, failed: 1, fault: func(_ *sourcetest.Source, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}},
		"cut body": {asked: 2, fault: func(f *sourcetest.Source, w http.ResponseWriter) bool {
			if f.Asked[odd] > 1 {
				return false
			}
			w.Header().Set("Content-Length", "64")
			io.WriteString(w, "/")
			panic(http.ErrAbortHandler)
		}},
		"busy": {asked: 2, fault: func(f *sourcetest.Source, w http.ResponseWriter) bool {
			if f.Asked[odd] > 1 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}},
		"elsewhere": {asked: 2, fault: func(f *sourcetest.Source, w http.ResponseWriter) bool {
			w.Header().Set("Location", "/moved")
			w.WriteHeader(http.StatusFound)
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sourcetest.New(t)
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
				path, most := fmt.Sprint("/r", i), 1
				if path == odd {
					most = tt.asked
				}
				if f.Asked[path] > most {
					t.Errorf("%s was asked for %d times", path, f.Asked[path])
				}
			}
			if tt.failed > 0 {
				delete(f.Resources, odd)
			}
			p.want()
		})
	}
}

// A server that gives an answer to another request is not asked in this way again.
func TestAnswersToOtherRequests(t *testing.T) {
	f := sourcetest.New(t)
	text := func(path string) string { return fmt.Sprintf("%-64s", path) }
	for i := range many {
		path := fmt.Sprint("/r", i)
		f.Put(path, text(path))
	}
	var swapped, after atomic.Int64
	for i := range many {
		f.Fault(fmt.Sprint("/r", i), func(w http.ResponseWriter, r *http.Request) bool {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			go func() {
				defer conn.Close()
				for err := error(nil); err == nil; {
					paths := []string{r.URL.Path}
					for rw.Reader.Buffered() > 0 && err == nil {
						if r, err = http.ReadRequest(rw.Reader); err == nil {
							paths = append(paths, r.URL.Path)
						}
					}
					if len(paths) > 1 {
						if swapped.CompareAndSwap(0, 1) {
							paths[0], paths[1] = paths[1], paths[0]
						} else if swapped.Load() > 0 {
							after.Add(1)
						}
					}
					for _, path := range paths {
						if !strings.HasPrefix(path, "/r") {
							return // the Client asks again over another connection
						}
						fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n%s", text(path))
					}
					if err = rw.Flush(); err == nil {
						r, err = http.ReadRequest(rw.Reader)
					}
				}
			}()
			return true
		})
	}
	p := newPlace(t, f)
	if r := p.mustSync(func(o *destination.Options) { o.HTTP.Connections = 1 }); r.Failed != 0 || r.Fetched != many {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
	if swapped.Load() != 1 || after.Load() > 16 {
		t.Errorf("swapped %d times, %d times several requests afterwards", swapped.Load(), after.Load())
	}
}
