package soif

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// A Mend is a wrong size, and the size in its place.
type Mend struct {
	Line      int // from 1
	Attribute string
	Was       string // as written between the braces, or another mistake
	Size      int    // octets
}

func (m Mend) String() string {
	return fmt.Sprintf("line %d: attribute %.60q: %s, now %d", m.Line, m.Attribute, m.Was, m.Size)
}

// Repair reads text written by hand, or without its TABs, and returns its
// mends. A size is believed if it fits: after so many octets come blanks, and
// the next attribute or the end of the object. With any other size, such as
// {x}, the value ends before a line beginning with an attribute or with "}", or
// before a blank and another attribute in its own line. Blanks may stand in
// place of the TAB. A value without a plausible size is a [*ParseError].
func Repair(text []byte) (objects []Object, mends []Mend, err error) {
	p := patcher{text: text}
	for {
		o, ok, err := p.object()
		if err != nil || !ok {
			return objects, p.mends, err
		}
		objects = append(objects, o)
	}
}

// A patcher reads text in memory.
type patcher struct {
	text  []byte
	pos   int
	mends []Mend

	counted, lines int // line ends before the octet counted
}

var (
	headLine = regexp.MustCompile(`^@([^\s{}@][^\s{}]*)[ \t]*\{[ \t\r\n]*([^\s@]\S*)`)
	sized    = regexp.MustCompile(`^([^\s{}]+)\{[ \t]*([0-9xXnN?]*)[ \t]*\}(:)([ \t]*)`)
	// A colon before the size is a mistake seen in print.
	misplaced = regexp.MustCompile(`^([^\s{}]+):\{[ \t]*([0-9xXnN?]*)[ \t]*\}()([ \t]*)`)
	// another begins an attribute, or ends the object, in a line of its own.
	another = regexp.MustCompile(`(?m)^[ \t]*(?:[^\s{}]+(?::\{[ \t]*[0-9xXnN?]*[ \t]*\}|\{[ \t]*[0-9xXnN?]*[ \t]*\}:)|\}[ \t\r]*$|@[^\s{}]+[ \t]*\{[ \t])`)
	// inline begins an attribute behind others in a line.
	inline = regexp.MustCompile(`[ \t][^\s{}]+\{[ \t]*[0-9xXnN?]*[ \t]*\}:|[ \t]+\}[ \t\r]*$`)
)

func (p *patcher) skip() {
	for p.pos < len(p.text) && blank(p.text[p.pos]) {
		p.pos++
	}
}

func (p *patcher) object() (o Object, ok bool, err error) {
	for p.skip(); p.pos < len(p.text) && p.text[p.pos] != '@'; p.skip() {
		if i := bytes.IndexByte(p.text[p.pos:], '\n'); i >= 0 {
			p.pos += i
		} else {
			p.pos = len(p.text)
		}
	}
	if p.pos == len(p.text) {
		return o, false, nil
	}
	m := headLine.FindSubmatch(p.text[p.pos:])
	if m == nil {
		return o, false, p.fail(errors.New("an object begins with @TYPE { URL"))
	}
	o.Type, o.URL = string(m[1]), string(m[2])
	if o.URL == "-" {
		o.URL = ""
	}
	if o.URL != "}" { // an object without a URL
		p.pos += len(m[0])
	} else {
		o.URL = ""
		p.pos += len(m[0]) - 1
	}
	for {
		p.skip()
		switch {
		case p.pos == len(p.text):
			return o, true, p.check(&o)
		case p.text[p.pos] == '}':
			p.pos++
			return o, true, p.check(&o)
		case p.text[p.pos] == '@' && headLine.Match(p.text[p.pos:]): // the } is missing
			return o, true, p.check(&o)
		}
		a, err := p.attribute()
		if err != nil {
			return o, false, err
		}
		o.Attributes = append(o.Attributes, a)
	}
}

// check refuses an object that could not be written.
func (p *patcher) check(o *Object) error {
	if err := o.Check(); err != nil {
		return p.fail(err)
	}
	return nil
}

func (p *patcher) attribute() (a Attribute, err error) {
	m := sized.FindSubmatch(p.text[p.pos:])
	if m == nil {
		m = misplaced.FindSubmatch(p.text[p.pos:])
	}
	if m == nil {
		return a, p.fail(errors.New("an attribute is NAME{SIZE}: VALUE"))
	}
	a.Name = string(m[1])
	declared, between := string(m[2]), m[4]
	line := p.line()
	was := "size {" + declared + "}"
	proper := len(m[3]) > 0 && len(between) > 0 && between[0] == '\t'
	start := p.pos + len(m[0])
	if proper {
		start -= len(between) - 1 // one TAB only; the rest is of the value
	}
	n, bad := strconv.Atoi(declared)
	fits := bad == nil && p.fits(start, n)
	end := start + n
	if !fits {
		end = p.end(start)
	}
	a.Value = string(p.text[start:end])
	if !fits || !proper || strconv.Itoa(n) != declared {
		if fits {
			was += ", and no colon and TAB alone behind it"
		}
		p.mends = append(p.mends, Mend{line, a.Name, was, len(a.Value)})
	}
	p.pos = end
	return a, nil
}

// fits tells whether a value of n octets may stand at a place.
func (p *patcher) fits(start, n int) bool {
	if n > len(p.text)-start {
		return false
	}
	rest := bytes.TrimLeft(p.text[start+n:], " \t\r\n")
	switch {
	case len(rest) == 0, rest[0] == '}':
		return true
	case !begins(rest[:min(len(rest), 2*maxToken)]):
		return false
	}
	// One line may hold several attributes without blanks. But a value with its
	// end amid the next line has run into the next name.
	return len(rest) < len(p.text)-start-n || !bytes.ContainsRune(p.text[start:start+n], '\n')
}

// begins tells whether an attribute begins here.
func begins(text []byte) bool { return sized.Match(text) || misplaced.Match(text) }

// end finds where a value of unknown size ends.
func (p *patcher) end(start int) int {
	line := bytes.IndexByte(p.text[start:], '\n')
	if line < 0 {
		line = len(p.text) - start
	}
	if i := inline.FindIndex(p.text[start : start+line]); i != nil {
		return start + len(bytes.TrimRight(p.text[start:start+i[0]], " \t\r"))
	}
	end := len(p.text)
	if start+line < len(p.text) {
		if i := another.FindIndex(p.text[start+line+1:]); i != nil {
			end = start + line + 1 + i[0]
		}
	}
	return start + len(bytes.TrimRight(p.text[start:end], " \t\r\n"))
}

// line is the line of pos; it only grows.
func (p *patcher) line() int {
	p.lines += bytes.Count(p.text[p.counted:p.pos], []byte("\n"))
	p.counted = p.pos
	return 1 + p.lines
}

func (p *patcher) fail(err error) error {
	return &ParseError{Line: p.line(), Offset: int64(p.pos), Size: -1,
		Follows: string(p.text[p.pos:min(len(p.text), p.pos+shownOctets)]), Err: err}
}
