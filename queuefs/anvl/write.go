package anvl

import (
	"strings"
	"unicode/utf8"
)

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
