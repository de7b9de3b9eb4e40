package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
)

type connKey struct{}

// serveRequests serves requests as a daemon does: h gets them with a [Request], which is
// whole when h has read the body to its end.
func serveRequests(t *testing.T, srv *http.Server, h func(q *Request, w http.ResponseWriter, r *http.Request)) *Limiter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := Limit(ln, 100)
	answerWith(srv, h)
	serveOn(t, l, srv)
	return l
}

// answerWith has the server answer by h.
func answerWith(srv *http.Server, h func(q *Request, w http.ResponseWriter, r *http.Request)) {
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Request
		q.Begin(r.Context(), r.Context().Value(connKey{}).(*Conn), time.Now())
		defer q.End()
		if r.ContentLength == 0 {
			q.Whole()
		}
		h(&q, w, r.WithContext(&q))
	})
}

func TestRequestEndsWhenItsClientGoesAway(t *testing.T) {
	waits := map[string]func(q *Request){
		"done": func(q *Request) { <-q.Done() },
		"error": func(q *Request) {
			for q.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		},
		"child": func(q *Request) {
			ctx, cancel := context.WithTimeout(q, time.Hour)
			defer cancel()
			<-ctx.Done()
		},
	}
	for name, wait := range waits {
		for _, body := range []string{"", "a body"} {
			for _, early := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d octets, early %t", name, len(body), early), func(t *testing.T) {
					begun, ended := make(chan bool), make(chan error)
					l := serveRequests(t, &http.Server{}, func(q *Request, w http.ResponseWriter, r *http.Request) {
						if early { // before the body is read
							q.Done()
						}
						if _, err := io.Copy(io.Discard, r.Body); err != nil {
							t.Error(err)
						}
						q.Whole()
						begun <- true
						wait(q)
						ended <- q.Err()
					})
					c := post(t, l, body)
					<-begun
					select {
					case err := <-ended:
						t.Fatalf("ended with %v while its client waits", err)
					case <-time.After(20 * time.Millisecond):
					}
					c.Close()
					if err := <-ended; err != context.Canceled {
						t.Errorf("got %v, want %v", err, context.Canceled)
					}
				})
			}
		}
	}
}

// post sends a request with a body.
func post(t *testing.T, l *Limiter, body string) net.Conn {
	t.Helper()
	c, err := dialFrom(t, l, "127.0.0.1")
	must(t, err)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return c
}

func TestRequestEndsWithItsHandler(t *testing.T) {
	kept := make(chan *Request, 2)
	l := serveRequests(t, &http.Server{}, func(q *Request, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/asked" {
			q.Done()
		}
		kept <- q
	})
	for _, path := range []string{"/asked", "/"} {
		resp, err := http.Get("http://" + l.Addr().String() + path)
		must(t, err)
		resp.Body.Close()
		q := <-kept
		<-q.Done()
		if err := q.Err(); err != context.Canceled {
			t.Errorf("%s: got %v, want %v", path, err, context.Canceled)
		}
	}
}

// Each next request comes when the one before was answered, while it waits, or in pieces
// that leave the server one octet of space in its buffer.
func TestConnectionServesOn(t *testing.T) {
	const ask = "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nX-Long: %s\r\n\r\n%s"
	begun := make(chan bool, 1)
	l := serveRequests(t, &http.Server{}, func(q *Request, w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		q.Whole()
		switch r.URL.Path {
		case "/asked":
			q.Done()
		case "/waits":
			done := q.Done()
			begun <- true
			select {
			case <-done:
				t.Error("a request ended because of the next one")
			case <-time.After(10 * time.Millisecond):
			}
		}
		fmt.Fprintf(w, "%s%d%s", r.URL.Path, len(r.Header.Get("X-Long")), text)
	})
	c, err := dialFrom(t, l, "127.0.0.1")
	must(t, err)
	c.SetDeadline(time.Now().Add(time.Minute))
	answers := bufio.NewReader(c)
	expect := func(want string) {
		t.Helper()
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	for _, path := range []string{"quick", "asked", "waits"} {
		for _, body := range []string{"", "a body"} {
			for range 20 {
				fmt.Fprintf(c, ask, path, len(body), "", body)
				if path == "waits" {
					<-begun
					fmt.Fprintf(c, ask, "next", len(body), "", body)
				}
				expect("/" + path + "0" + body)
				if path == "waits" {
					expect("/next0" + body)
				}
			}
		}
	}
	for n := 4000; n < 4200; n++ {
		head := strings.Repeat("h", n)
		fmt.Fprintf(c, ask+ask, "quick", 0, head, "", "quick", 1, head, "b")
		expect(fmt.Sprintf("/quick%d", n))
		expect(fmt.Sprintf("/quick%db", n))
	}
}

func TestDeadlinesOfAConnection(t *testing.T) {
	const short = 50 * time.Millisecond
	failed := make(chan error, 1)
	l := serveRequests(t, &http.Server{IdleTimeout: short, ReadHeaderTimeout: short}, func(q *Request, w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(short))
		if r.URL.Path == "/long" {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			failed <- err
		}
	})
	const quick = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, last := range []string{"", "GET / HTT", "GET /long HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(last, func(t *testing.T) {
			c, err := dialFrom(t, l, "127.0.0.1")
			must(t, err)
			answers := bufio.NewReader(c)
			for range 3 {
				io.WriteString(c, quick)
				resp, err := http.ReadResponse(answers, nil)
				must(t, err)
				resp.Body.Close()
			}
			io.WriteString(c, last)
			if strings.Contains(last, "/long") {
				if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("answer that nobody takes: got %v, want %v", err, os.ErrDeadlineExceeded)
				}
			}
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, answers); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the server leaves the connection open")
			}
		})
	}
}

