package fetch

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Limits of the trust in servers.
const (
	perAhead    = 128 // answers to a connection for each request more before the first answer
	surprises   = 8   // until a Client pipelines no more
	perSurprise = 100 // answers that make up for one
)

// A route is how pipelines reach the Source.
type route struct {
	origin  string // of the URIs
	address string // to connect to; "": there are no pipelines
	head    string // of requests, from behind the target
	share   int64  // answers to all connections for each request more
	served  atomic.Int64
	odd     atomic.Int64 // surprises

	distrusted atomic.Bool
}

// newRoute finds the way to the Source if it is HTTP without TLS, without a proxy, and
// without limits of rate.
func newRoute(o *Options) *route {
	u, err := url.Parse(o.Origin)
	if err != nil || u.Scheme != "http" || u.Host == "" || o.Transport != nil || o.Requests > 0 || o.Octets > 0 {
		return &route{}
	}
	req, err := http.NewRequest(http.MethodGet, o.Origin, nil)
	if err != nil {
		return &route{}
	}
	if proxy, err := http.ProxyFromEnvironment(req); err != nil || proxy != nil {
		return &route{}
	}
	for name, values := range o.Header {
		req.Header[name] = values
	}
	if o.UserAgent != "" {
		req.Header.Set("User-Agent", o.UserAgent)
	}
	req.Header.Set("Accept-Encoding", "identity")
	var b strings.Builder
	if err := req.Write(&b); err != nil {
		return &route{}
	}
	_, head, _ := strings.Cut(b.String(), " HTTP/1.1\r\n")
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return &route{origin: o.Origin, address: net.JoinHostPort(u.Hostname(), port), head: " HTTP/1.1\r\n" + head,
		share: int64(perAhead * o.Connections)}
}

// ahead returns how many requests a connection may have under way.
func (r *route) ahead() int { return int(min(MaxAhead, 1+r.served.Load()/r.share)) }

// trusted reports whether the server has taken pipelines well.
func (r *route) trusted() bool {
	return !r.distrusted.Load() && r.odd.Load() < surprises+r.served.Load()/perSurprise
}

// Takes reports whether a request may be one of a call of Get. It names the length of the
// resource. A Client with few answers so far takes none.
func (p *Pipeline) Takes(r *Request) bool {
	to := p.c.route
	simple := r.Plain && r.Header == nil && r.Accept == nil && r.Wait == 0
	if !simple || r.Length < 0 || r.Length > MaxBodies || to.address == "" || to.ahead() == 1 || !to.trusted() {
		return false
	}
	target, ok := strings.CutPrefix(r.URI, to.origin)
	if !ok || !strings.HasPrefix(target, "/") || len(target)+len(to.head) > maxAsked/2 {
		return false
	}
	for i := range len(target) {
		if !asItIs[target[i]] {
			return false
		}
	}
	return true
}

// asItIs has the octets of a URI that are the same in a request, whatever surrounds them.
var asItIs = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?") {
		is[c] = true
	}
	return is
}()
