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
	"bytes"
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
func (o *Object) Values(name string) (values []string) {
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
	for _, f := range found {
		values = append(values, f.value)
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

// Write writes the object to w, without a copy of its large values. An object that could
// not be read again is refused, and nothing of it is written.
func (o *Object) Write(w io.Writer) error {
	const atOnce = 32 << 10
	if err := o.Check(); err != nil {
		return err
	}
	url := o.URL
	if url == "" {
		url = "-"
	}
	b := fmt.Appendf(nil, "@%s { %s\n", o.Type, url)
	for i := range o.Attributes {
		a := &o.Attributes[i]
		b = append(append(b, a.Name...), '{')
		b = append(strconv.AppendInt(b, int64(len(a.Value)), 10), "}:\t"...)
		if len(b)+len(a.Value) <= atOnce {
			b = append(append(b, a.Value...), '\n')
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		if _, err := io.WriteString(w, a.Value); err != nil {
			return err
		}
		b = append(b[:0], '\n')
	}
	_, err := w.Write(append(b, "}\n"...))
	return err
}

// Append appends the object to dst as Write writes it. Check must accept it.
func (o *Object) Append(dst []byte) []byte {
	b := bytes.NewBuffer(dst)
	o.Write(b) // which does not fail
	return b.Bytes()
}
