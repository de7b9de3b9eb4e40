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

// plain returns the length of the longest head of s without special characters. It
// looks at eight of them at a time.
func plain(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if hasSpecial(w) {
			break
		}
	}
	for ; i < len(s); i++ {
		if special[s[i]] {
			return i
		}
	}
	return len(s)
}

// hasSpecial reports whether one of eight bytes is special. Two pairs of special
// characters differ in one bit each.
func hasSpecial(w uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	angle := (w | 0x02*each) ^ '>'*each // zero at < and >
	quote := (w | 0x04*each) ^ '&'*each // zero at " and &
	return (w|(w-' '*each)&^w|(angle-each)&^angle|(quote-each)&^quote)&high != 0
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
