// Package buffers limits the memory that requests fill. All requests share one
// [Budget], and each has an [Account] with it: a handler takes bytes from the account
// before it keeps them, and is refused while there are none left for the client. The
// account gives everything back at the end of the request.
//
// The fixed buffers of connections do not count, since the number of connections is limited.
// What a request over HTTP/2 takes counts, because a connection has many requests at once. So
// do the parts of an answer that wait for the client.
package buffers

import (
	"context"
	"net/netip"
	"sync"
)

// A Budget divides bytes among clients. It is safe for concurrent use.
type Budget interface {
	// TakeMany takes n bytes, or returns false if the client may not have them now.
	TakeMany(client netip.Addr, n int) bool
	// LeaveMany gives n bytes back.
	LeaveMany(client netip.Addr, n int)
}

// An Account has the bytes of one request. A nil Account and the zero Account allow
// everything. It is safe for concurrent use.
type Account struct {
	budget Budget
	client netip.Addr

	mu      sync.Mutex
	held    int
	refused bool
}

// Open gives the zero account a budget. Close ends it.
func (a *Account) Open(b Budget, client netip.Addr) { a.budget, a.client = b, client }

// Take takes n more bytes. The error is [ErrFull].
func (a *Account) Take(n int) error {
	if a == nil || a.budget == nil || n <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.budget.TakeMany(a.client, n) {
		a.refused = true
		return ErrFull
	}
	a.held += n
	return nil
}

// Give gives n bytes back, those still held at most.
func (a *Account) Give(n int) {
	if a == nil || a.budget == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n = min(n, a.held); n > 0 {
		a.held -= n
		a.budget.LeaveMany(a.client, n)
	}
}

// Grow is Take, and Give for n below zero.
func (a *Account) Grow(n int) error {
	if n < 0 {
		a.Give(-n)
		return nil
	}
	return a.Take(n)
}

// Held returns the bytes taken, without those given back.
func (a *Account) Held() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// Return gives back everything above held bytes, as Held returned them before.
func (a *Account) Return(held int) { a.Give(a.Held() - held) }

// Refused reports whether bytes were refused.
func (a *Account) Refused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Close gives everything back.
func (a *Account) Close() { a.Return(0) }

// ErrFull is the error of a request for more memory than is left for its client. The
// request can be sent again later.
var ErrFull error = full{}

type full struct{}

func (full) Error() string {
	return "requests take too much memory already, all together or those of this address; try again later"
}

// HTTPStatus is for packages that know the status of an error alone.
func (full) HTTPStatus() int { return 503 }

type accountKey struct{}

// With adds the account to the context of a request.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// Of returns the account of a request, nil if it has none.
func Of(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}
