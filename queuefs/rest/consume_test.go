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
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

func TestConsumeAnswersAFormUnlessAskedOtherwise(t *testing.T) {
	s := newSite(t, rest.Options{})
	plain := queuefs.Meta{Filename: "a.txt", MediaType: "text/plain", Sidecar: "x=y\nz"}
	tests := []struct {
		accept, want string
	}{
		{"", "multipart/form-data"},
		{"*/*", "multipart/form-data"},
		{"multipart/form-data", "multipart/form-data"},
		{"multipart/*", "multipart/form-data"},
		{"multipart/mixed", "multipart/mixed"},
		{"multipart/form-data;q=0.5, multipart/mixed", "multipart/mixed"},
		{"application/octet-stream", "text/plain"},
		{"application/octet-stream, */*;q=0.1", "text/plain"},
		{"text/plain", "text/plain"},
		{"text/html, text/*;q=0.9, */*;q=0.8", "text/plain"},
		{"image/png", "text/plain"}, // the job is taken; better this than nothing
	}
	for i, tt := range tests {
		id := s.submit("hello\n", plain).ID
		var header []string
		if tt.accept != "" {
			header = []string{"Accept", tt.accept}
		}
		peek := s.do("GET", "/content/jobs", "", header...).want(t, 200)
		head := s.do("HEAD", "/content/jobs", "", header...).want(t, 200)
		head.header(t, "Content-Length", peek.Header.Get("Content-Length"))
		a := s.do("POST", "/consume/jobs", "", header...).want(t, 200)
		for _, a := range []answer{a, peek, head} {
			a.header(t, "Content-Location", s.url+"/content/jobs/"+id.String())
			a.header(t, "Link", "<"+s.url+"/state/jobs/"+id.String()+`>; rel="describedby"`)
			if a.Request.Method == "POST" {
				a.header(t, "Cache-Control", "no-store")
				a.header(t, "Vary", "") // which is for those who store
			} else {
				a.header(t, "Vary", "Accept")
			}
			if got, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";"); got != tt.want {
				t.Errorf("Accept %q: got %s, want %s", tt.accept, got, tt.want)
			}
		}
		if head.body != "" {
			t.Errorf("HEAD: got %q", head.body)
		}
		s.wantCounts(0, int64(i+1), 0)
		for _, a := range []answer{a, peek} {
			if tt.want == "text/plain" {
				a.header(t, "Content-Disposition", `attachment; filename="a.txt"`)
				a.header(t, "Cutie-Sidecar", "x=y%0Az")
				a.header(t, "Content-Length", "6")
				if a.body != "hello\n" {
					t.Errorf("Accept %q: got %q", tt.accept, a.body)
				}
				continue
			}
			disposition := "attachment"
			if tt.want == "multipart/form-data" {
				disposition = "form-data"
			}
			got := ""
			for _, p := range a.parts(t, tt.want) {
				got += fmt.Sprintf("%s|%s|%s|%s\n", p.header.Get("Content-Disposition"), p.header.Get("Content-Type"), p.header.Get("Content-Length"), p.body)
			}
			want := disposition + `; name="payload"; filename="a.txt"|text/plain|6|hello` + "\n\n" +
				disposition + `; name="sidecar"|application/octet-stream||x=y` + "\nz\n"
			if got != want {
				t.Errorf("Accept %q: got\n%s\nwant\n%s", tt.accept, got, want)
			}
		}
	}
}

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

