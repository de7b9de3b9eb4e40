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
