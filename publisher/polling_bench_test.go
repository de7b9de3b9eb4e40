package publisher_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
)

// A poller asks over one connection, again and again.
type poller struct {
	conn    net.Conn
	r       *bufio.Reader
	request string
}

func newPoller(b *testing.B, h http.Handler, path, tag string) *poller {
	server := httptest.NewServer(h)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(b, err)
	b.Cleanup(func() { conn.Close(); server.Close() })
	return &poller{conn, bufio.NewReader(conn),
		fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nIf-None-Match: %s\r\n\r\n", path, tag)}
}

func (p *poller) poll(b *testing.B) {
	_, err := io.WriteString(p.conn, p.request)
	must(b, err)
	line, err := p.r.ReadString('\n')
	must(b, err)
	if !strings.Contains(line, " 304 ") {
		b.Fatal(line)
	}
	for len(line) > 2 {
		line, err = p.r.ReadString('\n')
		must(b, err)
	}
}

// BenchmarkNotModifiedOverTCP polls in turn a document and a handler that does
// nothing but answer 304, and reports how the rates compare: 1.0 is as fast.
func BenchmarkNotModifiedOverTCP(b *testing.B) {
	s := newSource(b, publisher.Options{MaxEntries: 2000}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 60_000)
	bare := newPoller(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Vary", "Accept-Encoding")
		w.Header().Set("Etag", r.Header.Get("If-None-Match"))
		w.WriteHeader(http.StatusNotModified)
	}), "/x", `"a-b-o1-1000000-gz"`)
	for _, name := range []string{"changelist.xml", "changelist-index.xml", "changelist-000000000001.xml", "resourcelist.xml", "resourcelist-000001.xml", "capabilitylist.xml"} {
		b.Run(name, func(b *testing.B) {
			url := s.doc(q, "pending", name)
			w := s.request(url, "gzip", "")
			ours := newPoller(b, s.pub, strings.TrimPrefix(url, base), w.header.Get("ETag"))
			var took [2]time.Duration
			for b.Loop() {
				start := time.Now()
				bare.poll(b)
				between := time.Now()
				ours.poll(b)
				took[0] += between.Sub(start)
				took[1] += time.Since(between)
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "of-bare")
		})
	}
}
