package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
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
	from                *register // of who subscribed
}

func openPush(svc *queuefs.Service, pub *publisher.Publisher, gate *access.Gate, who access.Options, fetch *outbound.Client, log zerolog.Logger, o PushOptions) (_ *push, err error) {
	p := &push{svc: svc, gate: gate}
	settings := hub.Options{Home: svc.Dir(), Service: svc, Client: fetch, Permit: p.permit, Still: p.still, Verdict: verdictTime,
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
	if p.from, err = openRegister(who); err != nil {
		return nil, err
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

// A register knows subscribers by a word in their subscription, and whether they
// may still read:
//
//	user NAME    by name and password
//	token HASH   by a token, as the users file has it
//	anonymous    without a name
//
// A removed token stays unknown, even if another one gets its name. Subscribers
// through the socket of the home have no word, and may read.
type register struct {
	file      string // of users; "" if nobody has a name
	anonymous access.Rights

	mu    sync.Mutex
	stamp access.Stamp
	users *access.Users
}

// openRegister reads the users file.
func openRegister(o access.Options) (*register, error) {
	g := &register{file: o.Users, anonymous: o.Anonymous, users: new(access.Users)}
	return g, g.reload()
}

// reload reads the users file if it has changed; g.mu is held but on opening.
// After an error the known users stay.
func (g *register) reload() error {
	if g.file == "" {
		return nil
	}
	stamp, err := access.StampOf(g.file)
	if err != nil || stamp == g.stamp {
		return err
	}
	users, _, err := access.Load(g.file)
	if err != nil {
		return err
	}
	g.users, g.stamp = users, stamp
	return nil
}

// known returns the users as the file has them, or had them when it was last
// read.
func (g *register) known() *access.Users {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.reload() // the gate reads the same file, and says what is wrong with it
	return g.users
}

// who returns the word for the caller of an admitted request.
func (g *register) who(r *http.Request) string {
	caller := access.CallerOf(r.Context())
	if caller.Name == "" {
		if caller.May(web.Admin, "") && !g.anonymous.Allow(web.Admin, "") {
			return ""
		}
		return "anonymous"
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "user " + caller.Name
	}
	return fmt.Sprintf("token %x", sha256.Sum256([]byte(strings.TrimSpace(secret))))
}

// may reports whether a subscriber may read a queue now. The rights of everybody
// count too.
func (g *register) may(who, queue string) bool {
	users := g.known()
	kind, name, _ := strings.Cut(who, " ")
	switch {
	case g.anonymous.Allow(web.Read, queue):
		return true
	case kind == "token":
		t, ok := users.TokenOf(name)
		if !ok || !t.Expires.IsZero() && !time.Now().Before(t.Expires) || t.Narrow && !t.Rights.Allow(web.Read, queue) {
			return false
		}
		name = t.User
	case kind != "user":
		return false
	}
	u, ok := users.User(name)
	return ok && u.Rights.Allow(web.Read, queue)
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
