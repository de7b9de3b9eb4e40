package daemon

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

// benchSite is a site with a queue named jobs, as a daemon on loopback has it.
func benchSite(b *testing.B) *site {
	dir := b.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		b.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { svc.Close() })
	if _, err := svc.CreateQueue(b.Context(), queuefs.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
		b.Fatal(err)
	}
	log, err := access.OpenLog(filepath.Join(dir, "access.txt"), 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	gate, err := access.New(access.Options{Anonymous: access.Everything})
	if err != nil {
		b.Fatal(err)
	}
	s := &site{log: zerolog.Nop(), meter: newMeter(), leaving: b.Context(), pace: defaultPace, gate: gate,
		browser: &access.Browser{}, crowd: access.NewCrowd(10), record: log.Add}
	protocol := rest.New(svc, rest.Options{Taken: s.meter.taken})
	s.refuse = protocol.Error
	s.router = web.NewRouter(s.refuse, protocol.Routes()...)
	return s
}

// discard is an answer that nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkRequest is a submission of 1 KiB: through the site alone, and over a
// connection.
func BenchmarkRequest(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 1024)
	request := func(url string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, url, nil)
		r.ContentLength = int64(len(payload))
		r.Header.Set("Accept", "text/x-anvl")
		r.Header.Set("User-Agent", "bench/1")
		r.RemoteAddr = "127.0.0.1:1"
		return r
	}
	b.Run("site", func(b *testing.B) {
		s, body := benchSite(b), bytes.NewReader(payload)
		r := request("/content/jobs")
		b.ReportAllocs()
		for b.Loop() {
			body.Seek(0, io.SeekStart)
			r.Body = io.NopCloser(body)
			w := &discard{header: http.Header{}}
			if s.ServeHTTP(w, r); w.status != http.StatusCreated {
				b.Fatalf("got %d", w.status)
			}
		}
	})
	b.Run("connection", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{Handler: benchSite(b), ConnContext: rememberConn}
		go server.Serve(ln)
		defer server.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		text := append([]byte("POST /content/jobs HTTP/1.1\r\nHost: localhost\r\nAccept: text/x-anvl\r\nUser-Agent: bench/1\r\nContent-Length: 1024\r\n\r\n"), payload...)
		answer := make([]byte, 4096)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Write(text); err != nil {
				b.Fatal(err)
			}
			if n, err := c.Read(answer); err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 201")) {
				b.Fatalf("got %q, %v", answer[:n], err)
			}
		}
	})
	b.Run("match", func(b *testing.B) {
		s, r := benchSite(b), request("/content/jobs")
		b.ReportAllocs()
		for b.Loop() {
			if m := s.router.Match(r); m.Route == nil {
				b.Fatal("no route")
			}
		}
	})
}
