package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs/web"
)

// serve serves pages by a hub; the path is the key, and render gets it.
func serve(t *testing.T, h *dashboard.Hub, render func(key string) []dashboard.Part) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.Serve(w, r, r.URL.Path, func() []dashboard.Part { return render(r.URL.Path) }); err != nil {
			web.Plain(w, r, err)
		}
	}))
	t.Cleanup(func() {
		srv.Close()
		h.Close()
	})
	return srv
}

// watch opens a stream, and returns a function for the next event.
func watch(t *testing.T, ctx context.Context, url string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	lines := bufio.NewReader(a.Body)
	return func() string {
		event := ""
		for {
			line, err := lines.ReadString('\n')
			switch line = strings.TrimSuffix(line, "\n"); {
			case err != nil:
				return "end"
			case line == "" && event != "":
				return event
			case strings.HasPrefix(line, "data: "):
				event += strings.TrimPrefix(line, "data: ") + "|"
			}
		}
	}
}

// All watchers of a page share its rendering, get what has changed alone, and the last
// one ends it.
func TestAPageIsRenderedOnceForAll(t *testing.T) {
	var figure, rendered atomic.Int64
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Minute, Idle: time.Minute, Watchers: 100}
	srv := serve(t, h, func(key string) []dashboard.Part {
		if key == "/p" {
			rendered.Add(1)
		}
		return []dashboard.Part{{ID: "same", Text: []byte("<p>" + key + "</p>")}, {ID: "n", Text: fmt.Appendf(nil, "<p>\n%d\n</p>\n", figure.Load())}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begun, got := make(chan struct{}, 50), make(chan string, 50)
	for range 50 {
		next := watch(t, ctx, srv.URL+"/p")
		wg.Go(func() {
			first := next() + next()
			begun <- struct{}{}
			got <- first + next()
		})
	}
	for range 50 {
		<-begun
	}
	figure.Store(7)
	for range 50 {
		if got, want := <-got, "same|<p>/p</p>|n|<p>|0|</p>|n|<p>|7|</p>|"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got := watch(t, t.Context(), srv.URL+"/other")(); got != "same|<p>/other</p>|" {
		t.Errorf("another page: %q", got)
	}
	cancel()
	wg.Wait()
	for at := int64(-1); rendered.Load() != at; time.Sleep(20 * time.Millisecond) { // it ends some time
		at = rendered.Load()
	}
}

// A panic of one page is told, and the others go on. Too many watchers are refused.
func TestAHubHasBounds(t *testing.T) {
	panicked := make(chan any, 1)
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Minute, Idle: time.Minute, Watchers: 2, Panicked: func(p any) {
		select {
		case panicked <- p:
		default:
		}
	}}
	srv := serve(t, h, func(key string) []dashboard.Part {
		if key == "/bad" {
			panic("of this page")
		}
		return []dashboard.Part{{ID: "a", Text: []byte("<p/>")}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch(t, ctx, srv.URL+"/bad")
	good := watch(t, ctx, srv.URL+"/good")
	if got := <-panicked; got != "of this page" {
		t.Errorf("told %v", got)
	}
	if got := good(); got != "a|<p/>|" {
		t.Errorf("got %q", got)
	}
	a, err := http.Get(srv.URL + "/third")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Content-Type") == "text/event-stream" {
		t.Errorf("%s %s", a.Status, text)
	}
}

// A stream ends after its lifetime, and its page with it.
func TestStreamsEnd(t *testing.T) {
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Millisecond, Idle: time.Minute, Watchers: 1}
	srv := serve(t, h, func(string) []dashboard.Part { return []dashboard.Part{{ID: "a", Text: []byte("<p/>")}} })
	for range 3 { // each has the one place of the former
		next := watch(t, t.Context(), srv.URL+"/p")
		for next() != "end" {
		}
		h.Close()
	}
}