func TestConsumeWithoutSidecarHasOnePart(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("", queuefs.Meta{})
	parts := s.do("POST", "/consume/jobs", "").want(t, 200).parts(t, "multipart/form-data")
	if len(parts) != 1 || parts[0].header.Get("Content-Disposition") != `form-data; name="payload"` ||
		parts[0].header.Get("Content-Type") != "application/octet-stream" || parts[0].body != "" {
		t.Errorf("got %+v", parts)
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

func TestEmptyQueueIsNoContent(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, r := range [][2]string{{"GET", "/content/jobs"}, {"HEAD", "/content/jobs"}, {"POST", "/consume/jobs"},
		{"POST", "/consume/jobs?max=9"}, {"POST", "/consume/jobs?wait=0"}, {"POST", "/consume/jobs?wait=0.01"}, {"POST", "/consume/jobs?max=3&wait=0.01"}} {
		a := s.do(r[0], r[1], "").want(t, 204)
		if a.body != "" {
			t.Errorf("%s: got %q", r, a.body)
		}
	}
}

func TestPeekShowsJobsOfAnyStatusAndChangesNothing(t *testing.T) {
	s := newSite(t, rest.Options{})
	for i := range 3 {
		s.submit(fmt.Sprint("job ", i), queuefs.Meta{})
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	s.do("DELETE", "/content/jobs/j000000000002", "").want(t, 202)
	for i := range 3 {
		for range 2 {
			a := s.do("GET", "/content/jobs/"+queuefs.JobID(i+1).String(), "", "Accept", "application/octet-stream").want(t, 200)
			if want := fmt.Sprint("job ", i); a.body != want {
				t.Errorf("got %q, want %q", a.body, want)
			}
		}
	}
	if a := s.do("GET", "/content/jobs", "", "Accept", "application/octet-stream").want(t, 200); a.body != "job 2" {
		t.Errorf("head: got %q", a.body)
	}
	s.wantCounts(1, 1, 1)
}

func TestConsumeSeveral(t *testing.T) {
	s := newSite(t, rest.Options{})
	big := strings.Repeat("0123456789abcdef", 20_000) // above what the journal takes
	payloads := []string{"one", "", big, "four"}
	for i, p := range payloads {
		s.submit(p, queuefs.Meta{Filename: fmt.Sprint("f", i), Sidecar: strings.Repeat("s ", 5000*i), MediaType: "text/plain"})
	}
	a := s.do("POST", "/consume/jobs?max=3", "").want(t, 200)
	parts := a.parts(t, "multipart/mixed")
	a2 := s.do("POST", "/consume/jobs?max=1000", "").want(t, 200)
	parts = append(parts, a2.parts(t, "multipart/mixed")...)
	if len(parts) != 4 {
		t.Fatalf("got %d parts", len(parts))
	}
	for i, p := range parts {
		h := p.header
		if p.body != payloads[i] || h.Get("Content-Location") != s.url+"/content/jobs/"+queuefs.JobID(i+1).String() ||
			h.Get("Content-Length") != fmt.Sprint(len(p.body)) || h.Get("Content-Type") != "text/plain" ||
			h.Get("Content-Disposition") != fmt.Sprintf(`attachment; filename="f%d"`, i) ||
			h.Get("Cutie-Sidecar") != strings.Repeat("s%20", 5000*i) {
			t.Errorf("part %d: got %.300v, %.20q", i, h, p.body)
		}
	}
	s.wantCounts(0, 4, 0)
	s.submit("five", queuefs.Meta{})
	if parts := s.do("POST", "/consume/jobs?max=1", "").want(t, 200).parts(t, "multipart/mixed"); len(parts) != 1 || parts[0].body != "five" {
		t.Errorf("max=1: got %v", parts)
	}
}

func TestConsumeRefuses(t *testing.T) {
	s := newSite(t, rest.Options{MaxWait: 2 * time.Second})
	s.submit("x", queuefs.Meta{})
	for _, query := range []string{"max=0", "max=1001", "max=x", "max=-1", "max=1&max=2", "wait=-1", "wait=2.1", "wait=NaN", "wait=inf", "wait=1s", "wait=",
		"lease=0", "lease=86401", "Max=1", "max=%"} {
		a := s.do("POST", "/consume/jobs?"+query, "").want(t, 400)
		if a.exception(t) == "" {
			t.Errorf("%s: no detail", query)
		}
	}
	s.do("POST", "/consume/jobs", strings.Repeat("x", 65<<10)).want(t, 413)
	s.wantCounts(1, 0, 0)
	s.do("POST", "/consume/jobs?wait=2.0&v", "body without meaning").want(t, 200)
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
