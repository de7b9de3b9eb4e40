package dashboard

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// octets returns a number of octets with three digits and a unit, "" below 1000.
func octets(n int64) string {
	if n < 1000 {
		return ""
	}
	f, unit := float64(n), 0
	for ; f >= 999.5; unit++ {
		f /= 1000
	}
	return strconv.FormatFloat(f, 'g', 3, 64) + " " + "kMGTPE"[unit-1:unit] + "B"
}

// grouped puts a comma before every three digits.
func grouped(n string) string {
	for i := len(n) - 3; i > 0 && n[i-1] != '-'; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// clipped returns the beginning of a text too long for a row.
func clipped(s string) string {
	const most = 80
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// inXML reports whether a character may stand in a page (XML 1.0, 2.2).
func inXML(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r != 0xfffe && r != 0xffff
}

// clean returns a text as it may stand in a page.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if inXML(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
