package web

import (
	"context"
	"net/http"

	"cutie/queuefs/state"
)

// A Standing is the right of a caller for a request that takes time: users and tokens
// may go meanwhile.
type Standing interface {
	// Still returns why the caller has no right any more, an [*Error]. It is asked after
	// a wait, before anything is handed out.
	Still() error
	// While returns a context that ends with ctx, or when the caller loses the right.
	While(ctx context.Context) (context.Context, context.CancelFunc)
}

type standingKey struct{}

// WithStanding adds the standing of the caller to the context of a request.
func WithStanding(ctx context.Context, s Standing) context.Context {
	return context.WithValue(ctx, standingKey{}, s)
}

// Still returns why the caller of a request has no right any more; see [Standing].
// Callers without a standing keep their right.
func Still(ctx context.Context) error {
	if s, ok := ctx.Value(standingKey{}).(Standing); ok {
		return s.Still()
	}
	return nil
}

// While returns the context of a request that ends when the caller loses the right.
func While(ctx context.Context) (context.Context, context.CancelFunc) {
	if s, ok := ctx.Value(standingKey{}).(Standing); ok {
		return s.While(ctx)
	}
	return context.WithCancel(ctx)
}

type waitingKey struct{}

// WithWaiting returns a context whose [Waiting] calls begun.
func WithWaiting(ctx context.Context, begun func()) context.Context {
	return context.WithValue(ctx, waitingKey{}, begun)
}

// Waiting is called by a handler that begins to wait for something to happen: the request is
// no change in progress from then on.
func Waiting(ctx context.Context) {
	if begun, ok := ctx.Value(waitingKey{}).(func()); ok {
		begun()
	}
}

type baseKey struct{}

// WithBase makes references in the answer to a request begin with base instead
// of the base URI of the service: clients reach the same name again, with their
// credentials.
func WithBase(ctx context.Context, base state.Base) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// BaseOf returns the beginning of references in the answer to a request: that
// of [WithBase], or else the base URI of the service.
func BaseOf(r *http.Request, baseURI string) state.Base {
	if base, ok := r.Context().Value(baseKey{}).(state.Base); ok {
		return base
	}
	return state.NewBase(baseURI)
}

type mayKey struct{}

// WithMay adds the rights of the sender to the context of a request: whether a
// request with a method to a path below the base would be admitted. Pages have
// forms and links for these requests only; without it, for all.
func WithMay(ctx context.Context, may func(method, path string) bool) context.Context {
	return context.WithValue(ctx, mayKey{}, may)
}

// MayOf returns the rights of WithMay; nil without them.
func MayOf(ctx context.Context) func(method, path string) bool {
	may, _ := ctx.Value(mayKey{}).(func(method, path string) bool)
	return may
}
