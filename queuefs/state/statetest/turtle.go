package statetest

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A node is a subject or an object of RDF. Datatype and language of a literal
// do not count here; the class has the type.
type node struct {
	kind kind
	text string
}

type kind uint8

const (
	iri kind = 1 + iota
	literal
	blank
)

type triple struct {
	subject   node
	predicate string
	object    node
}

// maxNesting bounds brackets within brackets; our documents have none.
// maxTriples bounds memory: the state of a queue with 1,000 jobs listed and
// 10,000 submitted has a tenth.
const (
	maxNesting = 64
	maxTriples = 1 << 18
)

// A turtle parses RDF 1.1 Turtle.
type turtle struct {
	s        string // the rest of the document
	line     int
	base     *url.URL
	prefixes map[string]string
	triples  []triple
	blanks   int
	depth    int
}

func parseTurtle(data []byte) ([]triple, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("text is not UTF-8")
	}
	p := &turtle{s: strings.TrimPrefix(string(data), "\ufeff"), line: 1, prefixes: make(map[string]string)}
	for p.space(); p.s != ""; p.space() {
		if err := p.statement(); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	return p.triples, nil
}

// space skips white space and comments.
func (p *turtle) space() {
	for p.s != "" {
		switch p.s[0] {
		case ' ', '\t', '\r', '\n':
			p.skip(1)
		case '#':
			if i := strings.IndexAny(p.s, "\r\n"); i >= 0 {
				p.skip(i)
			} else {
				p.skip(len(p.s))
			}
		default:
			return
		}
	}
}

func (p *turtle) skip(n int) string {
	t := p.s[:n]
	p.line += strings.Count(t, "\n")
	p.s = p.s[n:]
	return t
}

// take skips white space and then the token if it comes next.
func (p *turtle) take(token string) bool {
	p.space()
	if !strings.HasPrefix(p.s, token) {
		return false
	}
	p.skip(len(token))
	return true
}

func (p *turtle) expect(token string) error {
	if !p.take(token) {
		return p.unexpected("want " + strconv.Quote(token))
	}
	return nil
}

func (p *turtle) unexpected(want string) error {
	if p.s == "" {
		return errors.New("unexpected end, " + want)
	}
	return fmt.Errorf("unexpected %.20q, %s", p.s, want)
}

func (p *turtle) statement() error {
	at := p.take("@")
	word := p.s[:prefixLength(p.s, isLetter)]
	switch {
	case at && word == "prefix", !at && strings.EqualFold(word, "prefix") && isBlankAt(p.s, len(word)):
		p.skip(len(word))
		p.space()
		i := strings.IndexByte(p.s, ':')
		if i < 0 || prefixLength(p.s, isNameByte) != i {
			return p.unexpected("want a prefix")
		}
		name := p.skip(i)
		p.skip(1)
		p.space()
		ref, err := p.iriRef()
		if err != nil {
			return err
		}
		p.prefixes[name] = ref
	case at && word == "base", !at && strings.EqualFold(word, "base") && isBlankAt(p.s, len(word)):
		p.skip(len(word))
		p.space()
		ref, err := p.iriRef()
		if err != nil {
			return err
		}
		if p.base, err = url.Parse(ref); err != nil {
			return errors.New("base is no URL")
		}
	case at:
		return p.unexpected("want @prefix or @base")
	default:
		anonymous := strings.HasPrefix(p.s, "[")
		subject, err := p.node(false)
		if err != nil {
			return err
		}
		// [ ] with something in it has said enough.
		if p.space(); !anonymous || !strings.HasPrefix(p.s, ".") {
			if err := p.predicates(subject); err != nil {
				return err
			}
		}
		return p.expect(".")
	}
	if at {
		return p.expect(".")
	}
	return nil
}

var errTriples = fmt.Errorf("more than %d statements", maxTriples)

func (p *turtle) say(subject node, predicate string, object node) error {
	if len(p.triples) == maxTriples {
		return errTriples
	}
	p.triples = append(p.triples, triple{subject, predicate, object})
	return nil
}

func (p *turtle) predicates(subject node) error {
	for {
		p.space()
		predicate := node{iri, rdfType}
		if strings.HasPrefix(p.s, "a") && isBlankAt(p.s, 1) {
			p.skip(1)
		} else {
			var err error
			if predicate, err = p.node(false); err != nil {
				return err
			}
			if predicate.kind != iri {
				return errors.New("predicate is no IRI")
			}
		}
		for {
			object, err := p.node(true)
			if err != nil {
				return err
			}
			if err := p.say(subject, predicate.text, object); err != nil {
				return err
			}
			if !p.take(",") {
				break
			}
		}
		more := false
		for p.take(";") {
			more = true
		}
		p.space()
		if !more || p.s == "" || p.s[0] == '.' || p.s[0] == ']' {
			return nil
		}
	}
}

// node parses a subject, or an object, possibly a literal.
func (p *turtle) node(object bool) (node, error) {
	p.space()
	if p.s == "" {
		return node{}, p.unexpected("want a node")
	}
	switch c := p.s[0]; {
	case c == '<':
		ref, err := p.iriRef()
		return node{iri, ref}, err
	case c == '[' || c == '(':
		if p.depth++; p.depth > maxNesting {
			return node{}, errors.New("brackets are nested too deeply")
		}
		defer func() { p.depth-- }()
		if c == '[' {
			return p.anonymous()
		}
		return p.collection()
	case strings.HasPrefix(p.s, "_:"):
		n := 2 + prefixLength(p.s[2:], isNameByte)
		for n > 2 && p.s[n-1] == '.' {
			n--
		}
		if n == 2 {
			return node{}, p.unexpected("want a label")
		}
		return node{blank, p.skip(n)}, nil
	case object && (c == '"' || c == '\''):
		return p.quoted()
	case object && (c >= '0' && c <= '9' || strings.IndexByte("+-.", c) >= 0):
		return p.number()
	}
	word := p.s[:prefixLength(p.s, isLetter)]
	if object && (word == "true" || word == "false") && (len(p.s) == len(word) || p.s[len(word)] != ':') {
		return node{literal, p.skip(len(word))}, nil
	}
	ref, err := p.prefixedName()
	return node{iri, ref}, err
}

func (p *turtle) fresh() node {
	p.blanks++
	return node{blank, "[" + strconv.Itoa(p.blanks)} // no label begins so
}

func (p *turtle) anonymous() (node, error) {
	p.skip(1)
	n := p.fresh()
	if p.take("]") {
		return n, nil
	}
	if err := p.predicates(n); err != nil {
		return n, err
	}
	return n, p.expect("]")
}

func (p *turtle) collection() (node, error) {
	p.skip(1)
	var items []node
	for !p.take(")") {
		item, err := p.node(true)
		if err != nil {
			return node{}, err
		}
		if items = append(items, item); len(items) > maxTriples {
			return node{}, errTriples
		}
	}
	list := node{iri, rdfNil}
	for i := len(items) - 1; i >= 0; i-- {
		n := p.fresh()
		if err := errors.Join(p.say(n, rdfFirst, items[i]), p.say(n, rdfRest, list)); err != nil {
			return node{}, err
		}
		list = n
	}
	return list, nil
}
