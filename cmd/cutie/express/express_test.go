package express_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/cmd/cutie/express"
)

// A service is a server with a front before it, or none.
type service struct {
	front  *express.Front
	server *http.Server
	addr   string
	plain  atomic.Int32 // requests that the server had no part in
	closed atomic.Int32 // connections
	log    logged
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type hookKey struct{}

// serve serves h until the test ends.
func serve(t *testing.T, front bool, h http.HandlerFunc, change ...func(*http.Server)) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{addr: ln.Addr().String()}
	s.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, flushes := w.(http.Flusher); !flushes {
				s.plain.Add(1)
			}
			h(w, r)
		}),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(&s.log, "", 0),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, hookKey{}, c) },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				s.closed.Add(1)
			}
		},
	}
	for _, f := range change {
		f(s.server)
	}
	if front {
		s.front = express.Listen(ln, s.server, func(path string, _ http.Header, _ int64) bool { return path != "/server" })
		ln = s.front
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ln) }()
	t.Cleanup(func() {
		s.server.Close()
		if err := <-served; err != http.ErrServerClosed && !errors.Is(err, net.ErrClosed) {
			t.Errorf("server ended with %v", err)
		}
		if front {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			s.front.Shutdown(over)
			if err := s.front.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func (s *service) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// A told answer is what a client sees of one.
type told struct {
	status int
	header string
	body   string
	err    string
}

func readAnswer(in *bufio.Reader) told {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return told{err: err.Error()}
	}
	defer resp.Body.Close()
	if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil {
		return told{err: "Date: " + err.Error()}
	}
	resp.Header.Del("Date")
	body, err := io.ReadAll(resp.Body)
	a := told{status: resp.StatusCode, header: fmt.Sprint(resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close), body: string(body)}
	if err != nil {
		a.err = err.Error()
	}
	return a
}

// ask sends parts of requests, each a while after the one before, and returns
// all answers up to the end of the connection.
func (s *service) ask(t *testing.T, parts ...string) (answers []told) {
	t.Helper()
	c := s.dial(t)
	go func() {
		for i, p := range parts {
			if i > 0 {
				time.Sleep(20 * time.Millisecond)
			}
			io.WriteString(c, p)
		}
		c.CloseWrite()
	}()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err != nil {
			return answers
		}
		answers = append(answers, readAnswer(in))
	}
}

func post(path, body string, fields ...string) string {
	text := "POST " + path + " HTTP/1.1\r\nHost: example.org\r\n"
	for _, f := range fields {
		text += f + "\r\n"
	}
	if body != "" {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return text + "\r\n" + body
}

// cut parts text so many octets before its end.
func cut(text string, before ...int) (parts []string) {
	for _, n := range before {
		at := len(text) - n
		for _, p := range parts {
			at -= len(p)
		}
		parts = append(parts, text[len(strings.Join(parts, "")):][:at])
	}
	return append(parts, text[len(strings.Join(parts, "")):])
}

// handle answers in the ways that handlers have.
func handle(file string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/unread":
			http.Error(w, "no", http.StatusNotFound)
		case "/empty":
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
				panic(err)
			}
		case "/nothing":
			w.Header().Del("Content-Type")
		case "/long": // its length is not said
			for range 100 {
				io.WriteString(w, strings.Repeat("long ", 100))
			}
		case "/said":
			w.Header().Set("Content-Length", "50000")
			io.WriteString(w, strings.Repeat("s", 10))
			io.WriteString(w, strings.Repeat("a", 40000))
			io.WriteString(w, strings.Repeat("d", 9990))
		case "/file":
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Length", "100000")
			io.Copy(w, io.LimitReader(f, 60000))
			io.Copy(w, f)
		case "/fileparts": // as much as one asks for may be more than there is
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Length", "100000")
			for _, want := range []int64{0, 60000, 0, 20000} {
				part := &io.LimitedReader{R: f, N: want}
				if n, err := io.Copy(w, part); n != want || err != nil || part.N != 0 {
					panic(fmt.Sprint(n, err, part.N))
				}
			}
			rest := &io.LimitedReader{R: f, N: 1 << 40}
			if n, err := io.Copy(w, rest); n != 20000 || err != nil || rest.N != 1<<40-20000 {
				panic(fmt.Sprint(n, err, rest.N))
			}
		case "/fileunsaid":
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			io.Copy(w, f)
		case "/toolittle":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "few")
		case "/toomuch":
			w.Header().Set("Content-Length", "3")
			if _, err := io.WriteString(w, "many"); err != http.ErrContentLength {
				panic(err)
			}
			io.WriteString(w, "few")
		case "/close":
			w.Header().Set("Connection", "close")
			io.WriteString(w, "the end")
		case "/two":
			w.Header()["X-Several"] = []string{"a", "b\r\nX-Forged: c"}
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Late", "too late")
		case "/abort":
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/panic":
			io.WriteString(w, "half")
			panic("broken")
		default: // what was read
			body, err := io.ReadAll(r.Body)
			if n, again := r.Body.Read(make([]byte, 1)); n != 0 || again == nil {
				panic("there is more")
			}
			local := r.Context().Value(http.LocalAddrContextKey)
			hook := r.Context().Value(hookKey{}) != nil
			server := r.Context().Value(http.ServerContextKey) != nil
			fmt.Fprintf(w, "%s %s %s %s %d %v %q %v %v %v %v", r.Method, r.URL, r.Host, r.Proto, r.ContentLength, r.Header, body, err, hook, server, local != nil)
		}
	}
}

