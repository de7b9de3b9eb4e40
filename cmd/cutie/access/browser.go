package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Browser guards against requests by pages of strangers: a browser sends its
// credentials with them, and reaches addresses only this machine can reach.
type Browser struct {
	// Hosts, if not nil, are the names of the daemon. A stranger may point its own
	// name here (DNS rebinding); such a request has another host. Addresses and
	// localhost are always fine.
	Hosts []string
	// Proxies may send requests to any name: no browser reaches the daemon through them
	// by a name of a stranger.
	Proxies Proxies

	cross http.CrossOriginProtection
}

// NewBrowser returns the guard of a daemon with this base URI. strict refuses other
// names than its host.
func NewBrowser(base string, strict bool) (*Browser, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	b := &Browser{}
	if err := b.cross.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, err
	}
	if strict {
		b.Hosts = []string{strings.ToLower(u.Hostname())}
	}
	return b, nil
}

// Check returns a [*web.Error] of status 403 or 421 for a request by a page of
// strangers.
func (b *Browser) Check(r *http.Request) error {
	if b.Hosts != nil && !b.known(r.Host) && !b.Proxies.Passed(r) {
		return &web.Error{Status: http.StatusMisdirectedRequest,
			Message: fmt.Sprintf("host %.80q is not known here, see serve --base-uri", r.Host)}
	}
	if err := b.cross.Check(r); err != nil {
		return &web.Error{Status: http.StatusForbidden, Message: "a page of another site may not do this"}
	}
	return nil
}

func (b *Browser) known(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	for _, h := range b.Hosts {
		if h == host {
			return true
		}
	}
	return false
}

var (
	noSniff    = []string{"nosniff"}
	sameOrigin = []string{"same-origin"}
	policy     = []string{state.PagePolicy} // nothing runs, and forms stay here
)

// Protect completes the headers of an answer before it begins. private keeps an
// answer to an admitted request out of shared caches.
func Protect(h http.Header, private bool) {
	if _, ok := h["X-Content-Type-Options"]; !ok {
		h["X-Content-Type-Options"] = noSniff
	}
	if v, ok := h["Content-Type"]; ok && len(v) > 0 && isPage(v[0]) {
		// Forms of a page without a referrer would have no origin either.
		h["Referrer-Policy"] = sameOrigin
		if _, ok := h["Content-Security-Policy"]; !ok {
			h["Content-Security-Policy"] = policy
		}
	}
	if private {
		h["Cache-Control"] = []string{madePrivate(h.Get("Cache-Control"))}
	}
}

func isPage(t string) bool {
	return strings.HasPrefix(t, "text/html") || strings.HasPrefix(t, "application/xhtml+xml")
}

// madePrivate turns a Cache-Control into one of a private answer.
func madePrivate(v string) string {
	switch {
	case v == "":
		return "private"
	case strings.Contains(v, "no-store"), strings.Contains(v, "private"):
		return v
	case strings.Contains(v, "public"):
		return strings.Replace(v, "public", "private", 1)
	}
	return "private, " + v
}
