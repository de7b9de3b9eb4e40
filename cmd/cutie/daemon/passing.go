package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/web"
)

// Changes says what a standby does with requests for a change.
type Changes int

const (
	PassOn Changes = iota // to the owner, as a proxy
	Refuse                // 503
)

// changesNames are the words for them.
var changesNames = []string{"proxy", "refuse"}

func (c Changes) String() string { return changesNames[c] }

// ParseChanges reads a word for what a standby does.
func ParseChanges(text string) (Changes, error) {
	i := slices.Index(changesNames, text)
	if i < 0 {
		return 0, fmt.Errorf("%.40q is neither %s", text, strings.Join(changesNames, " nor "))
	}
	return Changes(i), nil
}

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

// shortBody is the most bytes of a body that an owner about to give its home up waits for.
const shortBody = 128 << 10

// begin lets a change in, if this daemon makes it now; leave must follow.
func (n *node) begin(r *http.Request) (leave func(), ok bool) {
	at := n.changing.phase()
	if at == handing || at == finishing && (r.ContentLength < 0 || r.ContentLength > shortBody) || n.standby() {
		return nil, false
	}
	if leave, ok = n.changing.begin(at); ok && n.standby() {
		leave()
		return nil, false
	}
	return leave, ok
}

// enter lets a change in, if this daemon makes it; leave must follow, and may be called again.
// Else it answers. While the home is given up changes wait for the next owner. Nothing of a
// body is read here before a daemon has accepted the change, so none has to be sent twice.
func (n *node) enter(w http.ResponseWriter, r *http.Request, m *web.Match, home bool) (leave func(), ok bool) {
	nothing := func() {}
	for since := time.Now(); ; {
		turned := n.turned.Next()
		if leave, ok := n.begin(r); ok {
			if m.Route.MayWait(r) {
				leave = sync.OnceFunc(leave)
			}
			return leave, true
		}
		to, err := n.owner()
		switch {
		case err != nil:
			n.refuse(w, r, m, err)
			return nothing, false
		case to != "" && n.elsewhere(w, r, m, to, home):
			return nothing, false
		}
		// An owner that stops takes no connections, and gives the home up then.
		select {
		case <-turned:
		case <-time.After(followEvery):
		case <-r.Context().Done():
		}
		if n.changing.phase() == finishing {
			since = time.Now()
		}
		if r.Context().Err() != nil || time.Since(since) > holdTime {
			n.log.Warn().Str("url", to).Str("path", r.URL.Path).Msg("the owner is not reached")
			n.refuse(w, r, m, errNoOwner)
			return nothing, false
		}
	}
}

// refuse answers a change with an error and a time to try again.
func (n *node) refuse(w http.ResponseWriter, r *http.Request, m *web.Match, err error) {
	w.Header().Set("Retry-After", "1")
	m.Fail(w, r, err)
}

// elsewhere passes a change on to the owner, or refuses it. It returns false if the owner was
// not reached, so that nothing was sent or answered. The owner does not know the rights of the
// socket of this home.
func (n *node) elsewhere(w http.ResponseWriter, r *http.Request, m *web.Match, owner string, home bool) bool {
	switch {
	case home || n.Changes == Refuse:
		n.refuse(w, r, m, web.Errorf(http.StatusServiceUnavailable, "this daemon is a standby; the owner of the home is %s", owner))
	case passes(r) >= mostPasses:
		n.refuse(w, r, m, errNoOwner)
	default:
		return n.pass(w, r, owner, m.Fail)
	}
	return true
}

// newTransport returns the connections to the owner.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 256
	t.Proxy = nil
	t.DialContext = (&net.Dialer{Timeout: quietTime}).DialContext
	return t
}

// pass passes a request on. It returns false if the owner takes no connections: then nothing
// was sent or answered, and the request may be passed on again.
func (n *node) pass(w http.ResponseWriter, r *http.Request, owner string, fail func(http.ResponseWriter, *http.Request, error)) (reached bool) {
	to, err := url.Parse(owner)
	if err != nil {
		fail(w, r, errNoOwner)
		return true
	}
	reached = true
	proxy := httputil.ReverseProxy{
		Transport:     n.transport,
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(passedField, strconv.Itoa(passes(p.In)+1))
		},
		ModifyResponse: func(resp *http.Response) error {
			for name := range resp.Header {
				w.Header().Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
				reached = false
				return
			}
			n.log.Warn().Err(err).Str("path", r.URL.Path).Msg("the owner does not answer")
			w.Header().Set("Retry-After", "1")
			fail(w, r, errNoOwner)
		},
	}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(r.Body) // the transport closes it even if nothing was sent; the server does so at the end
	}
	proxy.ServeHTTP(w, r)
	return reached
}

// A phase is how far an owner is in giving its home up.
type phase int32

const (
	owning    phase = iota
	finishing       // changes begun before end; short ones begin still
	handing         // no change begins
)

// An inWork counts the changes in progress, so that an owner finishes them before it gives its
// home up. The zero value is ready, and the methods are safe for concurrent use.
type inWork struct {
	at     atomic.Int32 // a phase
	before atomic.Int64 // in progress, begun before the phase finishing
	since  atomic.Int64 // and since
}

func (c *inWork) phase() phase { return phase(c.at.Load()) }

// enter begins a phase.
func (c *inWork) enter(at phase) { c.at.Store(int32(at)) }

// begin counts a change in; end must follow. It returns false in another phase than at.
func (c *inWork) begin(at phase) (end func(), ok bool) {
	n := &c.before
	if at == finishing {
		n = &c.since
	}
	end = func() { n.Add(-1) }
	n.Add(1)
	if c.phase() != at {
		end()
		return nil, false
	}
	return end, true
}

// count returns the changes in progress.
func (c *inWork) count() int64 { return c.before.Load() + c.since.Load() }

// waitEvery is the pause between two looks at the changes in progress.
const waitEvery = 2 * time.Millisecond

// wait returns when no change of the phase before at is in progress, or after most. The
// error is that of ctx.
func (c *inWork) wait(ctx context.Context, at phase, most time.Duration) error {
	n := &c.before
	if at == handing {
		n = &c.since
	}
	over := time.NewTimer(most)
	defer over.Stop()
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for n.Load() > 0 {
		select {
		case <-tick.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
