// Package soif reads and writes SOIF, the Summary Object Interchange Format of
// Harvest for resource descriptions (RFC 2655, section 3).
//
//	@DOCUMENT { http://example.org/a
//	Title{5}:	Hello
//	Author-1{3}:	Ann
//	}
//
// An object has a template type, a URL, or "-" in its place, and attributes.
// The number in braces is the length of a value in octets of any kind; so a
// value may hold line ends, braces and whole objects.
//
// The package writes one attribute a line as above; line-oriented readers
// understand this as well. It reads all of the grammar, names of any visible
// characters but braces, since names in use break the grammar, and text as it is
// printed, with wrong numbers; [Reader.Mended] says what was mended. An error is
// a [*ParseError] with its place.
//
// A name with a hyphen and a number at its end is one of several values of the
// name before it; see [Object.Values].
package soif

import (
	"slices"
	"strconv"
	"strings"
)

// An Attribute is a name and a value of any octets.
type Attribute struct {
	Name  string
	Value string
}

// An Object describes one resource. Names are compared without regard to case;
// they may repeat, and keep their order.
type Object struct {
	Type       string // of the template, such as DOCUMENT; never empty
	URL        string // of the resource; "" is written as "-"
	Attributes []Attribute
}

// Is reports whether the object has the template type, in any case.
func (o *Object) Is(typ string) bool { return strings.EqualFold(o.Type, typ) }

// Lookup returns the value of the first attribute of the name, and whether
// there is one.
func (o *Object) Lookup(name string) (value string, ok bool) {
	for i := range o.Attributes {
		if strings.EqualFold(o.Attributes[i].Name, name) {
			return o.Attributes[i].Value, true
		}
	}
	return "", false
}

// Value returns the value of the first attribute of the name, or "".
func (o *Object) Value(name string) string {
	value, _ := o.Lookup(name)
	return value
}

// Values returns all values of a name: first those of the name itself, then
// those of the name with a number, by their numbers.
func (o *Object) Values(name string) []string {
	type numbered struct {
		n     int
		value string
	}
	var found []numbered
	for _, a := range o.Attributes {
		if strings.EqualFold(a.Name, name) {
			found = append(found, numbered{0, a.Value})
		} else if base, n := Base(a.Name); n > 0 && strings.EqualFold(base, name) {
			found = append(found, numbered{n, a.Value})
		}
	}
	slices.SortStableFunc(found, func(a, b numbered) int { return a.n - b.n })
	values := make([]string, len(found))
	for i, f := range found {
		values[i] = f.value
	}
	return values
}

// Add appends an attribute.
func (o *Object) Add(name, value string) {
	o.Attributes = append(o.Attributes, Attribute{name, value})
}

// maxNumber bounds the number of a value.
const maxNumber = 999_999_999

// Base splits a name like Author-2 into Author and 2. The number is 1 or more,
// without leading zeros; else n is 0.
func Base(name string) (base string, n int) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 || i+1 == len(name) || name[i+1] == '0' {
		return name, 0
	}
	for _, c := range []byte(name[i+1:]) {
		if c < '0' || c > '9' {
			return name, 0
		}
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n > maxNumber {
		return name, 0
	}
	return name[:i], n
}

// visible tells whether c may be part of a type, a URL or a name: no control
// character and no blank.
func visible(c byte) bool { return c > ' ' && c != 0x7f }

// nameOctet tells whether c may be part of a type or a name.
func nameOctet(c byte) bool { return visible(c) && c != '{' && c != '}' }

// blank reports whether c may stand between attributes.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
