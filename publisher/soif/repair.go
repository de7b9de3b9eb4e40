package soif

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Mend is a mistake, and what was done about it.
type Mend struct {
	Line      int    // from 1
	Attribute string // "" for a mistake outside of attributes
	What      string // in words
	Size      int    // octets of the attribute as it is now
}

func (m Mend) String() string {
	if m.Attribute == "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.What)
	}
	return fmt.Sprintf("line %d: attribute %.60q: %s", m.Line, m.Attribute, m.What)
}

// Repaired is text as [Repair] understands it.
type Repaired struct {
	Objects []Object
	Mends   []Mend  // each mistake that was mended
	Skipped Skipped // outside of objects
}

// Repair reads text written by hand, or without its TABs. A size is believed if
// it fits: after so many octets come blanks, and the next attribute or the end
// of the object. With any other size, such as {x}, the value ends before a line
// beginning with an attribute, with "}" or with an object, or before a blank and
// one of these in its own line. Blanks may stand in place of the TAB.
//
// No object is lost: one that begins within a line of other text is found too.
// An attribute without a plausible size, or outside of an object, is a
// [*ParseError].
func Repair(text []byte) (Repaired, error) {
	p := patcher{text: text}
	for {
		if ok, err := p.seek(); err != nil || !ok {
			return p.Repaired, err
		}
		o, err := p.object()
		if err != nil {
			return p.Repaired, err
		}
		p.Objects = append(p.Objects, o)
	}
}

// A patcher reads text in memory.
type patcher struct {
	Repaired
	text []byte
	pos  int

	counted, lines int // line ends before the octet counted
}

const (
	head   = `\x{FEFF}?@[^\s{}@][^\s{}]*\s*\{` // of an object, perhaps after a byte order mark
	behind = `[ \t]*\}[ \t\r]*` + head + `|[ \t]+` + head
	size   = `\{[ \t]*[0-9xXnN?]*[ \t]*\}`
)

var (
	headLine = regexp.MustCompile(`^@([^\s{}@][^\s{}]*)\s*\{\s*([^\s@]\S*)`)
	sized    = regexp.MustCompile(`^([^\s{}]+)\{[ \t]*([0-9xXnN?]*)[ \t]*\}:([ \t]*)`)
	// A colon before the size is a mistake seen in print.
	misplaced = regexp.MustCompile(`^([^\s{}]+):\{[ \t]*([0-9xXnN?]*)[ \t]*\}([ \t]*)`)
	// another begins an attribute or an object, or ends an object, in a line of its own;
	// an object may also begin behind other text.
	another = regexp.MustCompile(`(?m)^[ \t]*(?:[^\s{}]+(?::` + size + `|` + size + `:)|\}[ \t\r]*$|` + head + `)|` + behind)
	// inline does so behind others in a line.
	inline = regexp.MustCompile(`[ \t][^\s{}]+` + size + `:|[ \t]+\}[ \t\r]*$|` + behind)
	// within begins an object behind other text in a line.
	within = regexp.MustCompile(`[ \t}\x{FEFF}]@[^\s{}@][^\s{}]*[ \t]*\{`)
)

// skip passes over blanks and byte order marks.
func (p *patcher) skip() {
	for p.pos < len(p.text) {
		switch {
		case blank(p.text[p.pos]):
			p.pos++
		case bytes.HasPrefix(p.text[p.pos:], byteOrderMark):
			p.pos += len(byteOrderMark)
			p.Skipped.Mark = true
		default:
			return
		}
	}
}

// seek goes to the "@" of the next object, if there is one.
func (p *patcher) seek() (bool, error) {
	for p.skip(); p.pos < len(p.text); p.skip() {
		switch rest := p.text[p.pos:]; {
		case rest[0] == '@':
			return true, nil
		case rest[0] == '}':
			p.mend("a } too many, left out")
			p.pos++
		case begins(rest):
			return false, p.fail(errors.New("an attribute is outside of an object"))
		default:
			p.skipLine(rest)
		}
	}
	return false, nil
}

// skipLine passes over the rest of a line, up to an object in it.
func (p *patcher) skipLine(rest []byte) {
	if n := p.line(); p.Skipped.Lines == 0 {
		p.Skipped.First = n
	}
	p.Skipped.Lines++
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	if at := within.FindIndex(rest); at != nil {
		p.pos += at[0] + bytes.IndexByte(rest[at[0]:], '@')
		return
	}
	p.pos += len(rest)
}

