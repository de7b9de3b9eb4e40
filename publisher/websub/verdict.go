package websub

import (
	"context"
	"net/http/httptrace"
	"time"
)

// A verdict is what those learn who asked the hub for something and wait for
// the answer: whether a request to their callback is refused on our side. They
// could not be told later, since there is no other way to them.
type verdict struct {
	done chan struct{} // closed when it is settled
	err  error         // why the callback is refused; nil if it is not
}

// wait returns why a callback is refused, or nil if it is not, or if that is
// not known in time.
func (v *verdict) wait(ctx context.Context, limit time.Duration) error {
	if limit == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return nil
	}
}

// settle tells those who wait.
func (h *Hub) settle(s *subscription, refused *refusedError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.verdict == nil {
		return
	}
	if refused != nil {
		s.verdict.err = refused
	}
	close(s.verdict.done)
	s.verdict = nil
}

// traced returns a context for a request to a callback that settles the
// verdict as soon as there is a connection. Whoever waits for the answer before
// he looks at his callback would wait for himself otherwise.
func (h *Hub) traced(ctx context.Context, s *subscription) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				h.settle(s, nil)
			}
		},
		GotConn: func(httptrace.GotConnInfo) { h.settle(s, nil) },
	})
}
