package rest_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// The benchmarks tell what the handler costs over the engine alone: compare
// "handler" with "engine". Net/http is left out, and so is the disk if there is
// a file system in memory.

// A nullWriter is a connection that nobody listens to.
type nullWriter struct {
	header http.Header
	status int
	n      int
}

func (w *nullWriter) Header() http.Header               { return w.header }
func (w *nullWriter) WriteHeader(status int)            { w.status = status }
func (w *nullWriter) Write(p []byte) (int, error)       { w.n += len(p); return len(p), nil }
func (w *nullWriter) SetReadDeadline(_ time.Time) error { return nil }

type call struct {
	w    nullWriter
	r    *http.Request
	body *bytes.Reader
}

func newCall(b *testing.B, method, path string, body []byte, header ...string) *call {
	b.Helper()
	c := &call{body: bytes.NewReader(body)}
	var err error
	if c.r, err = http.NewRequest(method, "http://h"+path, c.body); err != nil {
		b.Fatal(err)
	}
	c.r.Header.Set("User-Agent", "bench/1")
	for i := 0; i < len(header); i += 2 {
		c.r.Header.Set(header[i], header[i+1])
	}
	return c
}

func (c *call) do(b *testing.B, h http.Handler, want int) {
	c.w = nullWriter{header: make(http.Header)}
	c.body.Seek(0, io.SeekStart)
	h.ServeHTTP(&c.w, c.r)
	if c.w.status != want {
		b.Fatalf("got %d", c.w.status)
	}
}

func BenchmarkSubmit(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 1024)
	b.Run("engine", func(b *testing.B) {
		s := newService(b)
		b.ReportAllocs()
		for b.Loop() {
			s.submit(string(payload), queuefs.Meta{Submitter: "bench/1"})
		}
	})
	b.Run("handler", func(b *testing.B) {
		s := newService(b)
		h := rest.New(s.svc, rest.Options{})
		c := newCall(b, "POST", "/content/jobs", payload, "Accept", "text/x-anvl")
		b.ReportAllocs()
		for b.Loop() {
			c.do(b, h, 201)
		}
	})
	b.Run("form of 100", func(b *testing.B) {
		s := newService(b)
		h := rest.New(s.svc, rest.Options{})
		f := newForm()
		for range 100 {
			f.file("f", string(payload))
		}
		c := newCall(b, "POST", "/content/jobs", []byte(f.end()), "Accept", "text/x-anvl", "Content-Type", "multipart/form-data; boundary=b0undary")
		b.ReportAllocs()
		for b.Loop() {
			c.do(b, h, 201)
		}
	})
}

func BenchmarkConsume(b *testing.B) {
	payload := strings.Repeat("x", 1024)
	// Jobs come back by the hundred, outside of what is measured.
	refill := func(b *testing.B, s *site, i int) {
		if i%100 != 0 {
			return
		}
		b.StopTimer()
		sub := s.q.Begin()
		for range 100 {
			d, err := sub.Add(queuefs.Meta{Submitter: "bench/1"})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.WriteString(d, payload); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := sub.Commit(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.Run("engine", func(b *testing.B) {
		s := newService(b)
		b.ReportAllocs()
		for i := range b.N {
			refill(b, s, i)
			j, err := s.q.Next(ctx, "bench/1")
			if err != nil {
				b.Fatal(err)
			}
			p, err := s.q.Payload(j.ID)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
	for name, accept := range map[string]string{"handler bare": "application/octet-stream", "handler form": "*/*"} {
		b.Run(name, func(b *testing.B) {
			s := newService(b)
			h := rest.New(s.svc, rest.Options{})
			c := newCall(b, "POST", "/consume/jobs", nil, "Accept", accept)
			b.ReportAllocs()
			for i := range b.N {
				refill(b, s, i)
				c.do(b, h, 200)
			}
		})
	}
	b.Run("handler 100 at once", func(b *testing.B) {
		s := newService(b)
		h := rest.New(s.svc, rest.Options{})
		c := newCall(b, "POST", "/consume/jobs?max=100", nil)
		b.ReportAllocs()
		for range b.N {
			refill(b, s, 0)
			c.do(b, h, 200)
		}
	})
}

func BenchmarkNotModified(b *testing.B) {
	s := newService(b)
	h := rest.New(s.svc, rest.Options{})
	for range queuefs.PageJobs {
		s.submit("x", queuefs.Meta{})
	}
	id := s.submit("x", queuefs.Meta{}).ID.String()[:12] + "0"
	for _, path := range []string{"/state/jobs", "/state/jobs/" + id, "/queues/jobs/payload/" + id, "/queues/jobs/pending/" + id} {
		b.Run(path, func(b *testing.B) {
			c := newCall(b, "GET", path, nil)
			c.do(b, h, 200)
			c.r.Header.Set("If-None-Match", c.w.header.Get("Etag"))
			b.ReportAllocs()
			for b.Loop() {
				c.do(b, h, 304)
			}
		})
	}
}
