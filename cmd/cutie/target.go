package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"time"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A target answers requests about queues: a daemon by its URL, the daemon of a
// home by its socket, or a home opened in this process. The verbs do not tell them
// apart. Errors of queuefs are found by [errors.Is] for each.
type target struct {
	*rest.Client
	base string            // URL, with a slash at its end
	sent http.RoundTripper // carries requests of other clients too
	home string            // directory; "" for a URL
	open *openHome         // nil for a daemon
	end  func() error
}

// Close ends the connections, or closes the home.
func (t *target) Close() error { return t.end() }

// newTarget returns a target; sent carries its requests.
func newTarget(base string, sent http.RoundTripper, end func() error) *target {
	client := rest.NewClient(base, &http.Client{Transport: sent})
	client.UserAgent = agent()
	return &target{Client: client, base: base, sent: sent, end: end}
}

// agent names the program, as submitter and as consumer.
func agent() string {
	login := "unknown"
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return "cutie/" + queuefs.Version + " (" + login + "@" + host + ")"
}

// at does something at the target.
func (c *call) at(ctx context.Context, do func(t *target) error) (err error) {
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return do(t)
}

// atQueue does something with the queue of the first argument. Its errors name
// the queue.
func (c *call) atQueue(ctx context.Context, do func(t *target, queue string) error) error {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	return c.at(ctx, func(t *target) error { return fault.About(queue, do(t, queue)) })
}

// queueArg is the queue of the first argument. Names impossible in a URL are not
// found.
func (c *call) queueArg() (string, error) {
	switch q := c.args[0]; q {
	case "", ".", "..":
		return q, fault.About(q, queuefs.ErrNoQueue)
	default:
		return q, nil
	}
}

// maxLockWait is how long to wait for a home opened by another command.
const maxLockWait = 10 * time.Second

// target finds the daemon of the options, or opens the home.
func (c *call) target(ctx context.Context) (*target, error) {
	for start := time.Now(); ; {
		t, err := c.daemon(ctx)
		if err != nil || t != nil {
			return t, err
		}
		t, err = c.openHome(ctx)
		if err == nil {
			c.tell("opens %s", c.home)
			return t, nil
		}
		var locked *queuefs.LockedError
		if !errors.As(err, &locked) || time.Since(start) > maxLockWait {
			return nil, homeHint(c.home, err)
		}
		// Another command has the home open, or a daemon is starting.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// daemon finds the daemon of the options; nil if none runs on the home.
func (c *call) daemon(ctx context.Context) (*target, error) {
	if c.url != "" {
		base, err := cleanBase(c.url)
		if err != nil {
			return nil, err
		}
		c.tell("asks %s", base)
		return c.remote(base), nil
	}
	socket, err := daemon.OpenSocket(c.home)
	if err != nil {
		return nil, ignore(err, os.ErrNotExist)
	}
	conn, err := socket.Dial(ctx)
	if err != nil {
		// A killed daemon leaves a socket without a listener.
		return nil, errors.Join(socket.Close(), ignore(err, os.ErrNotExist, refusedConn))
	}
	conn.Close()
	c.tell("asks the daemon of %s", c.home)
	tr := transport()
	tr.Proxy = nil
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx) }
	t := newTarget("http://localhost/", c.traced(expecting{tr}), func() error {
		tr.CloseIdleConnections()
		return socket.Close()
	})
	t.home = c.home
	return t, nil
}

// onlyDaemon is for verbs without an answer from a home alone.
func (c *call) onlyDaemon(ctx context.Context) (*target, error) {
	t, err := c.daemon(ctx)
	if err == nil && t == nil {
		err = fault.Hint(fmt.Errorf("no daemon runs on %s", c.home), "cutie serve --home "+c.home+" starts one; --url names another")
	}
	return t, err
}

// remote returns the daemon, or another server, at base.
func (c *call) remote(base string) *target {
	tr := transport()
	return newTarget(base, c.traced(withToken(base, expecting{tr})), func() error {
		tr.CloseIdleConnections()
		return nil
	})
}

// tell names the target once, with -v.
func (c *call) tell(format, target string) {
	if !c.announced {
		c.sayf(format, target)
	}
	c.announced = true
}
