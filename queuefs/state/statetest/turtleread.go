package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cutie/queuefs/state"
)

const (
	rdfSyntax = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	rdfType   = rdfSyntax + "type"
	rdfFirst  = rdfSyntax + "first"
	rdfRest   = rdfSyntax + "rest"
	rdfNil    = rdfSyntax + "nil"
)

// decodeTurtle reads the statements about the one subject of the class, or with
// properties in its namespace. Statements about others, or in other namespaces,
// do not count. Lists may also be repeated under the name of their items, as
// Merritt wrote them.
func decodeTurtle(c *state.Class, data []byte) (values, error) {
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
	for i := range v {
		switch loose := v[i].loose; {
		case v[i].items == nil:
			v[i].items = loose
		case loose != nil && !slices.Equal(loose, v[i].items):
			return nil, fmt.Errorf("%s:%s has %d items, and %s:%s %d others", c.Prefix, c.Terms[i].Name, len(v[i].items), c.Prefix, c.Terms[i].Item, len(loose))
		}
	}
	return v, nil
}

func (v *value) addObject(t *state.Term, name string, object node, lists map[node]link) error {
	single := name == t.Name
	if v.set && single && (v.text != "" || v.items != nil || v.loose == nil) {
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
			v.loose = append(v.loose, object.text)
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
