// Package access says who came, what they may do, and writes down what they
// did. It has no goroutines and no timers: the daemon calls [Gate.Reload] and
// [Log.Flush] from its own.
//
// # Users
//
// The users file is text, one entry a line, fields parted by blanks; empty
// lines and lines that begin with # are kept as they are:
//
//	user NAME RIGHTS PASSWORD
//	token NAME USER RIGHTS EXPIRES HASH
//
// PASSWORD is a bcrypt hash, also one that htpasswd -B made, or - for a user who
// has tokens only. RIGHTS are described at [Rights]; those of a token narrow
// what its user may do, and same leaves it as it is. EXPIRES is a time in UTC or
// never. HASH is the SHA-256 of the token, in hexadecimal: neither passwords nor
// tokens can be learned from the file. It is written as a whole, with mode 0600,
// and read again when it changes; a file that cannot be understood changes
// nothing.
//
// # Rights
//
// The route of a request says which right it takes, see [web.Route]. Rights hold for all queues or for one. A request about a queue that does not
// exist needs the right for all queues, so that nobody learns by asking which
// queues there are. The names of queues are no secret: the state of the service
// and the Source Description, which name all of them, are for everyone who may
// read one. Numbers, jobs, payloads and events are for those who may read the
// queue.
//
// # Logs
//
// A [Log] is a file of lines in the Combined Log Format, see [Entry].
package access

import (
	"context"
	"cutie/queuefs/web"
	"os"
	"syscall"
	"time"
)

// A Caller is who asks, and what they may do.
type Caller struct {
	Name   string // of a user of the users file; "" for one without a name
	rights Rights
	narrow Rights // of a token, where narrowed
	token  bool

	expires time.Time       // of a token; zero: never
	over    context.Context // ends when the users file says something else; nil: never
}

// Local is the caller who came through a file that only its owner can open,
// and may do everything.
func Local() *Caller { return &Caller{rights: Everything} }

// May tells whether the caller has a right for a queue, by its cleaned
// identifier, or for all queues if that is "".
func (c *Caller) May(r web.Right, queue string) bool {
	return c.rights.Allow(r, queue) && (!c.token || c.narrow.Allow(r, queue))
}

// mayFor tells whether there is any queue for which the caller has the right.
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

// While returns a context that ends with ctx, or when it is to be asked again
// who the caller is: the users file was read anew, or the token has expired. It
// is for answers that have no end of their own.
func (c *Caller) While(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if c.expires.IsZero() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithDeadline(ctx, c.expires)
	}
	if c.over == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(c.over, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

type callerKey struct{}

// WithCaller adds the caller to the context of a request.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request. One that nobody vouched for may do
// nothing.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// A Stamp tells the states of a file apart without reading it.
type Stamp struct {
	inode, size, modified, changed int64
}

// StampOf returns the stamp of a file. Take it before the file is read, so that
// a change in between is noticed the next time.
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
