package access

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of trusted proxies.
type Proxies []netip.Prefix

// ParseProxy reads an address or a network in CIDR notation.
func ParseProxy(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%.60q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	return p.Masked(), nil
}

func (p Proxies) trust(a netip.Addr) bool {
	for _, n := range p {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// Passed reports whether a listed proxy made the connection of a request.
func (p Proxies) Passed(r *http.Request) bool {
	if len(p) == 0 {
		return false
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.trust(at.Addr().Unmap())
}

// maxHops is the most proxies of a request.
const maxHops = 20

// Client returns the address of the client: that of the connection, or if a listed
// proxy made it, the last address in X-Forwarded-For except listed proxies. A client
// may have invented the addresses before it. The zero address is a connection
// without one.
func (p Proxies) Client(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap()
	if len(p) == 0 || !p.trust(a) {
		return a
	}
	lines := r.Header.Values("X-Forwarded-For")
	rest := strings.Join(lines, ",")
	for range maxHops {
		i := strings.LastIndexByte(rest, ',')
		next, err := parseHop(strings.TrimSpace(rest[i+1:]))
		if err != nil {
			return a // nothing before it can be believed
		}
		if a = next; !p.trust(a) || i < 0 {
			return a
		}
		rest = rest[:i]
	}
	return a
}

// parseHop reads an address, with a port or without.
func parseHop(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr().Unmap().WithZone(""), err
}
