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

// source is target for the verbs of publishing: an open home also answers for
// its published documents.
func (c *call) source(ctx context.Context) (*target, error) {
	t, err := c.target(ctx)
	if err != nil || t.open == nil {
		return t, err
	}
	pub, err := c.publisher(t.open.svc)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.open.svc.Follow(pub)
	queues, admin := t.open.handler, daemon.NewPublishing(pub, t.open.handler.Error)
	below := func(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	inside := &daemon.InProcess{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case below(r.URL.Path, daemon.PublishedPath):
			pub.ServeHTTP(w, r)
		case below(r.URL.Path, daemon.PublishingPath):
			admin.ServeHTTP(w, r)
		default:
			queues.ServeHTTP(w, r)
		}
	})}
	end := t.end
	t.sent, t.end = c.traced(inside), func() error { return errors.Join(inside.Close(), end(), pub.Close()) }
	return t, nil
}

// publisher opens the published documents of a home with their settings: with
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
