package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

// A job whose payload is not there, or is cut off, is on hold before anybody has
// got it; the answer is that of the next one, in every wrapping.
func TestConsumePassesOverWhatIsNotThere(t *testing.T) {
	for _, tt := range []struct{ path, accept, media string }{
		{"/consume/jobs", "application/octet-stream", ""},
		{"/consume/jobs", "multipart/form-data", "multipart/form-data"},
		{"/consume/jobs", "multipart/mixed", "multipart/mixed"},
		{"/consume/jobs?max=3", "", "multipart/mixed"},
		{"/consume/jobs?max=3&wait=60&lease=60", "", "multipart/mixed"},
	} {
		for _, size := range []int{0, 200 << 10} {
			t.Run(fmt.Sprint(tt.path, " ", tt.accept, " ", size), func(t *testing.T) {
				s := newSite(t, rest.Options{})
				more := strings.Repeat("x", size)
				for _, payload := range []string{"cut off", "gone", "sound"} {
					s.submit(payload+more, queuefs.Meta{})
				}
				if err := s.svc.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
				payloads := filepath.Join(s.svc.Dir(), "queues/jobs/payload")
				if err := errors.Join(os.Truncate(filepath.Join(payloads, "j000000000001"), 2), os.Remove(filepath.Join(payloads, "j000000000002"))); err != nil {
					t.Fatal(err)
				}
				a := s.do("POST", tt.path, "", "Accept", tt.accept).want(t, 200)
				got := []part{{body: a.body}}
				if tt.media != "" {
					got = a.parts(t, tt.media)
				}
				if len(got) != 1 || got[0].body != "sound"+more {
					t.Errorf("got %d parts", len(got))
				}
				s.wantCounts(2, 1, 0)
				if held := s.q.State().Held; held != 2 {
					t.Errorf("%d jobs are on hold, want 2", held)
				}
				s.do("POST", "/consume/jobs", "").want(t, 204)
			})
		}
	}
}

func TestFileNamesSurviveEveryWrapping(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	for _, name := range []string{`a "b" \c;d=e`, "naïve, 中文 \"x\".bin", "100%"} {
		want := name
		if i := strings.LastIndexByte(name, '\\'); i >= 0 {
			want = name[i+1:]
		}
		if _, err := c.Submit(ctx, "jobs", upload("x", queuefs.Meta{Filename: want})); err != nil {
			t.Fatal(err)
		}
		d, err := c.Peek(ctx, "jobs", "")
		if err != nil || d.Filename != want {
			t.Errorf("bare: got %+v, %v, want %q", d, err, want)
		}
		d.Body.Close()
		for d, err := range c.NextN(ctx, "jobs", 1, 0) {
			if err != nil || d.Filename != want {
				t.Errorf("mixed: got %+v, %v, want %q", d, err, want)
			}
		}
	}
}

func TestConsumeWaitsForAJob(t *testing.T) {
	s := newSite(t, rest.Options{})
	got := make(chan answer)
	for range 2 {
		go func() { got <- s.do("POST", "/consume/jobs?wait=60", "", "Accept", "application/octet-stream") }()
	}
	s.submit("one", queuefs.Meta{})
	s.submit("two", queuefs.Meta{})
	bodies := map[string]bool{}
	for range 2 {
		bodies[(<-got).want(t, 200).body] = true
	}
	if !bodies["one"] || !bodies["two"] {
		t.Errorf("got %v", bodies)
	}
}

func TestClientThatHungUpTakesNoJob(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{})
	came, went := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		h.ServeHTTP(w, r)
		close(went)
	}))
	defer srv.Close()
	waiting, hangUp := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := client.New(srv.URL, nil).Next(waiting, "jobs", time.Minute)
		gone <- err
	}()
	<-came
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	<-went // long before the minute is over
	s.submit("one", queuefs.Meta{})
	s.wantCounts(1, 0, 0)
}

func TestLargePayloadsStreamOut(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	const size = 5 << 20
	if _, err := c.Submit(ctx, "jobs", client.Upload{Size: size, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(counter{}, size)), nil
	}}); err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"application/octet-stream", "multipart/form-data"} {
		a := s.do("GET", "/content/jobs", "", "Accept", accept).want(t, 200)
		body := a.body
		if accept != "application/octet-stream" {
			body = a.parts(t, accept)[0].body
		}
		if len(body) != size || body[:10] != digits {
			t.Errorf("%s: got %d octets", accept, len(body))
		}
	}
}

const digits = "0123456789"

// A counter is an endless payload.
type counter struct{}

func (counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = digits[i%len(digits)]
	}
	return len(p), nil
}

var _ http.Handler = (*rest.Handler)(nil)

// Consumers at the same time get different jobs, the oldest first (item 47).
func TestConsumersGetDifferentJobs(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 40 {
		s.submit("x", queuefs.Meta{})
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []string
	)
	for range 4 {
		wg.Go(func() {
			last := ""
			for range 10 {
				req, _ := http.NewRequest("POST", s.url+"/consume/jobs", nil)
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				id := resp.Header.Get("Content-Location")
				if id <= last {
					t.Errorf("%s after %s", id, last)
				}
				last = id
				mu.Lock()
				all = append(all, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 40 || strings.Contains(all[39], "j000000000041") {
		t.Errorf("got %d different jobs", len(all))
	}
	s.wantCounts(0, 40, 0)
}
