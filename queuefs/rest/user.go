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

// WithUser adds the name of the user who asks to the context of a request. Who
// calls the Handler has found out that it is true; jobs submitted with it are
// the user's own.
func WithUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf returns the user who asks, "" for one without a name.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// WithAddress adds the address of the client to the context of a request, for
// those whose RemoteAddr is that of a proxy.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// callerOf tells callers apart: users, and addresses of those without a name.
// It is "" for one who has neither, as over the socket of a home.
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
