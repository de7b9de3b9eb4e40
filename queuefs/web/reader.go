package web

import (
	"context"
	"net/http"
)

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

// A Failure is a refused request, for its page.
type Failure struct {
	Status       int
	Detail       string // the thing and its error; "" if that is not for the reader
	Method, Path string
	Queue, Job   string // in the path; "" for none, or before the request was admitted
	After        string // seconds until another try can succeed; "" if nobody knows
	// May is that of [MayOf].
	May func(method, path string) bool
}

// FailureOf describes a request answered with e; header is that of the answer.
func FailureOf(header http.Header, r *http.Request, e *Error) *Failure {
	return &Failure{Status: e.Status, Detail: e.Message, Method: r.Method, Path: r.URL.Path, Queue: r.PathValue("queue"), Job: r.PathValue("job"),
		After: header.Get("Retry-After"), May: MayOf(r.Context())}
}
