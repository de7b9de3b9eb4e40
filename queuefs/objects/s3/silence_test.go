package s3

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A store that falls silent, before an answer, in the middle of one, or in the middle of a
// body for it, does not hold a request for good. A slow one may take its time.
func TestASilentStoreIsGivenUp(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := w.(http.Flusher).Flush
		switch r.URL.Path {
		case "/slow":
			w.Header().Set("Content-Length", "8")
			for range 8 {
				io.WriteString(w, "x")
				flush()
				time.Sleep(silence / 8)
			}
			return
		case "/middle":
			w.Header().Set("Content-Length", "8")
			io.WriteString(w, "half")
			flush()
		}
		<-over
	}))
	defer srv.Close()
	defer close(over)
	client := &http.Client{Transport: transport(silence)}
	for _, c := range []struct {
		path string
		body []byte
		ok   bool
	}{{"/slow", nil, true}, {"/before", nil, false}, {"/middle", nil, false}, {"/body", make([]byte, 64<<20), false}, {"/slow", nil, true}} {
		done := make(chan error, 1)
		go func() {
			resp, err := client.Post(srv.URL+c.path, "", bytes.NewReader(c.body))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.path, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the request does not end", c.path)
		}
		time.Sleep(silence / 2) // the connection may be used again
	}
}
