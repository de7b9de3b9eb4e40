package listen

import (
	"context"
	"sync"
	"time"
)

// brief is how long a request may take before a look at its error is a question about its
// client.
const brief = 50 * time.Millisecond

// A Request is the context of a request on a [Conn]. As the context of an HTTP server does,
// a Request ends with its handler, or before when the client goes away. But the connection
// is watched only when somebody waits for the end: most requests are answered before. The
// zero Request does nothing. The lock of a Request comes before that of its connection.
type Request struct {
	context.Context // of the server
	conn            *Conn
	begun           time.Time

	mu     sync.Mutex
	asked  context.Context // nil: nobody asked
	cancel context.CancelFunc
	stop   func() // of the watch, nil: the server watches
	ended  bool
}

// Begin makes q the context of a request with the context ctx of the server.
func (q *Request) Begin(ctx context.Context, conn *Conn, at time.Time) {
	q.Context, q.conn, q.begun = ctx, conn, at
}

// Whole says that the request was read to its end. From here on nothing is read from the
// connection until End.
func (q *Request) Whole() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil && q.asked == nil && !q.ended {
		q.conn.setWhole(true)
	}
}

// End says that the request was answered, except for what is to be flushed.
func (q *Request) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn == nil || q.ended {
		return
	}
	q.ended = true
	if q.stop != nil {
		q.stop()
	}
	q.conn.setWhole(false)
	if q.cancel != nil {
		q.cancel()
	}
}

// Done asks for the end of the client too.
func (q *Request) Done() <-chan struct{} { return q.ask().Done() }

// Err asks for the end of the client if the request takes long.
func (q *Request) Err() error {
	q.mu.Lock()
	asked := q.asked
	q.mu.Unlock()
	if asked == nil {
		if time.Since(q.begun) < brief {
			return q.Context.Err()
		}
		asked = q.ask()
	}
	return asked.Err()
}

// Value leads [context.WithCancel] to the context of [Request.Done], also through contexts
// with values. Its children need no goroutine then.
func (q *Request) Value(key any) any {
	q.mu.Lock()
	asked := q.asked
	q.mu.Unlock()
	if asked == nil {
		return q.Context.Value(key)
	}
	return asked.Value(key)
}

// ask returns a context that ends with the request or its client.
func (q *Request) ask() context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.asked != nil:
	case q.ended: // the server is about to end its own
		return q.Context
	default:
		q.asked, q.cancel = context.WithCancel(q.Context)
		q.stop = q.conn.watch(q.cancel)
	}
	return q.asked
}
