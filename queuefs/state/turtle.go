package state

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const xmlSchema = "http://www.w3.org/2001/XMLSchema#"

// appendTurtle appends d as RDF in Turtle. The subject is the URL of the state,
// or nobody if it has none. A list is one RDF collection; the lists of the specification
// have their items by the inner name, too.
func appendTurtle(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(append(dst, "@prefix "...), c.Prefix...)
	dst = append(append(dst, ": <"...), c.Namespace...)
	dst = append(dst, "/> .\n@prefix xsd: <"+xmlSchema+"> .\n\n"...)
	if isIRI(d.Subject) {
		dst = append(append(append(dst, '<'), d.Subject...), '>')
	} else {
		dst = append(dst, "[]"...)
	}
	dst = appendPrefixed(append(dst, " a "...), c.Prefix, c.Root)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = appendPrefixed(append(dst, " ;\n    "...), c.Prefix, p.Name)
		dst = append(dst, ' ')
		if p.Item == "" {
			dst = appendObject(dst, p.Type, p.Text)
			continue
		}
		dst = append(dst, '(')
		for i, item := range p.Items {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = appendObject(dst, p.Type, item)
		}
		dst = append(dst, ')')
		for i, item := range p.Items {
			if !p.Always {
				break
			}
			if i == 0 {
				dst = appendPrefixed(append(dst, " ;\n    "...), c.Prefix, p.Item)
			} else {
				dst = append(dst, ',')
			}
			dst = appendObject(append(dst, ' '), p.Type, item)
		}
	}
	return append(dst, " .\n"...)
}

func appendObject(dst []byte, t Type, text string) []byte {
	switch t {
	case Integer, Boolean:
		return append(dst, text...)
	case Date:
		return append(appendLiteral(dst, text), "^^xsd:dateTime"...)
	case Reference:
		if isIRI(text) {
			return append(append(append(dst, '<'), text...), '>')
		}
		return append(appendLiteral(dst, text), "^^xsd:anyURI"...)
	}
	return appendLiteral(dst, text)
}

// isIRI reports whether s is absolute and may stand between < and >. References
// entered by operators can be anything.
func isIRI(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return false
	}
	for i := 0; i < len(scheme); i++ {
		c := scheme[i] | 0x20
		if !(c >= 'a' && c <= 'z') && (i == 0 || !(scheme[i] >= '0' && scheme[i] <= '9' || strings.IndexByte("+-.", scheme[i]) >= 0)) {
			return false
		}
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || strings.IndexByte("<>\"{}|^`\\", c) >= 0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

func appendLiteral(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	start := 0 // of the part not yet appended
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(append(dst, s[start:i]...), '\\')
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}

// appendXHTML appends d as a plain page of XHTML 1.0 Strict.
func appendXHTML(dst []byte, d *Document) []byte {
	dst = AppendXHTMLHead(dst, d.Class.Prefix+":"+d.Class.Root)
	return AppendXHTMLFoot(AppendTable(dst, d, nil))
}

// XHTMLHead is the beginning of every page, up to its title.
const XHTMLHead = `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
`

// AppendXHTMLHead appends the part of a plain page before its tables.
func AppendXHTMLHead(dst []byte, title string) []byte {
	dst = append(append(dst, XHTMLHead...), "<title>"...)
	return append(appendEscaped(dst, title, false), "</title>\n</head>\n<body>\n"...)
}

// AppendXHTMLFoot appends the part of a plain page after its tables.
func AppendXHTMLFoot(dst []byte) []byte { return append(dst, "</body>\n</html>\n"...) }

// AppendTable appends d as a table of XHTML: a row for every property, with its
// name and exactly its text, and no blanks between the tags of a cell. note
// returns class and title of an element around a value, "" for none; it can be
// nil.
func AppendTable(dst []byte, d *Document, note func(*Property) (class, title string)) []byte {
	dst = append(dst, "<div class=\"scroll\"><table class=\"state\" summary=\""...)
	dst = appendPrefixed(dst, d.Class.Prefix, d.Class.Root)
	dst = append(dst, "\">\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Value</th></tr>\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = append(append(dst, `<tr><th scope="row">`...), p.Name...)
		dst = append(dst, "</th><td>"...)
		switch {
		case p.Item == "":
			dst = d.appendValue(dst, p, note)
		case len(p.Items) > 0:
			dst = append(dst, "<ul>"...)
			for _, item := range p.Items {
				dst = append(d.appendText(append(dst, "<li>"...), p.Type, item), "</li>"...)
			}
			dst = append(dst, "</ul>"...)
		}
		dst = append(dst, "</td></tr>\n"...)
	}
	return append(dst, "</table></div>\n"...)
}

// appendValue appends the text of a property, not a list.
func (d *Document) appendValue(dst []byte, p *Property, note func(*Property) (class, title string)) []byte {
	class, title := "", ""
	if note != nil {
		class, title = note(p)
	}
	if class == "" {
		return d.appendText(dst, p.Type, p.Text)
	}
	dst = append(append(append(dst, `<span class="`...), class...), '"')
	if title != "" {
		dst = append(appendEscaped(append(dst, ` title="`...), title, true), '"')
	}
	return append(d.appendText(append(dst, '>'), p.Type, p.Text), "</span>"...)
}

// appendText appends a value, as a link if it is a reference for browsers.
func (d *Document) appendText(dst []byte, t Type, text string) []byte {
	if t != Reference || !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "mailto:") {
		return appendEscaped(dst, text, false)
	}
	ref := text
	if d.Base != "" && strings.HasPrefix(text, string(d.Base)+"/state") {
		ref = XHTML.Ask(text)
	}
	dst = appendEscaped(append(dst, `<a href="`...), ref, true)
	dst = appendEscaped(append(dst, `">`...), text, false)
	return append(dst, "</a>"...)
}

// Ask returns ref with a parameter for the form.
func (f Form) Ask(ref string) string {
	if strings.Contains(ref, "?") {
		return ref + "&t=" + f.String()
	}
	return ref + "?t=" + f.String()
}

// Ago returns how far a date is from now, such as "3 minutes ago" and "in 2
// days".
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	before, after := "", " ago"
	if d < 0 {
		d, before, after = -d, "in ", ""
	}
	if d < time.Second {
		return "just now"
	}
	n, unit := int64(d/time.Second), "second"
	for _, u := range [...]struct {
		name string
		size time.Duration
	}{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}, {"year", 365 * 24 * time.Hour}} {
		if d >= 2*u.size || d >= u.size && u.name == "minute" {
			n, unit = int64(d/u.size), u.name
		}
	}
	if n != 1 {
		unit += "s"
	}
	return before + strconv.FormatInt(n, 10) + " " + unit + after
}
