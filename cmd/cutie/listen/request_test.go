package listen

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"
)

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
