package fetch

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cutie/wellknown"
)

// newTransport returns a transport that connects to the Source that the operator named, to
// proxies of the environment, and else to allowed addresses only: a Source names hosts in its
// documents and redirects, and its copy must not have answers from the private network of
// this machine.
func newTransport(o *Options) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxConnsPerHost = o.Connections + maxWaits
	t.MaxIdleConnsPerHost, t.MaxIdleConns = t.MaxConnsPerHost, 2*t.MaxConnsPerHost
	t.ResponseHeaderTimeout = 0 // long polls; see watch
	named := map[string]bool{}
	for _, addr := range addressesOf(o.Origin) {
		named[addr] = true
	}
	var proxies sync.Map // by address
	t.Proxy = func(req *http.Request) (*url.URL, error) {
		proxy, err := http.ProxyFromEnvironment(req)
		if proxy == nil || err != nil {
			return nil, err
		}
		for _, addr := range addressesOf(proxy.String()) {
			proxies.Store(addr, true)
		}
		for _, addr := range addressesOf(req.URL.String())[:1] {
			if !named[addr] {
				err = o.Addresses.Literal(addr)
			}
		}
		return proxy, err
	}
	dialer := net.Dialer{Timeout: 30 * time.Second}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, proxy := proxies.Load(addr); proxy || named[addr] {
			return dialer.DialContext(ctx, network, addr)
		}
		return o.Addresses.Dial(ctx, dialer, network, addr)
	}
	return t
}

// addressesOf returns what a transport connects to for a URL, as host:port. A host with a
// default port is named with both of them: many sites redirect from http to https.
func addressesOf(rawURL string) []string {
	if normal, err := wellknown.Normal(rawURL); err == nil {
		rawURL = normal
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return []string{""}
	}
	host := u.Hostname()
	switch port := u.Port(); {
	case port == "443", port == "" && u.Scheme == "https":
		return []string{net.JoinHostPort(host, "443"), net.JoinHostPort(host, "80")}
	case port == "80", port == "" && u.Scheme == "http":
		return []string{net.JoinHostPort(host, "80"), net.JoinHostPort(host, "443")}
	case port == "": // of a proxy
		return []string{net.JoinHostPort(host, "1080")}
	default:
		return []string{net.JoinHostPort(host, port)}
	}
}
