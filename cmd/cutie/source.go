package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"cutie/cmd/cutie/daemon"
	"cutie/publisher"
	"cutie/queuefs"
)

// A source is where something is published: a daemon, or a home that no daemon
// has open.
type source struct {
	client *http.Client
	base   string // to ask at; with a slash at its end
	home   string // "" if it is far away
	direct bool   // this process has the home open
	Close  func() error
}

// source finds what a verb about publishing is for.
func (c *call) source(ctx context.Context) (*source, error) {
	t, err := c.target(ctx)
	if err != nil {
		return nil, err
	}
	if r, ok := t.(*remote); ok {
		s := &source{client: &http.Client{Transport: r.sent}, base: r.base, Close: r.Close}
		if r.socket != nil {
			s.home = c.home
		}
		return s, nil
	}
	l, ok := t.(*local)
	if r, wrapped := t.(*recorded); wrapped {
		l, ok = r.target.(*local)
	}
	if !ok {
		return nil, errors.Join(errors.New("not a home"), t.Close())
	}
	pub, err := c.publisher(l.svc)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	l.svc.Follow(pub)
	admin := daemon.NewPublishing(pub, l.handler.Error)
	inside := &daemon.InProcess{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == daemon.PublishedPath, strings.HasPrefix(path, daemon.PublishedPath+"/"):
			pub.ServeHTTP(w, r)
		case path == daemon.PublishingPath, strings.HasPrefix(path, daemon.PublishingPath+"/"):
			admin.ServeHTTP(w, r)
		default:
			l.handler.ServeHTTP(w, r)
		}
	})}
	return &source{client: &http.Client{Transport: c.traced(inside)}, base: "http://localhost/", home: c.home, direct: true,
		Close: func() error { return errors.Join(inside.Close(), t.Close(), pub.Close()) }}, nil
}

// publisher opens what a home publishes with the settings that it had: with
// another base URI or version all lists would begin anew, with another retention
// some would go.
func (c *call) publisher(svc *queuefs.Service) (*publisher.Publisher, error) {
	o, err := c.publishing(svc)
	if err != nil {
		return nil, withHint(err, "cutie serve --dialect VERSION goes on in a version of ResourceSync, cutie publish --rebuild makes everything anew")
	}
	return publisher.New(svc, o)
}

func (c *call) publishing(svc *queuefs.Service) (publisher.Options, error) {
	o, err := publisher.Published(svc.Dir())
	o.BaseURI = cmp.Or(o.BaseURI, svc.Info().BaseURI)
	o.Report = func(p queuefs.Problem) { c.warnf("%s", p) }
	return o, err
}
