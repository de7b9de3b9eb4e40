package web

import (
	"context"
	"net/http"

	"cutie/queuefs/state"
)

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
