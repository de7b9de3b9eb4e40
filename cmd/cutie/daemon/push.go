package daemon

import (
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/publisher/websub"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/outbound"
	"cutie/queuefs/web"
	"cutie/sitemap"
)

const (
	// hubPath is where subscribers ask for notifications (WebSub, 5.1).
	hubPath = "/hub"
	// hubDir is the hub's directory in the home.
	hubDir = websub.Dir
	// verdictTime is the time of a subscriber to learn about a refused callback. A
	// Tick asks the callback long before it is over.
	verdictTime = 3 * time.Second
)

// PushOptions are the settings of push.
type PushOptions struct {
	NoHub     bool     // subscribers wait for a hub of ours
	Hubs      []string // URLs of other WebSub hubs
	Payload   bool     // other hubs get the notifications instead of fetching
	Change    string   // name of Change Notifications; "": that of the specification
	Framework string   // name of Framework Notifications
}

// A push sends news of published documents to the subscribers of the daemon's own
// hub and to other hubs.
type push struct {
	*publisher.Notifier
	svc  *queuefs.Service
	hub  *websub.Hub
	own  string // URL of the daemon's hub; "" if there is none
	gate *access.Gate
	from *register // of who subscribed
	home *durable.Dir
	dir  *durable.Dir
}

// openPush returns nil if there is nobody to be told.
func openPush(svc *queuefs.Service, pub *publisher.Publisher, gate *access.Gate, who access.Options, fetch *outbound.Client, log zerolog.Logger, o PushOptions) (_ *push, err error) {
	p := &push{svc: svc, gate: gate}
	hubs := o.Hubs
	if !o.NoHub {
		p.own = svc.Info().BaseURI + hubPath[1:]
		hubs = append([]string{p.own}, hubs...)
	}
	if len(hubs) == 0 {
		return nil, nil
	}
	if p.Notifier, err = publisher.NewNotifier(pub, publisher.NotifierOptions{Hubs: hubs,
		Change: sitemap.Capability(o.Change), Framework: sitemap.Capability(o.Framework)}); err != nil {
		return nil, err
	}
	if p.from, err = openRegister(who); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closeDirs())
		}
	}()
	if p.home, err = durable.OpenDir(svc.Dir(), nil); err != nil {
		return nil, err
	}
	if p.dir, err = p.home.MakeSub(hubDir); err != nil {
		return nil, err
	}
	var external []websub.External
	for _, hub := range o.Hubs {
		external = append(external, websub.External{URL: hub, Payload: o.Payload})
	}
	p.hub, err = websub.NewHub(websub.Options{URL: p.own, Source: p.Notifier, Doer: newCaller(fetch), Dir: p.dir,
		Permit: p.permit, Still: p.still, External: external, Verdict: verdictTime,
		Report: func(err error) { log.Error().Err(err).Msg("push") }})
	return p, err
}

// published answers requests for published documents, the topics of the hub among them.
func (p *push) published(pub *publisher.Publisher) http.Handler {
	if p == nil {
		return pub
	}
	return p.Notifier
}

// rooms are the published documents, with the topics and the hub if there are
// any.
func (p *push) rooms(pub *publisher.Publisher) []room {
	switch {
	case p == nil:
		return []room{pub}
	case p.own == "":
		return []room{p.Notifier}
	}
	return []room{p.Notifier, &hubSite{p}}
}

// Close ends push after its last Tick. The publisher is closed after it.
func (p *push) Close() error { return errors.Join(p.hub.Close(), p.closeDirs()) }

func (p *push) closeDirs() error {
	var errs []error
	for _, d := range []*durable.Dir{p.dir, p.home} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

// permit lets readers of the queue subscribe to a topic. Callers without the
// right to read any queue do not learn whether the topic exists.
func (p *push) permit(answer http.Header, r *http.Request, topic string) (by string, err error) {
	queue, err := p.Queue(topic)
	caller := access.CallerOf(r.Context())
	switch {
	case errors.Is(err, websub.ErrNoTopic):
		for _, q := range p.svc.Queues() {
			if caller.May(web.Read, q.ID()) {
				return p.from.who(r), nil // and hear from the hub that there is none
			}
		}
		queue = ""
	case err != nil:
		return "", web.Errorf(http.StatusServiceUnavailable, "the topic cannot be read now, try again later")
	}
	if err := p.gate.Require(answer, r, web.Read, queue); err != nil {
		return "", err
	}
	return p.from.who(r), nil
}

// still reports whether the subscriber to a topic may still read the queue.
func (p *push) still(by, topic string) bool {
	queue, err := p.Queue(topic)
	return err != nil || p.from.may(by, queue) // what is wrong with the topic is not a matter of rights
}

// A caller makes the requests of the hub, and follows no redirects.
type caller struct{ http.Client }

func newCaller(fetch *outbound.Client) *caller {
	c := &caller{*fetch.HTTP()}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Do implements [push.Doer]. Its errors tell the subscriber the reason, and the
// way out.
func (c *caller) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.Client.Do(r)
	if text := outbound.Public(err); text != "" {
		err = &refusedCall{err, text}
	}
	return resp, err
}

type refusedCall struct {
	error
	text string
}

func (e *refusedCall) Unwrap() error { return e.error }

// Public returns the text for strangers. It is the same whether the host has a private
// address or none.
func (e *refusedCall) Public() string {
	if refused, ok := errors.AsType[*outbound.RefusedError](e.error); ok && !refused.Addr.IsValid() {
		return e.text // about the URL alone
	}
	return e.text + "; who runs this hub can allow it with --allow-fetch"
}
