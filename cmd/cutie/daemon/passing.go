package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// Changes is the way of requests for a change at a standby.
type Changes int

const (
	SendOn Changes = iota // 307 to the owner
	PassOn                // to the owner, as a proxy
	Refuse                // 503
)

// changesNames are the words for them.
var changesNames = []string{"redirect", "proxy", "refuse"}

func (c Changes) String() string { return changesNames[c] }

// Set implements pflag.Value.
func (c *Changes) Set(text string) error {
	for i, name := range changesNames {
		if name == text {
			*c = Changes(i)
			return nil
		}
	}
	return errors.New("is one of " + strings.Join(changesNames, ", "))
}

// Type implements pflag.Value.
func (c *Changes) Type() string { return "way" }

// passedField is how often standbys have passed a request on. It goes no further than
// mostPasses: from a standby to an owner that is just giving the home up, and to the next
// owner.
const (
	passedField = "Cutie-Passed"
	mostPasses  = 2
)

// passes returns how often a request was passed on.
func passes(r *http.Request) int {
	text := r.Header.Get(passedField)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return mostPasses
	}
	return n
}

// changes reports whether the request may change the home.
func changes(r *http.Request, m *web.Match) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return m.Route != nil && !(reads && m.Safe()) && !strings.HasPrefix(m.Path(), OwnerPath)
}

// enter lets a change in, if this daemon makes it; leave must follow. Else it answers.
func (n *node) enter(a *answer, r *http.Request, m *web.Match, home bool) (leave func(), ok bool) {
	leave = func() {}
	if n == nil || !changes(r, m) {
		return leave, true
	}
	to, err := n.owner(r.Context())
	switch {
	case err != nil:
		n.refuse(a, r, m, err)
		return leave, false
	case to != "":
		n.elsewhere(a, r, m, to, home)
		return leave, false
	case m.Route.MayWait(r):
		return leave, true
	}
	n.inWork.Add(1)
	return func() { n.inWork.Add(-1) }, true
}

// refuse answers a change with an error and a time to try again.
func (n *node) refuse(w http.ResponseWriter, r *http.Request, m *web.Match, err error) {
	w.Header().Set("Retry-After", "1")
	m.Fail(w, r, err)
}

// elsewhere leads a change to the owner. The owner does not know the rights of the socket of
// this home.
func (n *node) elsewhere(w http.ResponseWriter, r *http.Request, m *web.Match, owner string, home bool) {
	at := strings.TrimSuffix(owner, "/") + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	switch {
	case home || n.Changes == Refuse:
		n.refuse(w, r, m, web.Errorf(http.StatusServiceUnavailable, "this daemon is a standby; the owner of the home is %s", owner))
	case n.proxy == nil:
		w.Header().Set("Location", at)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "send the request to "+at, http.StatusTemporaryRedirect)
	case passes(r) >= mostPasses:
		n.refuse(w, r, m, errNoOwner)
	default:
		n.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ownerKey{}, owner)))
	}
}

type ownerKey struct{}

// newProxy passes a request on to the owner in its context.
func (n *node) newProxy() http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	transport.Proxy = nil
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			owner, _ := p.In.Context().Value(ownerKey{}).(string)
			if u, err := url.Parse(owner); err == nil {
				p.SetURL(u)
			}
			p.SetXForwarded()
			p.Out.Header.Set(passedField, strconv.Itoa(passes(p.In)+1))
		},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			n.log.Warn().Err(err).Str("path", r.URL.Path).Msg("the owner does not answer")
			w.Header().Set("Retry-After", "1")
			web.Plain(w, r, errNoOwner)
		},
	}
}

// moved answers a change begun before the home was given up: its client sends it to the
// next owner.
func (n *node) moved(w http.ResponseWriter, r *http.Request, err error) bool {
	if n == nil || !errors.Is(err, queuefs.ErrStandby) {
		return false
	}
	to, err := n.owner(r.Context())
	if err != nil || to == "" || n.Changes != SendOn || homeOf(r) != nil {
		return false
	}
	at := strings.TrimSuffix(to, "/") + r.URL.RequestURI()
	w.Header().Set("Location", at)
	http.Error(w, "send the request to "+at, http.StatusTemporaryRedirect)
	return true
}

// answerMoved has rows answer these changes.
func (n *node) answerMoved(rows []web.Route) []web.Route {
	if n == nil {
		return rows
	}
	for i := range rows {
		fail := rows[i].Fail
		rows[i].Fail = func(w http.ResponseWriter, r *http.Request, err error) {
			if !n.moved(w, r, err) {
				switch {
				case errors.Is(err, queuefs.ErrStandby):
					w.Header().Set("Retry-After", "1")
				case errors.Is(err, queuefs.ErrAway):
					w.Header().Set("Retry-After", "5")
				}
				fail(w, r, err)
			}
		}
	}
	return rows
}
