package daemon

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/publisher/hub"
	"cutie/queuefs"
	"cutie/queuefs/journal"
	"cutie/queuefs/outbound"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/sitemap"
)

const (
	// hubPath is where subscribers ask for notifications (WebSub, 5.1).
	hubPath = "/hub"
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

// A push tells the callbacks of queues, the subscribers of the daemon's own hub and
// other hubs what changes.
type push struct {
	*publisher.Notifier // nil: nobody is told of published documents
	svc                 *queuefs.Service
	hub                 *hub.Hub
	own                 string // URL of the daemon's hub; "" if there is none
	gate                *access.Gate
}

func openPush(svc *queuefs.Service, pub *publisher.Publisher, gate *access.Gate, fetch *outbound.Client, log zerolog.Logger, o PushOptions) (_ *push, err error) {
	p := &push{svc: svc, gate: gate}
	settings := hub.Options{Home: svc.Dir(), Rows: svc.Subscriptions(), Service: svc, Client: fetch, Permit: p.permit, Still: p.still, Verdict: verdictTime,
		Idle: svc.Standby, Turned: turned(log), Report: func(err error) { log.Error().Err(err).Msg("push") }}
	hubs := o.Hubs
	if !o.NoHub {
		p.own = svc.Info().BaseURI + hubPath[1:]
		hubs = append([]string{p.own}, hubs...)
	}
	if len(hubs) > 0 {
		if p.Notifier, err = publisher.NewNotifier(pub, publisher.NotifierOptions{Hubs: hubs,
			Change: sitemap.Capability(o.Change), Framework: sitemap.Capability(o.Framework)}); err != nil {
			return nil, err
		}
		settings.Source, settings.URL = p.Notifier, p.own
	}
	for _, url := range o.Hubs {
		settings.External = append(settings.External, hub.External{URL: url, Payload: o.Payload})
	}
	p.hub, err = hub.New(settings)
	return p, err
}

// published answers requests for published documents, the topics of the hub among them.
func (p *push) published(pub *publisher.Publisher) http.Handler {
	if p.Notifier == nil {
		return pub
	}
	return p.Notifier
}

// rooms are the published documents, with the topics and the hub if there are
// any.
func (p *push) rooms(pub *publisher.Publisher) []room {
	switch {
	case p.Notifier == nil:
		return []room{pub}
	case p.own == "":
		return []room{p.Notifier}
	}
	return []room{p.Notifier, &hubSite{p}}
}

// deliver is a Tick of the hub. On a standby nothing is sent.
func (p *push) deliver(ctx context.Context) error {
	if err := p.hub.Tick(ctx); !errors.Is(err, journal.ErrFollowing) { // else it has just left
		return err
	}
	return nil
}

// permit lets readers of the queue subscribe to a topic. Callers without the
// right to read any queue do not learn whether the topic exists.
func (p *push) permit(answer http.Header, r *http.Request, topic string) (by string, err error) {
	queue, err := p.Queue(topic)
	caller := access.CallerOf(r.Context())
	switch {
	case errors.Is(err, hub.ErrNoTopic):
		for _, q := range p.svc.Queues() {
			if caller.May(web.Read, q.ID()) {
				return p.gate.WordOf(r), nil // and hear from the hub that there is none
			}
		}
		queue = ""
	case err != nil:
		return "", web.Errorf(http.StatusServiceUnavailable, "the topic cannot be read now, try again later")
	}
	if err := p.gate.Require(answer, r, web.Read, queue); err != nil {
		return "", err
	}
	return p.gate.WordOf(r), nil
}

// still reports whether the subscriber to a topic may still read the queue.
func (p *push) still(by, topic string) bool {
	queue, err := p.Queue(topic)
	return err != nil || p.gate.MayStill(by, web.Read, queue) // what is wrong with the topic is not a matter of rights
}

// A hubSite answers at hubPath: subscribers ask with POST, and administrators see
// the subscriptions with GET.
type hubSite struct{ *push }

func (s *hubSite) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: hubPath, Need: web.Everywhere(web.Admin), Serve: s.list},
		{Method: http.MethodPost, Path: hubPath, Need: web.Need{Right: web.Read, Of: web.Body}, // the body names the topic
			Serve: func(w http.ResponseWriter, r *http.Request) error { s.hub.ServeHTTP(w, r); return nil }},
	}
}

// hubState is the answer to GET.
type hubState struct {
	state.Typed
	Hub           string      `json:"hub"`
	Subscriptions []hub.State `json:"subscriptions"`
}

func (s *hubSite) list(w http.ResponseWriter, _ *http.Request) error {
	all := hubState{Typed: state.HubClass.Typed(), Hub: s.own, Subscriptions: []hub.State{}}
	for _, m := range s.hub.States() {
		if m.Queue == "" {
			all.Subscriptions = append(all.Subscriptions, m)
		}
	}
	return web.AnswerJSON(w, all)
}
