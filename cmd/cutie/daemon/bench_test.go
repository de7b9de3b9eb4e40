package daemon

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

// A benchDaemon is a site with a queue named jobs and its publisher, as a daemon on loopback
// has them, without its loops: what is measured is one request and no more.
type benchDaemon struct {
	tb    testing.TB
	site  *site
	queue *queuefs.Queue
	pub   *publisher.Publisher
}

// openHome opens a new home until the end of the test.
func openHome(tb testing.TB, o queuefs.Options) *queuefs.Service {
	tb.Helper()
	dir := tb.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "x"}); err != nil {
		tb.Fatal(err)
	}
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { svc.Close() })
	return svc
}

func newBenchDaemon(tb testing.TB) *benchDaemon {
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	svc := openHome(tb, queuefs.Options{})
	svc.SetBaseURI("http://localhost/")
	b := &benchDaemon{tb: tb}
	var err error
	b.queue, err = svc.CreateQueue(tb.Context(), home.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1})
	must(err)
	b.pub, err = publisher.New(svc, publisher.Options{BaseURI: "http://localhost/"})
	must(err)
	tb.Cleanup(func() { b.pub.Close() })
	svc.Follow(b.pub)
	d := &daemon{push: &push{}, Options: Options{Log: zerolog.Nop()}, svc: svc, pub: b.pub, browser: &access.Browser{}, crowd: access.NewCrowd(10)}
	d.Limits.Conns = 100
	d.record, err = access.OpenLog(filepath.Join(svc.Dir(), "access.txt"), 0, 1)
	must(err)
	tb.Cleanup(func() { d.record.Close() })
	d.gate, err = access.New(access.Options{Anonymous: access.Everything})
	must(err)
	figures := newMeter()
	protocol := rest.New(svc, rest.Options{Taken: figures.taken, Concluded: figures.concluded})
	tb.Cleanup(func() { protocol.Close() })
	b.site = d.newSite(tb.Context(), figures, new([]web.Route), protocol)
	return b
}

// discard is an answer that nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// newRequest returns a request as the server has read it.
func newRequest(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Accept", "text/x-anvl")
	r.Header.Set("User-Agent", "bench/1")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.RemoteAddr = "127.0.0.1:1"
	return r
}

// ask sends a request, and returns the header of its answer.
func (b *benchDaemon) ask(r *http.Request, want int) http.Header {
	w := &discard{header: http.Header{}}
	if b.site.ServeHTTP(w, r); w.status != want {
		b.tb.Fatalf("%s %s: got %d, want %d", r.Method, r.URL, w.status, want)
	}
	return w.header
}

var benchPayload = bytes.Repeat([]byte("x"), 1024)

// submit returns a submission of 1 KiB, again and again.
func (b *benchDaemon) submit() func() {
	r, body := newRequest(http.MethodPost, "/content/jobs"), bytes.NewReader(benchPayload)
	r.ContentLength = int64(len(benchPayload))
	return func() {
		body.Seek(0, io.SeekStart)
		r.Body = io.NopCloser(body)
		b.ask(r, http.StatusCreated)
	}
}

// fill submits n jobs.
func (b *benchDaemon) fill(n int) {
	for submit := b.submit(); n > 0; n-- {
		submit()
	}
}

// An operation is what is measured. ready prepares for n calls of do.
type operation struct {
	ready func(n int)
	do    func()
}

const changeList = "/.well-known/resourcesync/jobs/pending/changelist.xml"

// measured are what a daemon does most.
var measured = map[string]func(b *benchDaemon) operation{
	"submit": func(b *benchDaemon) operation { return operation{func(int) {}, b.submit()} },
	"consume": func(b *benchDaemon) operation {
		r := newRequest(http.MethodPost, "/consume/jobs?lease=600")
		return operation{b.fill, func() { b.ask(r, http.StatusOK) }}
	},
	"report": func(b *benchDaemon) operation {
		var reports []*http.Request
		ready := func(n int) {
			b.fill(n)
			for take := newRequest(http.MethodPost, "/consume/jobs?lease=600"); n > 0; n-- {
				h := b.ask(take, http.StatusOK)
				_, id, _ := strings.Cut(h.Get("Content-Location"), "/jobs/")
				reports = append(reports, newRequest(http.MethodPost, "/outcome/jobs/"+id+"?outcome=completed", "Cutie-Lease", h.Get("Cutie-Lease")))
			}
		}
		return operation{ready, func() {
			b.ask(reports[0], http.StatusOK)
			reports = reports[1:]
		}}
	},
	"poll unchanged": func(b *benchDaemon) operation {
		b.fill(100)
		r := newRequest(http.MethodGet, changeList, "Accept", "*/*", "Accept-Encoding", "gzip")
		r.Header.Set("If-None-Match", b.ask(r, http.StatusOK).Get("ETag"))
		return operation{func(int) {}, func() { b.ask(r, http.StatusNotModified) }}
	},
	"poll": func(b *benchDaemon) operation {
		b.fill(100)
		r := newRequest(http.MethodGet, changeList, "Accept", "*/*", "Accept-Encoding", "gzip", "If-None-Match", `"another"`)
		return operation{func(int) {}, func() { b.ask(r, http.StatusOK) }}
	},
	"submit and publish": func(b *benchDaemon) operation {
		submit := b.submit()
		return operation{func(int) {}, func() {
			submit()
			if err := b.pub.Tick(b.tb.Context()); err != nil {
				b.tb.Fatal(err)
			}
		}}
	},
}

// processor returns the processor time of this process so far.
func processor() time.Duration {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkOperation measures each operation through the site; cpu-ns/op is processor time.
func BenchmarkOperation(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			op := measured[name](newBenchDaemon(b))
			var used time.Duration
			const some = 200
			left, at := 0, processor()
			b.ReportAllocs()
			for b.Loop() {
				if left == 0 {
					b.StopTimer()
					used += processor() - at
					op.ready(some)
					left, at = some, processor()
					b.StartTimer()
				}
				op.do()
				left--
			}
			used += processor() - at
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkConnection is a submission over a connection.
func BenchmarkConnection(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: newBenchDaemon(b).site, ConnContext: rememberConn}
	go server.Serve(ln)
	defer server.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	text := append([]byte("POST /content/jobs HTTP/1.1\r\nHost: localhost\r\nAccept: text/x-anvl\r\nUser-Agent: bench/1\r\nContent-Length: 1024\r\n\r\n"), benchPayload...)
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
}

// BenchmarkMatch finds the routes of busy paths in the table of a whole daemon: below 2 µs.
func BenchmarkMatch(b *testing.B) {
	for _, request := range []string{"POST /content/jobs", "POST /consume/jobs", "POST /outcome/jobs/j000000000001", "GET /state/jobs/j000000000001",
		"GET " + changeList, "GET /queues/jobs/payload/j000000000001", "GET /uws/jobs/async/j000000000001/phase", "GET /nothing/here"} {
		method, path, _ := strings.Cut(request, " ")
		b.Run(method+path, func(b *testing.B) {
			r := newRequest(method, path)
			b.ReportAllocs()
			began := processor()
			for b.Loop() {
				router.Match(r)
			}
			b.ReportMetric(float64(processor()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
