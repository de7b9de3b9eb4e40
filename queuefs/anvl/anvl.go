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

import "strings"

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
