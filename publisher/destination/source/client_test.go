package source_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination/source"
)

func serve(t *testing.T, do http.HandlerFunc) string {
	s := httptest.NewServer(do)
	t.Cleanup(s.Close)
	return s.URL
}

func text(ctx context.Context, c *source.Client, uri string) (string, error) {
	var got string
	err := c.Get(ctx, source.Request{URI: uri}, func(a *source.Answer) error {
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
		c := source.NewClient(source.Options{Addresses: loopback, Pause: time.Millisecond})
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
	if got, err := text(t.Context(), source.NewClient(source.Options{Addresses: loopback, Pause: time.Millisecond}), uri); got != "ok" || err != nil || n.Load() != 2 {
		t.Errorf("got %q, %v after %d requests", got, err, n.Load())
	}
}

func TestErrorsThatStay(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 501} {
		var n atomic.Int32
		uri := serve(t, func(w http.ResponseWriter, _ *http.Request) { n.Add(1); w.WriteHeader(status) })
		_, err := text(t.Context(), source.NewClient(source.Options{Addresses: loopback, Pause: time.Millisecond}), uri)
		var e *source.StatusError
		if !errors.As(err, &e) || e.Status != status || n.Load() != 1 || source.IsGone(err) != (status == 404 || status == 410) {
			t.Errorf("%d: got %v after %d requests", status, err, n.Load())
		}
	}
	uri := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	if _, err := text(t.Context(), source.NewClient(source.Options{Addresses: loopback}), uri); !errors.Is(err, source.ErrRedirects) {
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
	c := source.NewClient(source.Options{Addresses: loopback, Pause: time.Hour})
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
		c := source.NewClient(source.Options{Addresses: loopback, Timeout: 100 * time.Millisecond, Tries: 1})
		if _, err := text(t.Context(), c, serve(t, do)); !errors.Is(err, source.ErrSlow) {
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
	c := source.NewClient(source.Options{Addresses: loopback, Origin: own, Header: http.Header{"Authorization": {"Bearer x"}}})
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
	c := source.NewClient(source.Options{Addresses: loopback, Connections: 3})
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
	c := source.NewClient(source.Options{Addresses: loopback, Connections: 1})
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if err := c.Get(t.Context(), source.Request{URI: uri, Wait: 55 * time.Second}, func(*source.Answer) error { return nil }); err != nil {
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

// A Source that an operator named may be at a private address. What it names itself, in
// documents and redirects, may not, unless the operator allows it; also by other spellings.
func TestASourceNamesNoPrivateAddresses(t *testing.T) {
	var asked atomic.Int32
	inner := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.Write([]byte("secret")) })
	port := inner[strings.LastIndexByte(inner, ':'):]
	own := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, inner, http.StatusFound)
		}
	})
	for _, proxy := range []string{"", "http://127.0.0.1:9"} {
		t.Setenv("HTTP_PROXY", proxy) // not for loopback
		c := source.NewClient(source.Options{Origin: own, Pause: time.Hour})
		if _, err := text(t.Context(), c, own+"/a"); err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{inner, own + "/away", "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port} {
			got, err := text(t.Context(), c, uri)
			if source.Refused(err) == nil {
				t.Errorf("%s: got %q, %v, want it refused", uri, got, err)
			}
			resp, err := c.HTTP().Get(uri)
			if source.Refused(err) == nil {
				t.Errorf("%s: got %v, %v, want it refused", uri, resp, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the private server was asked %d times", n)
	}
	c := source.NewClient(source.Options{Origin: own, Addresses: loopback})
	if got, err := text(t.Context(), c, own+"/away"); got != "secret" {
		t.Errorf("an allowed address: got %q, %v", got, err)
	}
}
