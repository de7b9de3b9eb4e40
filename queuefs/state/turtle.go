package state

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Names of RDF and of XML Schema.
const (
	rdfSyntax = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	rdfType   = rdfSyntax + "type"
	rdfFirst  = rdfSyntax + "first"
	rdfRest   = rdfSyntax + "rest"
	rdfNil    = rdfSyntax + "nil"

	xmlSchema = "http://www.w3.org/2001/XMLSchema#"
)

// appendTurtle appends d as RDF in Turtle. The subject is the URL of the state,
// or nobody if it has none. A list is one RDF collection.
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

// isIRI reports whether s is absolute and may stand between < and >. What
// operators enter as a reference need not be one.
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
	start := 0 // of what is not yet appended
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

// decodeTurtle reads what is said of the one subject that is of the class or
// has properties in its namespace. What is said of others, or in other
// namespaces, does not count. Lists may also be repeated under the name of
// their items, as Merritt wrote them.
func decodeTurtle(c *Class, data []byte) (values, error) {
	triples, err := parseTurtle(data)
	if err != nil {
		return nil, err
	}
	var (
		v       = make(values, len(c.Terms))
		ns      = c.Namespace + "/"
		lists   = collections(triples)
		subject node
		found   bool
	)
	for _, t := range triples {
		name, ours := strings.CutPrefix(t.predicate, ns)
		if !ours && (t.predicate != rdfType || t.object.text != ns+c.Root) {
			continue
		}
		if found && t.subject != subject {
			return nil, fmt.Errorf("more than one %s:%s", c.Prefix, c.Root)
		}
		subject, found = t.subject, true
		for i := range c.Terms {
			if !ours {
				break
			}
			if term := &c.Terms[i]; term.Name == name || term.Item == name && name != "" {
				if err := v[i].addObject(term, name, t.object, lists); err != nil {
					return nil, fmt.Errorf("%s:%s: %w", c.Prefix, name, err)
				}
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("no %s:%s", c.Prefix, c.Root)
	}
	return v, nil
}

func (v *value) addObject(t *Term, name string, object node, lists map[node]link) error {
	single := name == t.Name
	if v.set && single {
		return errors.New("repeated")
	}
	v.set = true
	if t.Item == "" || !single {
		if object.kind == blank {
			return errors.New("value is a node without a name")
		}
		if single {
			v.text = object.text
		} else {
			v.items = append(v.items, object.text)
		}
		return nil
	}
	for n := 0; object != (node{kind: iri, text: rdfNil}); n++ {
		l, ok := lists[object]
		if !ok || !l.whole() || n >= len(lists) {
			return errors.New("value is no collection")
		}
		if l.first.kind == blank {
			return errors.New("item is a node without a name")
		}
		v.items = append(v.items, l.first.text)
		object = l.rest
	}
	return nil
}

// A link is a node of an RDF collection.
type link struct{ first, rest node }

func (l link) whole() bool { return l.first.kind != 0 && l.rest.kind != 0 }

func collections(triples []triple) map[node]link {
	links := make(map[node]link)
	for _, t := range triples {
		l := links[t.subject]
		switch t.predicate {
		case rdfFirst:
			l.first = t.object
		case rdfRest:
			l.rest = t.object
		default:
			continue
		}
		links[t.subject] = l
	}
	return links
}
