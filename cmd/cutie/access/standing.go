package access

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"

	"cutie/queuefs/web"
)

// A proof is how a caller was identified.
type proof struct {
	book     *book             // at that time
	token    [sha256.Size]byte // hash of the token, zero for a password
	password string            // hash of the password in the book
}

// A standing is the right of a caller with a name for one request. It implements
// [web.Standing].
type standing struct {
	gate   *Gate
	caller *Caller
	need   web.Need
	queue  string
	header http.Header // of the answer
}

// Standing returns the standing of the caller of an admitted request, nil if the right
// lasts as long as the daemon. Its Still may add to header.
func (g *Gate) Standing(caller *Caller, header http.Header, need web.Need, queue string) web.Standing {
	if caller.proof.book == nil || need.Right == 0 {
		return nil
	}
	return &standing{g, caller, need, queue, header}
}

// Still reads the users file again if it has changed.
func (s *standing) Still() error {
	_ = s.gate.Reload() // the daemon reads it too, and says what is wrong with it
	return s.check(s.header)
}

// check asks the book of the moment.
func (s *standing) check(header http.Header) error {
	b, now := s.gate.book.Load(), s.gate.o.Now()
	if t := s.caller.expires; b == s.caller.proof.book && (t.IsZero() || now.Before(t)) {
		return nil
	}
	caller := b.callerOf(&s.caller.proof, s.caller.Name, now)
	if caller == nil {
		return challenge(header, `, error="invalid_token"`, "the name and password or the token has gone, or has expired")
	}
	if !s.gate.Allows(caller, s.need, s.queue) {
		return s.gate.refuse(header, caller, s.need)
	}
	return nil
}

// While watches each new book. The cause of the end is the error of Still.
func (s *standing) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	cancel := func() { end(nil) }
	if t := s.caller.expires; !t.IsZero() {
		timed, stop := context.WithDeadline(ctx, t)
		ctx, cancel = timed, func() { stop(); end(nil) }
	}
	w := &watch{standing: s, end: end}
	w.follow(s.caller.proof.book)
	return ctx, func() {
		w.close()
		cancel()
	}
}

// A watch ends a context with the right.
type watch struct {
	*standing
	end context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	stop   func() bool
}

// follow asks again at the end of a book.
func (w *watch) follow(b *book) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.stop = context.AfterFunc(b.over, func() {
		// The next book is open before this one ends.
		next := w.gate.book.Load()
		if err := w.check(http.Header{}); err != nil {
			w.end(err)
			return
		}
		w.follow(next)
	})
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.stop()
}
