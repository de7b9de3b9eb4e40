// Package soif reads and writes SOIF, the Summary Object Interchange Format of
// Harvest for resource descriptions (RFC 2655, section 3).
//
//	@DOCUMENT { http://example.org/a
//	Title{5}:	Hello
//	Author-1{3}:	Ann
//	}
//
// An object has a template type, a URL, or "-" in its place, and attributes.
// The number in braces is the length of a value in bytes of any kind; so a
// value may hold line ends, braces and whole objects.
//
// The package writes one attribute a line as above. It reads all of the grammar, names of
// any visible characters but braces, since names in use break the grammar, and text as it
// is printed, with wrong numbers; [Reader.Mended] says what was mended.
//
// A name with a hyphen and a number at its end is one of several values of the
// name before it; see [Object.Values].
package soif

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// An Attribute is a name and a value of any bytes.
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

// Base splits a name like Author-2 into Author and 2. The number has one to nine digits
// without leading zeros; else n is 0.
func Base(name string) (base string, n int) {
	i := strings.LastIndexByte(name, '-')
	digits := name[i+1:]
	if i < 1 || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" || strings.HasPrefix(digits, "0") {
		return name, 0
	}
	if n, _ = strconv.Atoi(digits); n == 0 {
		return name, 0
	}
	return name[:i], n
}

// visible tells whether c may be part of a type, a URL or a name: no control
// character and no blank.
func visible(c byte) bool { return c > ' ' && c != 0x7f }

// ofName tells whether c may be part of a type or a name.
func ofName(c byte) bool { return visible(c) && c != '{' && c != '}' }

// blanks may stand between attributes.
const blanks = " \t\r\n"

func blank(c byte) bool { return strings.IndexByte(blanks, c) >= 0 }

// Check returns the reason why the object cannot be written: a type, a URL or a
// name that would not read back the same.
func (o *Object) Check() error {
	switch {
	case !all(o.Type, ofName, 1) || o.Type[0] == '@':
		return fmt.Errorf("template type %.60q cannot be written", o.Type)
	case !all(o.URL, visible, 0) || o.URL == "-" || o.URL != "" && (o.URL[0] == '@' || o.URL[0] == '}'):
		return fmt.Errorf("URL %.80q cannot be written", o.URL)
	}
	for i := range o.Attributes {
		if !all(o.Attributes[i].Name, ofName, 1) {
			return fmt.Errorf("attribute name %.60q cannot be written", o.Attributes[i].Name)
		}
	}
	return nil
}

// all tells whether s has at least so many bytes, all of the kind, and is no longer than a
// Reader takes.
func all(s string, kind func(byte) bool, least int) bool {
	for i := range len(s) {
		if !kind(s[i]) {
			return false
		}
	}
	return len(s) >= least && len(s) <= maxWord
}

// Write writes the object to w, without a copy of its values. An object that could not be
// read again is refused, and nothing of it is written.
func (o *Object) Write(w io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	b.Write(AppendHead(nil, o.Type, o.URL))
	for i := range o.Attributes {
		a := &o.Attributes[i]
		b.Write(appendName(b.AvailableBuffer(), a.Name, len(a.Value)))
		b.WriteString(a.Value)
		b.WriteByte('\n')
	}
	b.Write(AppendEnd(nil))
	return b.Flush()
}

// Append appends the object to dst as Write writes it. Check must accept it.
func (o *Object) Append(dst []byte) []byte {
	dst = AppendHead(dst, o.Type, o.URL)
	for i := range o.Attributes {
		dst = AppendAttribute(dst, o.Attributes[i].Name, o.Attributes[i].Value)
	}
	return AppendEnd(dst)
}

// AppendHead appends the first line of an object; the caller goes on with
// [AppendAttribute] and [AppendEnd].
func AppendHead(dst []byte, typ, url string) []byte {
	dst = append(append(append(dst, '@'), typ...), " { "...)
	if url == "" {
		url = "-"
	}
	return append(append(dst, url...), '\n')
}

// AppendAttribute appends the line, or the lines, of an attribute.
func AppendAttribute(dst []byte, name, value string) []byte {
	return append(append(appendName(dst, name, len(value)), value...), '\n')
}

// appendName appends the part of an attribute before its value.
func appendName(dst []byte, name string, size int) []byte {
	dst = append(append(dst, name...), '{')
	dst = strconv.AppendInt(dst, int64(size), 10)
	return append(dst, "}:\t"...)
}

// AppendEnd appends the last line of an object.
func AppendEnd(dst []byte) []byte { return append(dst, "}\n"...) }
