package listen

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// A look at the error of a request that took long tells of a client that went before it.
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
		c, err := dialFrom(t, l, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		<-begun
		c.Close()
		closed <- true
		if err := <-ended; err != context.Canceled {
			t.Errorf("%q: got %v, want %v", body, err, context.Canceled)
		}
	}
}

// A context that ends with a request costs no goroutine, also below one with a value.
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
	c, err := dialFrom(t, l, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	if n := <-grown; n > 10 {
		t.Errorf("100 contexts have %d goroutines", n)
	}
}
