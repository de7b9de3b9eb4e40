package main

import (
	"context"
	"errors"
	"io"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs"
)

// An openHome is a home opened in this process, for the length of one verb.
type openHome struct {
	svc  *queuefs.Service
	home *daemon.Local
}

// openHome opens the home, which answers as its daemon would. Leases that have
// ended go back first.
func (c *call) openHome(ctx context.Context) (*target, error) {
	svc, err := queuefs.Open(c.home, queuefs.Options{Report: func(p queuefs.Problem) { c.warnf("%s", p) }})
	if err != nil {
		return nil, err
	}
	if err := svc.Expire(ctx); err != nil {
		c.warnf("%v", err) // a full disk can be read
	}
	if svc.Info().BaseURI == "" { // references lead to where a daemon would listen
		svc.SetBaseURI("http://" + defaultListen + "/")
	}
	home, err := daemon.NewLocal(svc, daemon.LocalOptions{AccessLog: daemon.AccessLog{Max: defaultLogMax, Keep: defaultLogKeep},
		Log: func(err error) {
			if !errors.Is(err, io.ErrClosedPipe) { // the reader stopped, and says why
				c.warnf("%v", err)
			}
		}})
	if err != nil {
		return nil, errors.Join(err, svc.Close())
	}
	if home.Unlogged != nil {
		c.warnf("access log: %v", home.Unlogged)
	}
	t := newTarget("http://localhost/", c.traced(home), func() error { return errors.Join(home.Close(), svc.Close()) })
	t.home, t.open = c.home, &openHome{svc, home}
	return t, nil
}

// Sizes of access logs by default.
const (
	defaultLogMax  = 100 << 20 // octets
	defaultLogKeep = 9
)
