package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// A RefusedError is a URL or an address closed to requests.
type RefusedError struct {
	Host string         // as in the URL, with its port
	Addr netip.AddrPort // its address; not valid if the URL alone was enough
	Why  string
}

func (e *RefusedError) Error() string {
	if !e.Addr.IsValid() {
		return fmt.Sprintf("refused: %s", e.Why)
	}
	return fmt.Sprintf("refused: %s has the address %s, which is %s; the pattern %s would allow it", e.Host, e.Addr.Addr(), e.Why, e.Addr)
}

// Public returns the part of the error meant for the stranger who named the
// URL: Error without the address.
func (e *RefusedError) Public() string {
	if !e.Addr.IsValid() {
		return e.Error()
	}
	return unreachable
}

// unreachable is the one text for names with private addresses and for unknown names:
// strangers do not learn the names of a private network.
const unreachable = "refused: the host is not known, or its address is not public and not allowed here"

// Public returns the text of an error for the stranger who named the URL, if the request
// was refused or its host was not found; else "".
func Public(err error) string {
	var refused *RefusedError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused.Public()
	case errors.As(err, &lookup):
		return unreachable
	}
	return ""
}

// Addresses are those that may be connected to: the public ones, and those of patterns (see
// [Options]). A nil *Addresses allows the public ones. It is safe for concurrent use.
type Addresses struct{ allow atomic.Pointer[[]pattern] }

// NewAddresses returns Addresses with patterns. The error names a malformed pattern.
func NewAddresses(patterns []string) (*Addresses, error) {
	a := &Addresses{}
	if err := a.Allow(patterns); err != nil {
		return nil, err
	}
	return a, nil
}

// Allow replaces the patterns. After an error, for a malformed pattern, the former ones stay
// in force.
func (a *Addresses) Allow(texts []string) error {
	patterns := make([]pattern, len(texts))
	for i, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			return err
		}
		patterns[i] = p
	}
	a.allow.Store(&patterns)
	return nil
}

// Dial connects to addr, the host and port of a URL, if its address is allowed. Else the
// error is a [*RefusedError].
func (a *Addresses) Dial(ctx context.Context, d net.Dialer, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d.Control = a.control(host, port)
	return d.DialContext(ctx, network, addr)
}

// Literal checks the host of addr where it is an address, for requests that a proxy makes:
// it resolves names by itself.
func (a *Addresses) Literal(addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil
	}
	return a.check(at.Addr().String(), strconv.Itoa(int(at.Port())), at)
}

// control returns the check of an address for a host of a URL. It runs when
// the name is resolved and before the connection is made.
func (a *Addresses) control(host, port string) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return &RefusedError{Host: host + ":" + port, Why: "no address of TCP"}
		}
		return a.check(host, port, at)
	}
}

func (a *Addresses) check(host, port string, at netip.AddrPort) error {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	why := special(at.Addr())
	if why == "" {
		return nil
	}
	if a != nil {
		for _, p := range *a.allow.Load() {
			if p.allows(host, at) {
				return nil
			}
		}
	}
	return &RefusedError{Host: net.JoinHostPort(host, port), Addr: at, Why: why}
}

// ranges are the addresses that are not public, after the IANA registries of
// special-purpose addresses (RFC 6890). The first match counts.
var ranges = []struct {
	netip.Prefix
	why string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a carrier"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/32"), "of a Teredo tunnel"},
	{netip.MustParsePrefix("2001::/23"), "for protocols"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
	global = netip.MustParsePrefix("2000::/3")     // all of IPv6 given out so far
)

// special returns the kind of an address that is not public, else "".
func special(a netip.Addr) string {
	a = a.Unmap()
	for _, r := range ranges {
		if r.Contains(a.WithZone("")) {
			return r.why
		}
	}
	if a.Is4() {
		return ""
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return special(netip.AddrFrom4([4]byte(b[12:])))
	case sixTo4.Contains(a):
		return special(netip.AddrFrom4([4]byte(b[2:6])))
	case !global.Contains(a):
		return "reserved"
	}
	return ""
}

// A pattern allows a host or a range of addresses, at all ports if port is 0.
type pattern struct {
	host   string // in lower case; with a dot before it, all hosts below it
	prefix netip.Prefix
	port   uint16
}

var errPattern = errors.New("not HOST, *.HOST, ADDRESS or ADDRESS/BITS, each with :PORT or without")

func parsePattern(text string) (pattern, error) {
	p, err := parseParts(text)
	if err != nil {
		return pattern{}, fmt.Errorf("pattern %.80q: %w", text, err)
	}
	return p, nil
}

func parseParts(text string) (p pattern, err error) {
	rest := text
	if p.prefix, err = parsePrefix(rest); err == nil {
		return p, nil
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		port, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if err != nil || port == 0 {
			return p, errPattern
		}
		rest, p.port = rest[:i], uint16(port)
	}
	inner, bracketed := strings.CutPrefix(rest, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
	}
	if p.prefix, err = parsePrefix(inner); err == nil && bracketed == p.prefix.Addr().Is6() {
		return p, nil
	}
	p.prefix = netip.Prefix{}
	host, below := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(rest, ".")), "*.")
	if host == "" || len(host) > 253 || numeric(host) {
		return p, errPattern
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return p, errPattern
		}
	}
	if below {
		host = "." + host
	}
	p.host = host
	return p, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	a, err := netip.ParseAddr(s)
	if err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err == nil && p.Addr().Is4In6() {
		return p, errPattern
	}
	return p.Masked(), err
}

func (p *pattern) allows(host string, at netip.AddrPort) bool {
	if p.port != 0 && p.port != at.Port() {
		return false
	}
	if p.prefix.IsValid() {
		return p.prefix.Contains(at.Addr().WithZone(""))
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.HasPrefix(p.host, ".") {
		return strings.HasSuffix(host, p.host) && len(host) > len(p.host)
	}
	return host == p.host
}
