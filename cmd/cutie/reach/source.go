package reach

import (
	"cmp"
	"context"
	"errors"

	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/fault"
	"cutie/publisher"
	"cutie/publisher/options"
	"cutie/queuefs"
)

// Source is [Finder.Find] for commands about published documents: an open home
// answers for these too.
func (f *Finder) Source(ctx context.Context) (*Target, error) {
	t, err := f.Find(ctx)
	if err != nil || t.open == nil {
		return t, err
	}
	pub, err := f.publisher(t.open.svc)
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
func (f *Finder) publisher(svc *queuefs.Service) (*publisher.Publisher, error) {
	o, err := f.Publishing(svc)
	if err != nil {
		return nil, fault.Hint(err, "cutie serve --dialect VERSION goes on in a version of ResourceSync, cutie publish --rebuild makes everything anew")
	}
	return publisher.New(svc, o)
}

// Publishing returns the settings with which a home was published.
func (f *Finder) Publishing(svc *queuefs.Service) (publisher.Options, error) {
	o, err := options.Published(svc.Dir())
	o.BaseURI = cmp.Or(o.BaseURI, svc.Info().BaseURI)
	o.Page = dashboard.About
	o.Report = func(p queuefs.Problem) { f.Warn("%s", p) }
	return o, err
}
