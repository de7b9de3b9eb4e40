package wellknown

import (
	"html"
	"strings"
)

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
