// Package access admits callers, checks their rights, and logs their requests.
// It has no goroutines and no timers: the daemon calls [Gate.Reload] and
// [Log.Flush] regularly.
//
// # Users
//
// The users file is text. A line is an entry, with fields separated by blanks;
// empty lines and lines beginning with # stay as they are:
//
//	user NAME RIGHTS PASSWORD LIMITS
//	token NAME USER RIGHTS EXPIRES HASH
//
// PASSWORD is a bcrypt hash, for instance by htpasswd -B, or - for a user with
// tokens only. LIMITS, such as pending=100,active=1000, can be absent, see
// [queuefs.Limits]. RIGHTS are described at [Rights]. Those of a token narrow the rights
// of its user; same leaves them as they are. EXPIRES is a time in UTC or never.
// HASH is the SHA-256 of the token, in hexadecimal: the file reveals neither
// passwords nor tokens. It is written as a whole, with mode 0600, and read again
// when it changes. A file with mistakes changes nothing.
//
// # Rights
//
// The route of a request names the right it takes, see [web.Route]. Rights hold for
// all queues or for one. A request about a missing queue needs the right for all
// queues, so that asking does not reveal queues. Names of queues are no secret: the
// state of the service and the Source Description list all of them, for everyone
// with the right to read one. Numbers, jobs, payloads and events need the right to
// read the queue.
//
// # Logs
//
// A [Log] is a file of lines in the Combined Log Format, see [Entry].
package access

import (
	"context"
	"os"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// A Caller is the sender of a request, with rights.
type Caller struct {
	Name   string // of a user of the users file; "" for one without a name
	rights Rights
	narrow Rights // of a token, where narrowed
	token  bool
	limits queuefs.Limits

	expires time.Time // of a token; zero: never
	proof   proof
}

// Local is the caller behind a file only its owner can open, with all rights.
func Local() *Caller { return &Caller{rights: Everything} }

// May reports whether the caller has a right for a queue, by its cleaned
// identifier, or for all queues if that is "".
func (c *Caller) May(r web.Right, queue string) bool {
	return c.rights.Allow(r, queue) && (!c.token || c.narrow.Allow(r, queue))
}

// Limits returns the limits of the caller in each queue; those not set are of the
// queue.
func (c *Caller) Limits() queuefs.Limits { return c.limits }

// mayFor reports whether the caller has the right for any queue.
func (c *Caller) mayFor(r web.Right) bool {
	if c.May(r, "") {
		return true
	}
	for _, list := range []Rights{c.rights, c.narrow} {
		for _, g := range list {
			if g.Queue != "" && c.May(r, g.Queue) {
				return true
			}
		}
	}
	return false
}

type callerKey struct{}

// WithCaller adds the caller to the context of a request.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request; without one it has no rights.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// A Stamp identifies the state of a file without reading it.
type Stamp struct {
	inode, size, modified, changed int64
}

// StampOf returns the stamp of a file. Take it before reading the file, so that a
// change in between is noticed the next time.
func StampOf(name string) (Stamp, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.changed = int64(sys.Ino), sys.Ctim.Nano()
	}
	return s, nil
}
