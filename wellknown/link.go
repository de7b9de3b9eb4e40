package wellknown

import (
	"fmt"
	"net/http"
	"strings"
)

// Link returns a value for a Link header field: a link from the resource served
// to target, with the relation rel (RFC 8288, 3). Characters outside of URIs
// are percent-encoded in target; rel must be a token or URI.
func Link(target, rel string) string {
	var b strings.Builder
	b.WriteByte('<')
	for _, c := range []byte(target) {
		if c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '"' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteString(`>; rel="` + rel + `"`)
	return b.String()
}

// Links returns the targets of all links in the Link fields of a header with
// the relation rel, in their order and as written, so maybe relative. Links of
// another context (anchor) are left out; a syntax error ends its field.
func Links(h http.Header, rel string) []string {
	var targets []string
	for _, field := range h.Values("Link") {
		for field != "" {
			var l link
			var ok bool
			if l, field, ok = nextLink(field); !ok {
				break
			}
			if !l.anchored && hasRel(l.rel, rel) {
				targets = append(targets, l.target)
			}
		}
	}
	return targets
}

// link is a link-value of RFC 8288.
type link struct {
	target, rel string
	anchored    bool
}

// nextLink parses the first link of s and returns the text after its comma.
func nextLink(s string) (l link, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t,")
	s, ok = strings.CutPrefix(s, "<")
	if !ok {
		return l, "", false
	}
	if l.target, s, ok = strings.Cut(s, ">"); !ok {
		return l, "", false
	}
	l.target = strings.TrimSpace(l.target)
	for related := false; ; {
		s = strings.TrimLeft(s, " \t")
		if s == "" || s[0] == ',' {
			return l, s, true
		}
		if s[0] != ';' {
			return l, "", false
		}
		var name, value string
		if name, value, s, ok = nextParam(s[1:]); !ok {
			return l, "", false
		}
		switch {
		case strings.EqualFold(name, "rel") && !related: // only the first counts
			l.rel, related = value, true
		case strings.EqualFold(name, "anchor"):
			l.anchored = true
		}
	}
}

// nextParam parses name, name=token or name="quoted" at the head of s.
func nextParam(s string) (name, value, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		end = len(s)
	}
	name, s = strings.TrimSpace(s[:end]), s[end:]
	if !strings.HasPrefix(s, "=") {
		return name, "", s, true
	}
	s = strings.TrimLeft(s[1:], " \t")
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ";,")
		if end < 0 {
			end = len(s)
		}
		return name, strings.TrimSpace(s[:end]), s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return name, b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", "", false
}

// hasRel reports whether the relations, separated by space, have rel among
// them. Letter case does not count.
func hasRel(relations, rel string) bool {
	for r := range strings.FieldsSeq(relations) {
		if strings.EqualFold(r, rel) {
			return true
		}
	}
	return false
}
