package daemon

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Clients drop their credentials where a reference leads to another name of the same
// daemon, such as from localhost to 127.0.0.1. So references in an answer have the name of
// the request, unless the operator has set the base URI. Published documents have the base
// URI alone.

// A naming is the rule for requests to other names than the base URI has. nil
// answers all of them with the base URI.
type naming struct {
	base    *url.URL
	fixed   bool // the operator has set it
	direct  bool // it has the port of this daemon, so it leads here and not to a proxy
	proxies access.Proxies
	node    *url.URL // of this daemon among others with the same home, which may all have one base URI; nil: it is alone
}

// newNaming returns the rule of a daemon that listens on addr.
func newNaming(base string, fixed bool, addr net.Addr, proxies access.Proxies) (*naming, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	a, ok := addr.(*net.TCPAddr)
	return &naming{base: u, fixed: fixed, direct: ok && portOf(u) == strconv.Itoa(a.Port), proxies: proxies}, nil
}

// portOf returns the port of a base URI.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// prefix is the path of the base URI without the slash at its end, often "".
func (n *naming) prefix() string {
	if n == nil {
		return ""
	}
	return strings.TrimSuffix(n.base.Path, "/")
}

// answered returns ctx, of a request, with the beginning of references in the answer. Behind
// a listed proxy they begin with the base URI.
func (n *naming) answered(ctx context.Context, r *http.Request) context.Context {
	if n == nil || n.fixed || r.Host == "" || r.Host == n.base.Host || !isHost(r.Host) || n.proxies.Passed(r) {
		return ctx
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return web.WithBase(ctx, state.Base(scheme+r.Host))
}

// An elsewhere is the URL of a request under the base URI.
type elsewhere struct{ url string }

func (e *elsewhere) Error() string { return "send the request to " + e.url }

// check returns an error for a change under another name than the set base URI has:
// an [*elsewhere], or status 421 if the base URI leads to a proxy. A redirect could
// come back here for ever then, from a proxy without the name in Host.
func (n *naming) check(r *http.Request, m *web.Match) error {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if n == nil || !n.fixed || m.Route == nil || reads && m.Safe() || n.is(r.Host) || n.proxies.Passed(r) {
		return nil
	}
	if !n.direct {
		return web.Errorf(http.StatusMisdirectedRequest, "this service is %s: send the request there; "+
			"a proxy passes on Host, or is named in serve --trusted-proxy", n.base)
	}
	at := strings.TrimSuffix(n.base.String(), "/") + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	return &elsewhere{at}
}

// is reports whether host is the name of the base URI, or of this daemon among others.
func (n *naming) is(host string) bool {
	return named(host, n.base) || n.node != nil && named(host, n.node)
}

// named reports whether host is the one of u. Some proxies pass it on without its port.
func named(host string, u *url.URL) bool {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	return host == "" || strings.EqualFold(name, u.Hostname()) && (port == "" || port == portOf(u))
}

// isHost reports whether a Host can begin a reference: a name or an address,
// with a port or without.
func isHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		name = h
		if strings.Contains(h, ":") {
			name = "[" + h + "]"
		}
	}
	if address, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(address, "]"))
		return err == nil && a.Is6() && a.Zone() == "" && strings.HasSuffix(address, "]")
	}
	ok := name != "" && len(name) <= 253
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	return ok
}

// announce logs that the published history is about to begin anew, with another base
// URI or version. Without a word of the operator that is only done for a base URI on
// loopback: mirrors on other machines cannot follow one, and a free port is another
// one each time.
func (o *Options) announce(svc *queuefs.Service, source *publisher.Options) {
	c, changed := publisher.Changed(svc.Dir(), *source)
	if !changed {
		return
	}
	level := zerolog.WarnLevel
	if c.FromVersion == c.ToVersion && onLoopback(c.FromBase) {
		level, source.Anew = zerolog.InfoLevel, true
	}
	if source.Anew {
		o.Log.WithLevel(level).Str("base", c.ToBase).Stringer("version", c.ToVersion).Str("formerBase", c.FromBase).Stringer("formerVersion", c.FromVersion).
			Msg("published history begins anew, so does every mirror")
	}
}

// onLoopback reports whether a base URI leads to this machine alone.
func onLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback() || u.Hostname() == "localhost"
}