// What a client sees must not depend on who serves it.
func TestAnswersAreThoseOfTheServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 200<<10)
	for _, tt := range []struct {
		name  string
		plain int32
		parts []string
	}{
		{"no body", 1, []string{post("/read", "")}},
		{"body", 1, []string{post("/read", "hello", "Content-Type: text/plain", "User-Agent: test")}},
		{"body later", 1, cut(post("/read", "hello"), 5)},
		{"body in pieces", 1, cut(post("/read", large), 150000, 70000)},
		{"head in pieces", 0, cut(post("/read", "hello"), 30)},
		{"one after the other", 3, []string{post("/read", "1"), post("/read", "22"), post("/read", "")}},
		{"in one write", 3, []string{post("/read", "1") + post("/read", "22") + post("/read", "")}},
		{"larger than is taken", 0, []string{post("/read", large+large)}},
		{"named for the server", 0, []string{post("/server", "1")}},
		{"other after plain", 2, []string{post("/read", "1") + post("/read", "2") + "GET /read HTTP/1.1\r\nHost: a\r\n\r\n" + post("/read", "4")}},
		{"empty line behind a body", 2, []string{post("/read", "1") + "\r\n" + post("/read", "2")}},
		{"empty line behind a body, later", 2, []string{post("/read", "1"), "\r\n", post("/read", "2")}},
		{"two empty lines, and another kind", 1, []string{post("/read", "1"), "\n\r\n", "GET /read HTTP/1.1\r\nHost: a\r\n\r\n"}},
		{"nothing but an empty line", 1, []string{post("/read", "1"), "\r\n"}},
		{"too many empty lines", 1, []string{post("/read", "1") + "\r\n\r\n\r\n" + post("/read", "2")}},
		{"empty line first", 0, []string{"\r\n" + post("/read", "1")}},
		{"known head, other path", 2, []string{post("/read", "1"), post("/read", "2"), post("/server", "3")}},
		{"known head that is for the server", 0, []string{post("/server", "1"), post("/server", "2")}},
		{"chunked after plain", 1, []string{post("/read", "1") + "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + post("/read", "3")}},
		{"expects", 0, []string{"POST /read HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"}},
		{"malformed after plain", 1, []string{post("/read", "1") + "nonsense\r\n\r\n"}},
		{"HTTP/1.0", 0, []string{"POST /read HTTP/1.0\r\n\r\n"}},
		{"body cut off", 1, cut(post("/read", "hello world"), 5)[:1]},
		{"body left", 2, []string{post("/unread", "hello") + post("/read", "2")}},
		{"large body left", 2, []string{post("/unread", large) + post("/read", "2")}},
		{"no content", 2, []string{post("/empty", "1") + post("/read", "2")}},
		{"nothing written", 2, []string{post("/nothing", "") + post("/read", "2")}},
		{"long answer", 2, []string{post("/long", "") + post("/read", "2")}},
		{"long answer, announced", 2, []string{post("/said", "") + post("/read", "2")}},
		{"file", 2, []string{post("/file", "") + post("/read", "2")}},
		{"file in parts", 2, []string{post("/fileparts", "") + post("/read", "2")}},
		{"file, not announced", 2, []string{post("/fileunsaid", "") + post("/read", "2")}},
		{"less than announced", 1, []string{post("/toolittle", "") + post("/read", "2")}},
		{"more than announced", 1, []string{post("/toomuch", "") + post("/read", "2")}},
		{"closed by the handler", 1, []string{post("/close", "") + post("/read", "2")}},
		{"header", 2, []string{post("/two", "") + post("/read", "2")}},
		{"aborted", 1, []string{post("/abort", "") + post("/read", "2")}},
		{"panicked", 1, []string{post("/panic", "") + post("/read", "2")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			front, alone := serve(t, true, handle(file)), serve(t, false, handle(file))
			got, want := front.ask(t, tt.parts...), alone.ask(t, tt.parts...)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got\n%.2000s\nwant\n%.2000s", fmt.Sprint(got), fmt.Sprint(want))
			}
			if n := front.plain.Load(); n != tt.plain {
				t.Errorf("%d requests were served in front, want %d", n, tt.plain)
			}
			if got, want := strings.Contains(front.log.String(), "broken"), strings.Contains(alone.log.String(), "broken"); got != want {
				t.Errorf("panic logged: %v, want %v", got, want)
			}
		})
	}
}

