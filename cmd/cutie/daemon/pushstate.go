package daemon

import (
	"encoding/json"
	"net/http"
	"time"

	"cutie/publisher/websub"
)

// A hubSite answers at hubPath: subscribers ask with POST, and administrators
// see with GET who is subscribed and how that goes.
type hubSite struct{ *push }

func (s *hubSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.hub.ServeHTTP(w, r)
	case http.MethodGet, http.MethodHead:
		s.list(w)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "this is a WebSub hub: POST hub.mode, hub.topic and hub.callback to it", http.StatusMethodNotAllowed)
	}
}

// hubState is the answer to GET.
type hubState struct {
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
	Failing  time.Time `json:"failingSince,omitzero"`
	Failures int       `json:"failures"`
	Next     time.Time `json:"nextAttempt,omitzero"`
	Error    string    `json:"error,omitempty"`
}

func (s *hubSite) list(w http.ResponseWriter) {
	all := hubState{Hub: s.own, Subscriptions: []hubMember{}}
	for _, m := range s.hub.States() {
		all.Subscriptions = append(all.Subscriptions, memberOf(m))
	}
	body, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(append(body, '\n'))
}

func memberOf(m websub.State) hubMember {
	h := hubMember{Topic: m.Topic, Host: m.Host, External: m.External, Verified: m.Verified, Signed: m.Signed,
		Expires: m.Expires, Failing: m.Failing, Failures: m.Failures, Error: m.LastError}
	if m.Failures > 0 {
		h.Next = m.Next
	}
	return h
}
