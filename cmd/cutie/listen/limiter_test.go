package listen

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
)

func TestLimiterWaitsForAPlace(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(ln, 1)
	srv := &http.Server{ConnState: l.Ended, Handler: http.NotFoundHandler()}
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	first, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c net.Conn) error {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := c.Read(make([]byte, 1))
		return err
	}
	if err := ask(first); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if err := ask(second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("second connection while the first is open: got %v, want no answer", err)
	}
	first.Close()
	second.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := second.Read(make([]byte, 1)); err != nil {
		t.Errorf("second connection after the first: %v", err)
	}
	srv.Close()
	if err := <-done; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// startLimited serves with l in front, and ends when the test does.
func startLimited(t *testing.T, max int, h http.Handler, proxies ...string) *Limiter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var trusted access.Proxies
	for _, text := range proxies {
		p, err := access.ParseProxy(text)
		if err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, p)
	}
	l := Limit(ln, max).Trusting(trusted)
	serveOn(t, l, &http.Server{Handler: h})
	return l
}

// serveOn starts the server on l, and ends it when the test does.
func serveOn(t testing.TB, l *Limiter, srv *http.Server) {
	t.Helper()
	srv.ConnState = l.Ended
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}

// dialFrom connects to the Limiter from an address of loopback. One who is
// refused may hear of it only later.
func dialFrom(t *testing.T, l *Limiter, from string) (net.Conn, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// begin sends the beginning of a request from an address.
func begin(t *testing.T, l *Limiter, from, text string) {
	t.Helper()
	c, err := dialFrom(t, l, from)
	if err == nil {
		_, err = io.WriteString(c, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// askFrom makes a request by a connection of its own, and returns the status, or
// why there is none.
func askFrom(t *testing.T, l *Limiter, from string) string {
	t.Helper()
	c, err := dialFrom(t, l, from)
	if err != nil {
		return "closed"
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "closed"
	}
	resp.Body.Close()
	return resp.Status
}

func TestOneAddressDoesNotTakeAllConnections(t *testing.T) {
	const most = 60
	begun := make(chan bool, most)
	l := startLimited(t, most, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			begun <- true
			io.Copy(io.Discard, r.Body)
		}
	}))
	// Half of the places go to bodies that do not come, until one is refused.
	for range most / 2 {
		begin(t, l, "127.0.0.1", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
		<-begun
	}
	if err := l.Told(); err != nil {
		t.Errorf("within its share: got %v", err)
	}
	if got := askFrom(t, l, "127.0.0.1"); got != "closed" {
		t.Errorf("beyond its share: got %s, want it closed", got)
	}
	if err := l.Told(); err == nil || !strings.HasPrefix(err.Error(), "127.0.0.1 has its share") {
		t.Errorf("got %v, want that 127.0.0.1 is refused", err)
	}
	if err := l.Told(); err != nil {
		t.Errorf("told twice: %v", err)
	}
	// Another one has idle connections too, and a third still gets in.
	for range most / 4 {
		if _, err := dialFrom(t, l, "127.0.0.2"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if got := askFrom(t, l, "127.0.0.3"); got != "200 OK" {
			t.Fatalf("another address: got %s, want 200", got)
		}
	}
}

func TestPlacesAreGivenBackWhenConnectionsEnd(t *testing.T) {
	l := startLimited(t, 100, http.NotFoundHandler()) // the server hears of the end of one a moment later
	for range 200 {
		if got := askFrom(t, l, "127.0.0.1"); got == "closed" {
			t.Fatal("one connection at a time is refused")
		}
	}
}

func TestTrustedProxyMayTakeAllConnections(t *testing.T) {
	const most = 20
	begun, end := make(chan bool), make(chan bool)
	l := startLimited(t, most, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-end
	}), "127.0.0.1")
	for range most {
		begin(t, l, "127.0.0.1", "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-begun
	}
	close(end)
	if err := l.Told(); err != nil {
		t.Error(err)
	}
}

func TestConnectionsLeaveFilesToTheHome(t *testing.T) {
	for _, tt := range []struct {
		asked int
		files uint64
		want  int
	}{{10_000, 1 << 20, 10_000}, {10_000, 1024, 512}, {100, 1024, 100}, {1, 1, 1}, {10, 1<<64 - 1, 10}} {
		if got := Connections(tt.asked, tt.files); got != tt.want {
			t.Errorf("%d with %d files: got %d, want %d", tt.asked, tt.files, got, tt.want)
		}
	}
}
