package local

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrName says that a URI has no path here.
var ErrName = errors.New("no file name for this URI")

// Limits of URIs and of names made of them, in octets.
const (
	maxURI     = 8 << 10
	maxSegment = 200 // of a name before it is cut
)

// Own is the directory of unfinished files and of the state.
const Own = ".cutie-sync"

// Names maps URIs to paths and back.
type Names struct {
	base string // with a slash at its end
	fold bool   // the file system does not tell a from A
}

// NewNames returns the Names for resources below a base URI, an absolute http or https
// URI. fold says that the file system does not tell a from A.
func NewNames(base string, fold bool) (*Names, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is not an absolute http or https URI", base)
	}
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return &Names{base: base, fold: fold}, nil
}

// Path returns the path of a resource, with slashes. The error wraps [ErrName].
func (n *Names) Path(uri string) (string, error) {
	rest, below := strings.CutPrefix(uri, n.base)
	var b strings.Builder
	if !below {
		u, err := url.Parse(uri)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return "", fmt.Errorf("%w: %.200q is not an absolute http or https URI", ErrName, uri)
		case u.User != nil:
			return "", fmt.Errorf("%w: %.200q has a user", ErrName, uri)
		}
		b.WriteString("^" + u.Scheme + "+" + strings.ReplaceAll(u.Host, ":", "+"))
		origin := u.Scheme + "://" + u.Host
		if !strings.HasPrefix(uri, origin) || len(u.Host) > maxSegment || strings.ContainsFunc(u.Host, oddInHost) {
			return "", fmt.Errorf("%w: %.200q is not in its plain form", ErrName, uri)
		}
		if rest = uri[len(origin):]; rest == "" || rest[0] != '/' {
			return "", fmt.Errorf("%w: %.200q has no path", ErrName, uri)
		}
		rest = rest[1:]
		b.WriteByte('/')
	}
	if len(uri) > maxURI || strings.ContainsAny(rest, "^#") {
		return "", fmt.Errorf("%w: %.200q is too long, or has a fragment", ErrName, uri)
	}
	path, query, asked := strings.Cut(rest, "?")
	segments := strings.Split(path, "/")
	if asked {
		segments[len(segments)-1] += "?" + query
	}
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		n.segment(&b, s, below && i == 0)
	}
	return b.String(), nil
}

// segment writes the name of a segment of a URI; top: in the directory itself.
func (n *Names) segment(b *strings.Builder, s string, top bool) {
	const digits = "0123456789abcdef"
	if s == "" {
		b.WriteByte('^')
		return
	}
	dots := s == "." || s == ".." || top && strings.HasPrefix(s, Own)
	length := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if length >= maxSegment {
			b.WriteString("^-/")
			length = 0
		}
		if plain(c) && !(dots && c == '.') && !(n.fold && c >= 'A' && c <= 'Z') {
			b.WriteByte(c)
			length++
			continue
		}
		b.Write([]byte{'^', digits[c>>4], digits[c&15]})
		length += 3
	}
}

// plain reports whether a file name has an octet as it is. Others are special on some
// system, or in a shell.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~%+=@,:()!$&';", c) >= 0
}

// oddInHost reports whether a character is not one of host names, addresses, and ports.
func oddInHost(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']')
}

// URI returns the URI of a path, "" if it is none of a resource.
func (n *Names) URI(path string) string {
	var b strings.Builder
	if rest, other := strings.CutPrefix(path, "^http"); other {
		host, tail, ok := strings.Cut(rest, "/")
		secure, host2 := strings.CutPrefix(host, "s+")
		if !ok || secure == "" {
			return ""
		}
		if host2 {
			b.WriteString("https://" + strings.ReplaceAll(secure, "+", ":") + "/")
		} else if plain, ok := strings.CutPrefix(host, "+"); ok {
			b.WriteString("http://" + strings.ReplaceAll(plain, "+", ":") + "/")
		} else {
			return ""
		}
		path = tail
	} else {
		b.WriteString(n.base)
	}
	names := strings.Split(path, "/")
	for i := 0; i < len(names); i++ {
		name := names[i]
		if name == "^" {
			name = ""
		} else {
			name = strings.TrimSuffix(name, "^")
		}
		part, more := strings.CutSuffix(name, "^-")
		for j := 0; j < len(part); j++ {
			if part[j] != '^' {
				b.WriteByte(part[j])
				continue
			}
			c, ok := octet(part[j+1:])
			if !ok {
				return ""
			}
			b.WriteByte(c)
			j += 2
		}
		if i < len(names)-1 && !more {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// octet reads two digits.
func octet(s string) (c byte, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	for _, d := range []byte(s[:2]) {
		switch {
		case d >= '0' && d <= '9':
			c = c<<4 | (d - '0')
		case d >= 'a' && d <= 'f':
			c = c<<4 | (d - 'a' + 10)
		default:
			return 0, false
		}
	}
	return c, true
}
