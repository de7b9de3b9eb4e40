package express_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/cmd/cutie/express"
)

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
