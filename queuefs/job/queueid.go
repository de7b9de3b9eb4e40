package job

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxQueueID is the longest cleaned queue identifier, in octets; it leaves
// space in a file name for the additions of mirrors.
const MaxQueueID = 200

// reserved prefixes of file and property names, compared without case (Cutie
// 0.3, 6 and 6.2; the text prints "merrit").
var reserved = []string{"cutie", "cut", "merrit", "mrt"}

// CleanQueueID makes a directory name and URL segment of a queue identifier by
// Pairtree cleaning: "/" becomes "=", ":" becomes "+", "." becomes ",", and
// octets that are not visible ASCII or stand in file names for something else
// become ^xx. A name that is clean already maps to itself. Names that are
// empty, longer than 200 octets when cleaned, not UTF-8, or that begin with a
// reserved prefix are refused with an error that wraps [ErrBadName].
func CleanQueueID(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: queue identifier %.60q %s", ErrBadName, name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 3*MaxQueueID:
		return bad("is too long")
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case strings.Trim(name, "./") == "":
		return bad("names no queue")
	}
	low := strings.ToLower(name)
	for _, p := range reserved {
		if strings.HasPrefix(low, p) {
			return bad("begins with the reserved prefix " + p)
		}
	}
	clean := isClean(name)
	if clean && len(name) <= MaxQueueID {
		return name, nil
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return bad("has a control character")
		case c == '/':
			out = append(out, '=')
		case c == ':':
			out = append(out, '+')
		case c == '.':
			out = append(out, ',')
		case !clean && strings.IndexByte(`"*+,<=>?\^|`, c) >= 0, c <= 0x20, c >= 0x7f, c == '%', c == '#', c == ';', c == '&', c == '\'':
			out = fmt.Appendf(out, "^%02x", c)
		default:
			out = append(out, c)
		}
	}
	if len(out) > MaxQueueID {
		return bad("is too long")
	}
	return string(out), nil
}

// isClean reports whether s has only characters left or made by cleaning.
func isClean(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '^':
			if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
				return false
			}
		case strings.IndexByte("\"*<>?\\|/:.%#;&'", c) >= 0, c <= 0x20, c >= 0x7f:
			return false
		}
	}
	return true
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
}
