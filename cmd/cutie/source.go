package main

import (
	"cmp"
	"context"
	"errors"

	"cutie/cmd/cutie/dashboard"
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
	t.open.home.Publish(pub)
	end := t.end
	t.end = func() error { return errors.Join(end(), pub.Close()) }
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
	o.Page = dashboard.About
	o.Report = func(p queuefs.Problem) { c.warnf("%s", p) }
	return o, err
}
