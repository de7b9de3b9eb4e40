package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cutie/cmd/cutie/inwork"
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
	return m.Route != nil && changesHome(r, m.Route) && !strings.HasPrefix(m.Path(), OwnerPath)
}

// changesHome reports whether a request to a route may change the home.
func changesHome(r *http.Request, t *web.Route) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || t.Changes()
}

// enter lets a change in, if this daemon makes it; leave must follow. Else it answers. While
// the home is given up, a long body waits for the next owner.
func (n *node) enter(a *answer, r *http.Request, m *web.Match, home bool) (leave func(), ok bool) {
	nothing := func() {}
	if n == nil || !changes(r, m) {
		return nothing, true
	}
	waits := m.Route.MayWait(r)
	for begun := time.Now(); ; {
		turned, at := n.turned.Next(), n.inWork.Phase()
		if waits || at == inwork.Finishing {
			whole, err := keep(a, r)
			if err != nil {
				m.Fail(a, r, err)
				return nothing, false
			}
			if !whole && at == inwork.Finishing {
				select {
				case <-turned:
				case <-r.Context().Done():
				}
				if r.Context().Err() == nil {
					continue
				}
			}
		}
		to, err := n.owner(r.Context())
		switch {
		case err != nil:
			n.refuse(a, r, m, err)
			return nothing, false
		case to != "":
			if n.elsewhere(a, r, m, to, home) {
				return nothing, false
			}
			// A daemon that stops takes no connections, and leaves the home then.
			select {
			case <-turned:
			case <-time.After(followEvery):
			case <-r.Context().Done():
			}
			if r.Context().Err() != nil || time.Since(begun) > holdTime {
				n.log.Warn().Str("url", to).Str("path", r.URL.Path).Msg("the owner is not reached")
				n.refuse(a, r, m, errNoOwner)
				return nothing, false
			}
		case waits:
			return nothing, true
		default:
			if leave, ok = n.inWork.Begin(at); !ok {
				continue
			}
			if !n.standby() {
				return leave, true
			}
			leave()
		}
	}
}

// refuse answers a change with an error and a time to try again.
func (n *node) refuse(w http.ResponseWriter, r *http.Request, m *web.Match, err error) {
	w.Header().Set("Retry-After", "1")
	m.Fail(w, r, err)
}

// elsewhere leads a change to the owner. It returns false if the owner was not reached, so
// that nothing was sent or answered. The owner does not know the rights of the socket of
// this home.
func (n *node) elsewhere(w http.ResponseWriter, r *http.Request, m *web.Match, owner string, home bool) bool {
	switch {
	case home || n.Changes == Refuse:
		n.refuse(w, r, m, web.Errorf(http.StatusServiceUnavailable, "this daemon is a standby; the owner of the home is %s", owner))
	case n.Changes == SendOn:
		sendOn(w, r, owner)
	case passes(r) >= mostPasses:
		n.refuse(w, r, m, errNoOwner)
	default:
		return n.pass(w, r, owner, m.Fail)
	}
	return true
}

// sendOn redirects a change to the owner.
func sendOn(w http.ResponseWriter, r *http.Request, owner string) {
	at := strings.TrimSuffix(owner, "/") + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", at)
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "send the request to "+at, http.StatusTemporaryRedirect)
}

// A pass is a request on its way to the owner.
type pass struct {
	owner  string
	header http.Header // of the answer so far
	unsent bool        // the owner was not reached
	fail   func(http.ResponseWriter, *http.Request, error)
}

type passKey struct{}

// passOf returns the pass in the context of a request of [node.pass].
func passOf(r *http.Request) *pass { return r.Context().Value(passKey{}).(*pass) }

// pass passes a request on. It returns false if nothing was sent or answered; then the
// request may be passed on again.
func (n *node) pass(w http.ResponseWriter, r *http.Request, owner string, fail func(http.ResponseWriter, *http.Request, error)) bool {
	p := &pass{owner: owner, header: w.Header(), fail: fail}
	r = r.WithContext(context.WithValue(r.Context(), passKey{}, p))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &lent{ReadCloser: r.Body}
	}
	n.proxy.ServeHTTP(w, r)
	return !p.unsent
}

