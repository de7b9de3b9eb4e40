package wellknown

import (
	"fmt"
	"html"
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

// HTMLLinks returns the targets of all <link rel="resourcesync"> in the head
// of a page, in their order and as they are written there, so maybe relative.
// The page may be cut off anywhere, and need not be good HTML.
func HTMLLinks(page string) []string {
	var targets []string
	for {
		var ok bool
		if _, page, ok = strings.Cut(page, "<"); !ok {
			return targets
		}
		if comment, ok := strings.CutPrefix(page, "!--"); ok {
			_, page, _ = strings.Cut(comment, "-->")
			continue
		}
		var name string
		name, page = tagName(page)
		switch name {
		case "/head", "body":
			return targets
		case "script", "style", "title", "noscript", "template":
			page = afterFold(page, "</"+name)
		case "link":
			var rel, href string
			rel, href, page = linkAttrs(page)
			if href != "" && hasRel(rel, Rel) {
				targets = append(targets, href)
			}
		}
	}
}

const htmlSpace = " \t\r\n\f"

// tagName takes a tag's name, in lower case, from the head of s.
func tagName(s string) (name, rest string) {
	end := strings.IndexAny(s, htmlSpace+">")
	if end < 0 {
		end = len(s)
	}
	return strings.ToLower(strings.TrimSuffix(s[:end], "/")), s[end:]
}

// afterFold returns the text after the first end in s, in any case of letters;
// nothing without end.
func afterFold(s, end string) string {
	for i := 0; i+len(end) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(end)], end) {
			return s[i+len(end):]
		}
	}
	return ""
}

// linkAttrs takes the attributes of a tag from the head of s, up to and with
// the closing >.
func linkAttrs(s string) (rel, href, rest string) {
	for {
		s = strings.TrimLeft(s, htmlSpace+"/")
		if s == "" {
			return "", "", "" // cut off within the tag
		}
		if s[0] == '>' {
			return rel, href, s[1:]
		}
		// A stray = before a name belongs to the name.
		end := strings.IndexAny(s[1:], htmlSpace+"/>=") + 1
		if end == 0 {
			return "", "", ""
		}
		name := s[:end]
		s = strings.TrimLeft(s[end:], htmlSpace)
		var value string
		if v, ok := strings.CutPrefix(s, "="); ok {
			value, s = attrValue(strings.TrimLeft(v, htmlSpace))
		}
		switch strings.ToLower(name) {
		case "rel":
			rel = value
		case "href":
			href = strings.TrimSpace(value)
		}
	}
}

func attrValue(s string) (value, rest string) {
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		value, rest, _ = strings.Cut(s[1:], s[:1])
		return html.UnescapeString(value), rest
	}
	end := strings.IndexAny(s, htmlSpace+">")
	if end < 0 {
		end = len(s)
	}
	return html.UnescapeString(s[:end]), s[end:]
}

// RobotsLine returns the line of a robots.txt for a Resource List or another
// Sitemap, with its line end. The URL must be absolute.
func RobotsLine(sitemap string) string { return "Sitemap: " + sitemap + "\n" }

// RobotsSitemaps returns the URLs in the Sitemap lines of a robots.txt, in
// their order. Some of them may be ordinary Sitemaps.
func RobotsSitemaps(robots string) []string {
	var urls []string
	robots = strings.TrimPrefix(robots, "\ufeff")
	for line := range strings.FieldsFuncSeq(robots, func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if strings.EqualFold(strings.TrimSpace(field), "sitemap") && value != "" {
			urls = append(urls, value)
		}
	}
	return urls
}

// Robots returns a robots.txt with Resource Lists and without restrictions, as
// many as the usual limit of 500 KiB takes (RFC 9309, 2.5).
func Robots(sitemaps []string) string {
	const limit = 500 << 10
	var b strings.Builder
	b.WriteString("User-agent: *\nDisallow:\n\n")
	for _, s := range sitemaps {
		line := RobotsLine(s)
		if b.Len()+len(line) > limit {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
