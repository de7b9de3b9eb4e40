package rest

import "context"

type userKey struct{}

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
