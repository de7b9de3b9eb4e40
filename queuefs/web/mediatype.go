package web

import (
	"mime"
	"strings"
)

// IsMediaType reports whether t is the value of a Content-Type (RFC 9110,
// 8.3.1). Line ends do not belong to it, although the parser
// takes them for blanks.
func IsMediaType(t string) bool {
	for i := 0; i < len(t); i++ {
		if t[i] < ' ' && t[i] != '\t' || t[i] == 0x7f {
			return false
		}
	}
	m, _, err := mime.ParseMediaType(t)
	main, sub, ok := strings.Cut(m, "/")
	return err == nil && ok && main != "" && sub != ""
}
