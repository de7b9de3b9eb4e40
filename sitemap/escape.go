package sitemap

import "unicode/utf8"

// appendEscaped appends s as XML character data, also safe between double
// quotes and in attribute and line end normalisation. Characters outside of XML
// 1.0 become U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; s == "" {
			return dst
		}
		c, size := utf8.DecodeRuneInString(s)
		switch {
		case c == '&':
			dst = append(dst, "&amp;"...)
		case c == '<':
			dst = append(dst, "&lt;"...)
		case c == '>':
			dst = append(dst, "&gt;"...)
		case c == '"':
			dst = append(dst, "&quot;"...)
		case c == '\t':
			dst = append(dst, "&#x9;"...)
		case c == '\n':
			dst = append(dst, "&#xA;"...)
		case c == '\r':
			dst = append(dst, "&#xD;"...)
		case !inXML(c), c == utf8.RuneError: // of either length
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
}

// plain returns the length of the longest head of s without special characters.
func plain(s string) int {
	for i := range len(s) {
		if special[s[i]] {
			return i
		}
	}
	return len(s)
}

var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < ' ' || c >= utf8.RuneSelf || c == '&' || c == '<' || c == '>' || c == '"'
	}
	return t
}()

// inXML reports whether XML 1.0 allows the character (its production 2).
func inXML(c rune) bool {
	return c == '\t' || c == '\n' || c == '\r' || ' ' <= c && c <= 0xD7FF ||
		0xE000 <= c && c <= 0xFFFD || 0x10000 <= c && c <= utf8.MaxRune
}

// allInXML reports whether s is UTF-8 within XML 1.0.
func allInXML(s string) bool {
	s = s[plain(s):]
	if !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !inXML(c) {
			return false
		}
	}
	return true
}
