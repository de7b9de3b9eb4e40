package wellknown

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// Normal returns an absolute http or https URI in its normal form (RFC 3986, 6.2.2 and
// 6.2.3), so that equal URIs are equal strings: scheme and host in lower case, the host in
// ASCII (RFC 5891), no default port, "/" for an empty path, no dot segments, and percent
// signs for all but the characters of URIs. Other URIs are returned as they are.
func Normal(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return uri, nil
	}
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user, host := "", rest[:end]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		user, host = host[:i+1], host[i+1:]
	}
	if host, err = normalHost(host, u); err != nil {
		return "", err
	}
	path, rest := rest[end:], ""
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path, rest = path[:i], path[i:]
	}
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + user + host + withoutDots(normalPercent(path)) + normalPercent(rest), nil
}

func normalHost(host string, u *url.URL) (string, error) {
	port := u.Port()
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(host, port), ":"))
	if strings.ContainsFunc(host, func(c rune) bool { return c > '~' || c == '%' }) && host[0] != '[' {
		ascii, err := idna.Lookup.ToASCII(strings.ToLower(u.Hostname()))
		if err != nil {
			return "", fmt.Errorf("host %.80q: %w", u.Hostname(), err)
		}
		host = ascii
	}
	if port == "" || port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return host, nil
	}
	return host + ":" + port, nil
}

// normalPercent encodes what is no character of URIs, and nothing else.
func normalPercent(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c > '~' || !ofURI(byte(c)) }) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' { // url.Parse has seen two digits in a path
			if i+2 < len(s) && hex(s[i+1]) >= 0 && hex(s[i+2]) >= 0 {
				c = byte(hex(s[i+1])<<4 | hex(s[i+2]))
				i += 2
			}
			if unreserved(c) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		if ofURI(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ofURI reports whether a character of a URI stands for itself.
func ofURI(c byte) bool { return unreserved(c) || strings.IndexByte("/?#[]!$&'()*+,;=:@", c) >= 0 }

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// hex returns the value of a digit, below 0 of another character.
func hex(c byte) int {
	if c >= 'A' && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}

// withoutDots removes the segments . and .. of an absolute path (RFC 3986, 5.2.4).
func withoutDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var out []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			out = out[:max(0, len(out)-1)]
		case s != ".":
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}