func TestDeadlineIsSetWhereItMatters(t *testing.T) {
	now := time.Now()
	in := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		what      string
		set, want time.Time
		due       bool
	}{
		{"none", time.Time{}, time.Time{}, false},
		{"the first", time.Time{}, in(120), true},
		{"none any more", in(120), time.Time{}, true},
		{"the same", in(120), in(120), false},
		{"a little later", in(120), in(122), false},
		{"much later", in(120), in(130), true},
		{"sooner", in(120), in(119), true},
		{"soon, and set for sooner", in(1), in(2), true},
		{"past", in(120), in(-1), true},
		{"past, and set for before", in(-2), in(-1), true},
		{"after a past one", in(-1), in(120), true},
	} {
		d := deadline{want: tt.want, set: tt.set}
		got, due := d.due()
		if due != tt.due || due && got != tt.want || d.set != got {
			t.Errorf("%s: got %v, %t, set to %v, want %v, %t", tt.what, got, due, d.set, tt.want, tt.due)
		}
	}
}

// A small request waits for another goroutine, as for the journal; bare: without a Conn.
func BenchmarkRequest(b *testing.B) {
	sync := make(chan chan bool)
	defer close(sync)
	go func() {
		for done := range sync {
			time.AfterFunc(100*time.Microsecond, func() { done <- true })
		}
	}()
	commit := func() {
		done := make(chan bool)
		sync <- done
		<-done
	}
	for _, bare := range []bool{true, false} {
		b.Run(fmt.Sprintf("bare=%t", bare), func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := &http.Server{ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute}
			if bare {
				srv.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_ = r.WithContext(context.WithValue(r.Context(), connKey{}, r))
					commit()
				})
				go srv.Serve(ln)
				defer srv.Close()
			} else {
				answerWith(srv, func(*Request, http.ResponseWriter, *http.Request) { commit() })
				serveOn(b, Limit(ln, 100), srv)
			}
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer c.Close()
				answer := make([]byte, 4096)
				for pb.Next() {
					io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
					if _, err := c.Read(answer); err != nil { // the whole answer
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func TestLimiterWaitsForAPlace(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := Limit(ln, 1)
	srv := &http.Server{ConnState: l.Ended, Handler: http.NotFoundHandler()}
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	first, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	ask := func(c net.Conn) error {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := c.Read(make([]byte, 1))
		return err
	}
	must(t, ask(first))
	second, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
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
	must(t, err)
	var trusted access.Proxies
	for _, text := range proxies {
		p, err := access.ParseProxy(text)
		must(t, err)
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
	must(t, err)
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

// A troubled listener fails for once with each of some errors.
type troubled struct {
	net.Listener
	errs []error
}

func (l *troubled) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// A shortage or an error of the network ends no server; one of the socket does.
func TestAServerGoesOnAfterErrorsOfConnections(t *testing.T) {
	for _, c := range []struct {
		errs []error
		ends bool
	}{
		{errs: []error{syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO}},
		{errs: []error{syscall.EMFILE}},
		{errs: []error{syscall.EBADF}, ends: true},
		{errs: []error{syscall.EINVAL}, ends: true},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		server := &http.Server{ErrorLog: stdlog.New(io.Discard, "", 0), Handler: http.NotFoundHandler()}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(patient{&troubled{ln, c.errs}}) }()
		if c.ends {
			if err := <-ended; err == nil {
				t.Errorf("%v: the server ended without an error", c.errs)
			}
			continue
		}
		resp, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatalf("%v: %v", c.errs, err)
		}
		resp.Body.Close()
		server.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("%v: %v", c.errs, err)
		}
	}
}

// After a long request the first look at its error reports a client gone before.
func TestOneLookTellsThatTheClientIsGone(t *testing.T) {
	for _, body := range []string{"", "b"} {
		begun, ended := make(chan bool), make(chan error)
		closed := make(chan bool)
		l := serveRequests(t, &http.Server{}, func(q *Request, w http.ResponseWriter, r *http.Request) {
			r.Body.Read(make([]byte, 2))
			q.Whole()
			begun <- true
			<-closed
			time.Sleep(2 * brief)
			ended <- q.Err()
		})
		c := post(t, l, body)
		<-begun
		c.Close()
		closed <- true
		if err := <-ended; err != context.Canceled {
			t.Errorf("%q: got %v, want %v", body, err, context.Canceled)
		}
	}
}

// Children of a request cost no goroutine, also below a context with a value.
func TestChildOfARequestNeedsNoGoroutine(t *testing.T) {
	grown := make(chan int)
	l := serveRequests(t, &http.Server{}, func(q *Request, w http.ResponseWriter, r *http.Request) {
		q.Done()
		before := runtime.NumGoroutine()
		for range 100 {
			_, cancel := context.WithCancel(context.WithValue(q, connKey{}, 1))
			defer cancel()
		}
		grown <- runtime.NumGoroutine() - before
	})
	post(t, l, "")
	if n := <-grown; n > 10 {
		t.Errorf("100 contexts have %d goroutines", n)
	}
}

func TestCertificateThatIsNoFileIsRefusedAtOnce(t *testing.T) {
	fifo := t.TempDir() + "/fifo"
	must(t, syscall.Mkfifo(fifo, 0o600))
	for _, name := range []string{fifo, os.DevNull} {
		if _, err := LoadCertificate(name, name); err == nil || !strings.Contains(err.Error(), name+" is no regular file") {
			t.Errorf("got %v, want that %s is no regular file", err, name)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
