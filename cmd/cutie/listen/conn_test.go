package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

type connKey struct{}

// serveRequests serves requests as a daemon does: h gets them with a [Request], which is
// whole when h has read the body to its end.
func serveRequests(t *testing.T, srv *http.Server, h func(q *Request, w http.ResponseWriter, r *http.Request)) *Limiter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(c)
			for range 3 {
				io.WriteString(c, quick)
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
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