func (p *patcher) object() (o Object, err error) {
	m := headLine.FindSubmatch(p.text[p.pos:])
	if m == nil {
		return o, p.fail(errors.New("an object begins with @TYPE { URL"))
	}
	o.Type, o.URL = string(m[1]), string(m[2])
	switch o.URL {
	case "}":
		p.mend("object without a URL, now -")
		o.URL = ""
		p.pos += len(m[0]) - 1
	case "-":
		o.URL = ""
		fallthrough
	default:
		p.pos += len(m[0])
	}
	for {
		p.skip()
		switch {
		case p.pos == len(p.text) || p.text[p.pos] == '@' && headLine.Match(p.text[p.pos:]):
			p.mend("object without a } at its end")
			return o, p.check(&o)
		case p.text[p.pos] == '}':
			p.pos++
			return o, p.check(&o)
		}
		a, err := p.attribute()
		if err != nil {
			return o, err
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
	rest := p.text[p.pos:]
	var wrong []string
	m := sized.FindSubmatch(rest)
	if m == nil {
		if m = misplaced.FindSubmatch(rest); m == nil {
			return a, p.fail(errors.New("an attribute is NAME{SIZE}: VALUE"))
		}
		wrong = append(wrong, "colon was before the size")
	}
	a.Name = string(m[1])
	declared, between := string(m[2]), m[3]
	start := p.pos + len(m[0])
	if len(between) > 0 && between[0] == '\t' {
		start -= len(between) - 1 // one TAB only; the rest is of the value
	} else {
		wrong = append(wrong, "TAB was missing")
	}
	if i := bytes.IndexByte(rest, '{'); blank(rest[i+1]) || blank(rest[bytes.IndexByte(rest, '}')-1]) {
		wrong = append(wrong, "blanks were beside the size")
	}
	n, bad := strconv.Atoi(declared)
	end := start + n
	if bad != nil || !p.fits(start, n) {
		end = p.end(start)
	}
	a.Value = string(p.text[start:end])
	if strconv.Itoa(len(a.Value)) != declared {
		wrong = append([]string{fmt.Sprintf("size {%s}, now %d", declared, len(a.Value))}, wrong...)
	}
	if len(wrong) > 0 {
		p.Mends = append(p.Mends, Mend{p.line(), a.Name, strings.Join(wrong, "; "), len(a.Value)})
	}
	p.pos = end
	return a, nil
}

// fits reports whether a value of n octets may stand at a place.
func (p *patcher) fits(start, n int) bool {
	if n > len(p.text)-start {
		return false
	}
	rest := bytes.TrimLeft(p.text[start+n:], " \t\r\n")
	switch {
	case len(rest) == 0: // the end of the object is missing, or within the value
		return false
	case rest[0] == '}': // an attribute after it would be lost
		return !begins(bytes.TrimLeft(rest[1:], " \t\r\n"))
	case !begins(rest):
		return false
	}
	// One line may hold several attributes without blanks. But a value with its
	// end amid the next line has run into the next name.
	return len(rest) < len(p.text)-start-n || !bytes.ContainsRune(p.text[start:start+n], '\n')
}

// begins reports whether an attribute begins here.
func begins(text []byte) bool {
	text = text[:min(len(text), 2*maxToken)]
	return sized.Match(text) || misplaced.Match(text)
}

// end finds where a value of unknown size ends.
func (p *patcher) end(start int) int {
	line := bytes.IndexByte(p.text[start:], '\n')
	if line < 0 {
		line = len(p.text) - start
	}
	from := start
	if blank(p.text[start-1]) { // the value may be empty
		from--
	}
	if i := inline.FindIndex(p.text[from : start+line]); i != nil {
		return start + len(bytes.TrimRight(p.text[start:max(start, from+i[0])], " \t\r"))
	}
	end := len(p.text)
	if start+line < len(p.text) {
		if i := another.FindIndex(p.text[start+line+1:]); i != nil {
			end = start + line + 1 + i[0]
		}
	}
	return start + len(bytes.TrimRight(p.text[start:end], " \t\r\n"))
}

// mend notes a mistake outside of attributes.
func (p *patcher) mend(what string) { p.Mends = append(p.Mends, Mend{Line: p.line(), What: what}) }

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
