// Package web is shared by the rooms that speak HTTP: the table of routes with
// their rights, the router over it, the one mapping from errors to statuses,
// and the answer with an error in the form of the request.
//
// A room offers its rows by a method Routes. The daemon puts the rows of all
// rooms into one [Router]; nothing else takes a path of a URL apart.
package web

import (
	"context"
	"net/http"

	"cutie/queuefs/state"
)

// A Right is a right to use a queue.
type Right uint8

const (
	Read    Right = iota + 1 // states, payloads, files, published documents, events
	Submit                   // put jobs into it
	Consume                  // take jobs, report on them, and put them back
	Delete                   // delete pending jobs, hold and release them
	Admin                    // all of these, and the settings; for all queues, also to make queues
)

// RightNames are the rights in words.
var RightNames = [...]string{Read: "read", Submit: "submit", Consume: "consume", Delete: "delete", Admin: "admin"}

func (r Right) String() string {
	if int(r) >= len(RightNames) {
		return "none"
	}
	return RightNames[r]
}

// A Scope is the set of queues for a right.
type Scope uint8

const (
	Named   Scope = iota // the queue in the path
	Some                 // any queue
	Every                // all queues
	Body                 // any right for any queue: the body says more, and the handler asks again
	Own                  // the queue in the path, where the right to submit is enough: the handler shows callers only their own jobs
	Use                  // any right for the queue in the path: the handler shows only actions that callers may do
	Nothing              // any right for any queue: there is no route, and callers with a right learn this
)

// A Need is the right for a request. The zero Need is none.
type Need struct {
	Right Right
	Of    Scope
}

// Here is a right for the queue in the path.
func Here(r Right) Need { return Need{r, Named} }

// Anywhere is a right for any queue.
func Anywhere(r Right) Need { return Need{r, Some} }

// Everywhere is a right for all queues.
func Everywhere(r Right) Need { return Need{r, Every} }

// Otherwise is the Need of requests without a route.
var Otherwise = Need{Admin, Nothing}

// Waits says whether a request may wait for something to happen.
type Waits uint8

const (
	AtOnce    Waits = iota // never
	IfAsked                // with the field Prefer, or the parameter wait in the query or in a form
	OrEarlier              // the same; where too many wait, the handler answers early
	Always
	Endless // until the client goes
)

// A Help describes a method. Several routes may have the same.
type Help struct {
	Name    string   // as on the command line; matched without case
	Aliases []string // other names
	state.Help
}

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