// A connection is reported closed once, whoever had it.
func TestConnectionsAreReported(t *testing.T) {
	s := serve(t, true, handle(""))
	ways := []string{
		post("/read", "1"), post("/abort", ""), post("/close", ""), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n", "",
		post("/read", "1") + "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	}
	for _, text := range ways {
		s.ask(t, text)
	}
	for s.closed.Load() < int32(len(ways)) { // the test's own limit ends this
		time.Sleep(time.Millisecond)
	}
	s.ask(t, "")
	for s.closed.Load() < int32(len(ways))+1 {
		time.Sleep(time.Millisecond)
	}
	if n := s.closed.Load(); n != int32(len(ways))+1 {
		t.Errorf("%d connections closed, want %d", n, len(ways)+1)
	}
}

// A handler that is still writing is told by its context that nobody reads.
func TestContextEndsWithTheClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"chunks": func(w http.ResponseWriter) error {
			_, err := w.Write(make([]byte, 64<<10))
			return err
		},
		"announced": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "999999999999")
			_, err := w.Write(make([]byte, 64<<10))
			return err
		},
		"file": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "999999999999")
			f, err := os.Open(file)
			if err != nil {
				return nil
			}
			defer f.Close()
			_, err = io.Copy(w, f)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := make(chan error, 1)
			s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
				for write(w) == nil {
				}
				errs <- r.Context().Err()
			})
			c := s.dial(t)
			io.WriteString(c, post("/read", ""))
			c.SetLinger(0)
			c.Read(make([]byte, 1))
			c.Close()
			if err := <-errs; err != context.Canceled {
				t.Errorf("the context of a client that has gone: %v, want that it has ended", err)
			}
		})
	}
}

func TestDeadlineOfABody(t *testing.T) {
	errs := make(chan error, 1)
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		errs <- err
	})
	c := s.dial(t)
	io.WriteString(c, cut(post("/read", "hello"), 3)[0])
	if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("slow body: %v, want a deadline", err)
	}
	// The connection ends, for where the next request begins is not known.
	answer := readAnswer(bufio.NewReader(c))
	if answer.status != http.StatusOK {
		t.Errorf("got %+v, want the answer", answer)
	}
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("behind the answer: %d, %v, want the end", n, err)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	for name, text := range map[string]string{"new": "", "used": post("/read", "1")} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, true, handle(""), func(s *http.Server) {
				s.ReadHeaderTimeout = 30 * time.Millisecond
				s.IdleTimeout = 40 * time.Millisecond
			})
			c := s.dial(t)
			io.WriteString(c, text)
			if _, err := io.ReadAll(c); err != nil {
				t.Errorf("idle connection: %v, want its end", err)
			}
		})
	}
}

func TestShutdownWaitsForRequests(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- true
			<-leave
		}
		io.WriteString(w, "done")
	})
	fresh, used, active := s.dial(t), s.dial(t), s.dial(t)
	io.WriteString(used, post("/quick", ""))
	in := bufio.NewReader(used)
	if a := readAnswer(in); a.body != "done" {
		t.Fatalf("got %+v", a)
	}
	io.WriteString(active, post("/slow", ""))
	<-entered
	over := make(chan error)
	go func() { over <- s.front.Shutdown(context.Background()) }()
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("idle connection: %v, want its end", err)
	}
	if _, err := fresh.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("new connection: %v, want its end", err)
	}
	select {
	case err := <-over:
		t.Errorf("shut down with %v before the request had ended", err)
	default:
	}
	close(leave)
	if a := readAnswer(bufio.NewReader(active)); a.body != "done" || !strings.HasSuffix(a.header, "true") {
		t.Errorf("request in progress: %+v, want an answer that closes the connection", a)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", s.addr); err == nil {
		c.Close()
		t.Error("a connection is made after the end")
	}
}

func TestShutdownCutsOff(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-leave
	})
	defer close(leave)
	c := s.dial(t)
	io.WriteString(c, post("/slow", ""))
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.front.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that time was over", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("request in progress: %v, want its end", err)
	}
}

// scarce fails to accept, as a process does that has no descriptors left.
type scarce struct {
	net.Listener
	left atomic.Int32
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return false }

func (s *scarce) Accept() (net.Conn, error) {
	if s.left.Add(-1) >= 0 {
		return nil, temporary{errors.New("too many open files")}
	}
	return s.Listener.Accept()
}

func TestAcceptGoesOn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	few := &scarce{Listener: ln}
	few.left.Store(3)
	server := &http.Server{Handler: handle(""), ErrorLog: log.New(io.Discard, "", 0)}
	front := express.Listen(few, server, func(string, http.Header, int64) bool { return true })
	served := make(chan error, 1)
	go func() { served <- server.Serve(front) }()
	s := &service{addr: ln.Addr().String()}
	for _, text := range []string{post("/read", "1"), "GET /read HTTP/1.1\r\nHost: a\r\n\r\n"} {
		if a := s.ask(t, text); len(a) != 1 || a[0].status != http.StatusOK {
			t.Errorf("%q: got %v", text, a)
		}
	}
	server.Close()
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
	if err := front.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
