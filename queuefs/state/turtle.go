package state

import (
	"strings"
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
		return append(appendString(dst, text), "^^xsd:dateTime"...)
	case Reference:
		if isIRI(text) {
			return append(append(append(dst, '<'), text...), '>')
		}
		return append(appendString(dst, text), "^^xsd:anyURI"...)
	}
	return appendString(dst, text)
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
