package fetch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination/fetch"
)

func serve(t *testing.T, do http.HandlerFunc) string {
	s := httptest.NewServer(do)
	t.Cleanup(s.Close)
	return s.URL
}

func text(ctx context.Context, c *fetch.Client, uri string) (string, error) {
	var got string
	err := c.Get(ctx, fetch.Request{URI: uri}, func(a *fetch.Answer) error {
		b, err := io.ReadAll(a.Body)
		got = string(b)
		return err
	})
	return got, err
}

func TestErrorsThatPass(t *testing.T) {
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		var n atomic.Int32
		uri := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) < 3 {
				w.WriteHeader(status)
				return
			}
			io.WriteString(w, "ok")
		})
		c := fetch.New(fetch.Options{Addresses: loopback, Pause: time.Millisecond})
		if got, err := text(t.Context(), c, uri); got != "ok" || err != nil {
			t.Errorf("%d: got %q, %v", status, got, err)
		}
		if requests, octets := c.Counts(); requests != 3 || octets != 2 {
			t.Errorf("%d: %d requests, %d octets", status, requests, octets)
		}
	}
	// A body that is cut off, too.
	var n atomic.Int32
	uri := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ok"[:min(n.Add(1), 2)])
	})
	if got, err := text(t.Context(), fetch.New(fetch.Options{Addresses: loopback, Pause: time.Millisecond}), uri); got != "ok" || err != nil || n.Load() != 2 {
		t.Errorf("got %q, %v after %d requests", got, err, n.Load())
	}
}

func TestErrorsThatStay(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 501} {
		var n atomic.Int32
		uri := serve(t, func(w http.ResponseWriter, _ *http.Request) { n.Add(1); w.WriteHeader(status) })
		_, err := text(t.Context(), fetch.New(fetch.Options{Addresses: loopback, Pause: time.Millisecond}), uri)
		var e *fetch.StatusError
		if !errors.As(err, &e) || e.Status != status || n.Load() != 1 || fetch.IsGone(err) != (status == 404 || status == 410) {
			t.Errorf("%d: got %v after %d requests", status, err, n.Load())
		}
	}
	uri := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	if _, err := text(t.Context(), fetch.New(fetch.Options{Addresses: loopback}), uri); !errors.Is(err, fetch.ErrRedirects) {
		t.Errorf("redirects: got %v", err)
	}
}

// Retry-After says when; too late is never.
func TestRetryAfter(t *testing.T) {
	var n atomic.Int32
	uri := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Retry-After", map[string]string{"/soon": "0", "/late": "86400"}[r.URL.Path])
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	c := fetch.New(fetch.Options{Addresses: loopback, Pause: time.Hour})
	if _, err := text(t.Context(), c, uri+"/soon"); err != nil || n.Load() != 2 {
		t.Errorf("got %v after %d requests", err, n.Load())
	}
	n.Store(0)
	if _, err := text(t.Context(), c, uri+"/late"); err == nil || n.Load() != 1 {
		t.Errorf("got %v after %d requests", err, n.Load())
	}
}

func TestServersThatDrip(t *testing.T) {
	for name, do := range map[string]http.HandlerFunc{
		"silent": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drips": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		},
	} {
		c := fetch.New(fetch.Options{Addresses: loopback, Timeout: 100 * time.Millisecond, Tries: 1})
		if _, err := text(t.Context(), c, serve(t, do)); !errors.Is(err, fetch.ErrSlow) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Credentials are for the Source alone.
func TestCredentials(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got["other"+r.URL.Path] = r.Header.Get("Authorization")
	})
	own := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got["own"+r.URL.Path] = r.Header.Get("Authorization")
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other+"/redirected", http.StatusFound)
		}
	})
	c := fetch.New(fetch.Options{Addresses: loopback, Origin: own, Header: http.Header{"Authorization": {"Bearer x"}}})
	for _, uri := range []string{own + "/a", own + "/away", other + "/b"} {
		if _, err := text(t.Context(), c, uri); err != nil {
			t.Fatal(err)
		}
	}
	for where, want := range map[string]string{"own/a": "Bearer x", "own/away": "Bearer x", "other/redirected": "", "other/b": ""} {
		if got[where] != want {
			t.Errorf("%s: got %q, want %q", where, got[where], want)
		}
	}
}

func TestFewConnections(t *testing.T) {
	var now, most atomic.Int32
	uri := serve(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
	})
	c := fetch.New(fetch.Options{Addresses: loopback, Connections: 3})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { text(t.Context(), c, uri) })
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests at a time", most.Load())
	}
}

// Requests with a late answer keep nobody from the others; too many of them do not wait.
func TestWaitsKeepNobodyFromTheOthers(t *testing.T) {
	release := make(chan bool)
	var waiting, plain atomic.Int32
	uri := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Prefer") == "wait=55" {
			waiting.Add(1)
			<-release
			return
		}
		plain.Add(1)
	})
	c := fetch.New(fetch.Options{Addresses: loopback, Connections: 1})
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if err := c.Get(t.Context(), fetch.Request{URI: uri, Wait: 55 * time.Second}, func(*fetch.Answer) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting.Load() < 32 || plain.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	if _, err := text(t.Context(), c, uri); err != nil {
		t.Error(err)
	}
	close(release)
	wg.Wait()
	if waiting.Load() != 32 || plain.Load() != 9 {
		t.Errorf("%d waited, %d did not", waiting.Load(), plain.Load())
	}
}
