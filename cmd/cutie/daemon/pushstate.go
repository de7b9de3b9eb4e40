package daemon

import (
	"net/http"
	"time"

	"cutie/publisher/websub"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

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
	Subscriptions []hubMember `json:"subscriptions"`
}

// A hubMember is a subscription. Of its callback the host alone is shown: to
// know the rest is to be allowed to use it.
type hubMember struct {
	Topic    string    `json:"topic"`
	Host     string    `json:"host"`
	External bool      `json:"external,omitempty"` // a hub of somebody else
	Verified bool      `json:"verified"`
	Signed   bool      `json:"signed"`
	Expires  time.Time `json:"expires,omitzero"`
	Position string    `json:"position,omitempty"` // delivered up to there
	Latest   string    `json:"latest,omitempty"`   // there is to deliver
	Failing  time.Time `json:"failingSince,omitzero"`
	Failures int       `json:"failures"`
	Next     time.Time `json:"nextAttempt,omitzero"`
	Error    string    `json:"error,omitempty"`
}

func (s *hubSite) list(w http.ResponseWriter, _ *http.Request) error {
	all := hubState{Typed: state.HubClass.Typed(), Hub: s.own, Subscriptions: []hubMember{}}
	for _, m := range s.hub.States() {
		all.Subscriptions = append(all.Subscriptions, memberOf(m))
	}
	return web.AnswerJSON(w, all)
}

func memberOf(m websub.State) hubMember {
	h := hubMember{Topic: m.Topic, Host: m.Host, External: m.External, Verified: m.Verified, Signed: m.Signed,
		Expires: m.Expires, Position: m.Position, Latest: m.Latest, Failing: m.Failing, Failures: m.Failures, Error: m.LastError}
	if m.Failures > 0 {
		h.Next = m.Next
	}
	return h
}