// A lent is a body of a request that stays open for another try: its server closes it.
type lent struct {
	io.ReadCloser
	back atomic.Bool
}

func (l *lent) Read(p []byte) (int, error) {
	if l.back.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return l.ReadCloser.Read(p)
}

func (l *lent) Close() error {
	l.back.Store(true)
	return nil
}

// newProxy returns a proxy for requests with a [pass].
func (n *node) newProxy() http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	transport.Proxy = nil
	transport.DialContext = (&net.Dialer{Timeout: quietTime}).DialContext
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			if u, err := url.Parse(passOf(p.In).owner); err == nil {
				p.SetURL(u)
			}
			p.SetXForwarded()
			p.Out.Header.Set(passedField, strconv.Itoa(passes(p.In)+1))
		},
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			header := passOf(resp.Request).header
			for name := range resp.Header {
				header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
				passOf(r).unsent = true
				return
			}
			n.log.Warn().Err(err).Str("path", r.URL.Path).Msg("the owner does not answer")
			w.Header().Set("Retry-After", "1")
			passOf(r).fail(w, r, errNoOwner)
		},
	}
}

// moved leads a change to the next owner that was not made before this one gave the home up.
// It returns false if the client has to send the request again.
func (n *node) moved(w http.ResponseWriter, r *http.Request, err error, fail func(http.ResponseWriter, *http.Request, error)) bool {
	if n == nil || !errors.Is(err, queuefs.ErrStandby) || homeOf(r) != nil {
		return false
	}
	to, err := n.owner(r.Context())
	if err != nil || to == "" {
		return false
	}
	switch n.Changes {
	case SendOn:
		sendOn(w, r, to)
		return true
	case PassOn:
		if again, ok := rewound(r); ok && passes(r) < mostPasses {
			return n.pass(w, again, to, fail)
		}
	}
	return false
}

// answerMoved has rows answer these changes.
func (n *node) answerMoved(rows []web.Route) []web.Route {
	if n == nil {
		return rows
	}
	for i := range rows {
		fail := rows[i].Fail
		rows[i].Fail = func(w http.ResponseWriter, r *http.Request, err error) {
			if !n.moved(w, r, err, fail) {
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

// keepMost is the most octets of a body kept in memory, to be sent on from there.
const keepMost = 128 << 10

// A kept is a whole body of a request in memory.
type kept struct {
	bytes.Reader
	text []byte
}

func newKept(text []byte) *kept {
	k := &kept{text: text}
	k.Reset(text)
	return k
}

func (*kept) Close() error { return nil }

// keep receives the body of a request, unless it is long or of unknown length. It returns
// false for such a one.
func keep(a *answer, r *http.Request) (bool, error) {
	switch _, is := r.Body.(*kept); {
	case is, r.ContentLength == 0:
		return true, nil
	case r.ContentLength < 0 || r.ContentLength > keepMost || a.memory.Take(int(r.ContentLength)) != nil:
		return false, nil
	}
	a.receive(r)
	b, err := web.NewBodyReader(a, r, keepMost, a.idle)
	if err != nil {
		return false, err
	}
	text, err := b.All()
	if err != nil {
		return false, err
	}
	r.Body = newKept(text)
	r.GetBody = func() (io.ReadCloser, error) { return newKept(text), nil }
	return true, nil
}

// rewound returns a request to be made once more, false if a part of its body is gone.
func rewound(r *http.Request) (*http.Request, bool) {
	if r.ContentLength == 0 {
		return r, true
	}
	k, ok := r.Body.(*kept)
	if !ok {
		return nil, false
	}
	r = r.WithContext(r.Context())
	r.Body = newKept(k.text)
	return r, true
}
