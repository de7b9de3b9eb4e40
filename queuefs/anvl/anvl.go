// Package anvl reads and writes ANVL, "A Name-Value Language"
// (draft-kunze-anvl-02), the format of the property files and job files of a
// Cutie home (Cutie 6).
//
// A record is a sequence of elements, one a line, ended by an empty line:
//
//	name: Queue01
//	# a comment
//	description: a long value may be
//	    folded
//
// The package writes the narrowest form of the format and reads a wide one.
//
// Written are lines "name: value" ended by LF, never folded; an element
// without a value is "name:". An octet that would not survive is written as
// %XX in upper case: in values "%", the C0 controls except TAB, DEL, and a blank
// or TAB at either end; in names besides these every blank and TAB, the colon,
// and a "#" or byte order mark at the start. The empty name is "%_". Octets
// that are not UTF-8 are written as %XX too, so every Go string reads back as
// it was.
//
// Read are lines ended by LF, CR or CRLF, after an optional byte order mark. A
// line that begins with a blank or TAB continues the element before it and is
// joined to it by one blank; a line of blanks alone continues it with nothing
// and ends no record. A line that begins with "#" is a comment, also inside a
// folded value. Blanks and TABs around names and values are dropped before the
// escapes are decoded. The escapes are %XX in either case, "%%" for "%", "%_"
// for nothing, and the two-letter codes of File::ANVL such as "%sc" for a
// semicolon; any other "%" stands for itself. Names keep their spelling and are
// compared without regard to case. Elements repeat freely and keep their order.
// A line without a colon, with an empty name, or with nothing to continue is a
// [*ParseError].
//
// Left out are the block escape "%{ %}" and the expansion of short ERC records.
package anvl

import (
	"strings"
	"unicode/utf8"
)

// An Element is one name with one value, both decoded.
type Element struct {
	Name  string
	Value string // empty if the element has no value
}

// A Record is a sequence of elements in the order of their lines. Names may
// repeat; they are compared without regard to case.
type Record []Element

// Lookup returns the value of the first element of the given name, and whether
// there is one.
func (r Record) Lookup(name string) (value string, ok bool) {
	if i := r.index(name); i >= 0 {
		return r[i].Value, true
	}
	return "", false
}

// Value returns the value of the first element of the given name, or "" if
// there is none.
func (r Record) Value(name string) string {
	value, _ := r.Lookup(name)
	return value
}

// Values returns the values of all elements of the given name in their order,
// nil if there are none.
func (r Record) Values(name string) []string {
	var values []string
	for _, e := range r {
		if strings.EqualFold(e.Name, name) {
			values = append(values, e.Value)
		}
	}
	return values
}

// Set gives the first element of the given name a new value and drops its
// repeats. The name keeps its spelling in the record. Without such an element
// it is the same as [Record.Add].
func (r *Record) Set(name, value string) {
	i := r.index(name)
	if i < 0 {
		r.Add(name, value)
		return
	}
	(*r)[i].Value = value
	rest := (*r)[i+1:]
	rest.Del(name)
	*r = (*r)[:i+1+len(rest)]
}

// Add appends an element.
func (r *Record) Add(name, value string) {
	*r = append(*r, Element{Name: name, Value: value})
}

// Del removes every element of the given name.
func (r *Record) Del(name string) {
	kept := (*r)[:0]
	for _, e := range *r {
		if !strings.EqualFold(e.Name, name) {
			kept = append(kept, e)
		}
	}
	clear((*r)[len(kept):])
	*r = kept
}

func (r Record) index(name string) int {
	for i, e := range r {
		if strings.EqualFold(e.Name, name) {
			return i
		}
	}
	return -1
}

const byteOrderMark = "\ufeff"

// AppendElement appends the line of one element to dst, its line end included,
// and returns the extended slice. It does not allocate if dst has room.
func AppendElement(dst []byte, name, value string) []byte {
	dst = append(appendName(dst, name), ':')
	if value != "" {
		dst = appendValue(append(dst, ' '), value)
	}
	return append(dst, '\n')
}

// AppendRecord appends the lines of all elements of r to dst and returns the
// extended slice. It does not append the empty line that ends a record.
func AppendRecord(dst []byte, r Record) []byte {
	for _, e := range r {
		dst = AppendElement(dst, e.Name, e.Value)
	}
	return dst
}

func appendName(dst []byte, name string) []byte {
	switch {
	case name == "":
		return append(dst, "%_"...)
	case name[0] == '#', strings.HasPrefix(name, byteOrderMark):
		// The rest of a byte order mark is not UTF-8, so appendText escapes it.
		dst, name = appendOctet(dst, name[0]), name[1:]
	}
	return appendText(dst, name, inName)
}

func appendValue(dst []byte, value string) []byte {
	if isBlank(value[0]) {
		dst, value = appendOctet(dst, value[0]), value[1:]
	}
	last := len(value) - 1
	if last < 0 || !isBlank(value[last]) {
		return appendText(dst, value, inValue)
	}
	dst = appendText(dst, value[:last], inValue)
	return appendOctet(dst, value[last])
}

// appendText appends s, and escapes the octets not allowed there.
func appendText(dst []byte, s string, where place) []byte {
	start := 0 // of the octets not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		if barred[c]&where == 0 {
			i++
			continue
		}
		if _, size := utf8.DecodeRuneInString(s[i:]); size > 1 {
			i += size
			continue
		}
		dst = appendOctet(append(dst, s[start:i]...), c)
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

type place uint8

const (
	inName place = 1 << iota
	inValue
)

// barred says where an octet may not stand. Octets beyond ASCII may stand as
// part of a character.
var barred = func() (t [256]place) {
	for c := range t {
		if c < ' ' && c != '\t' || c >= 0x7f || c == '%' {
			t[c] = inName | inValue
		}
	}
	t[' '], t['\t'], t[':'] = inName, inName, inName
	return t
}()

func appendOctet(dst []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, '%', hex[c>>4], hex[c&15])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
