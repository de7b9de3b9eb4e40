package rest

import (
	"context"
	"net"
	"net/http"
)

type (
	userKey    struct{}
	addressKey struct{}
)

// WithUser adds the authenticated user to the context of a request; jobs
// submitted with it are the user's own.
func WithUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf returns the user of a request, "" without one.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// WithAddress adds the address of the client to the context of a request behind
// a proxy.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// callerOf tells callers apart: users, and addresses of callers without a name.
// It is "" without either, as over the socket of a home.
func callerOf(r *http.Request) string {
	if user := UserOf(r.Context()); user != "" {
		return "user " + user
	}
	if address, ok := r.Context().Value(addressKey{}).(string); ok {
		return address
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
