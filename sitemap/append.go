package sitemap

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// The append functions print version 1.1 and check nothing: their documents are
// always well-formed, since characters outside of XML 1.0 become U+FFFD, but
// valid only if the values are. The functions allocate only to grow dst.

// AppendHead appends the document up to its first entry, and a line end.
func AppendHead(dst []byte, root Root, h Head) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(dst, rootNames[root]...)
	dst = append(dst, ` xmlns="`+Namespace+`" xmlns:rs="`+RSNamespace+`" xmlns:cut="`+EventNamespace+`">`+"\n<rs:md"...)
	dst = appendAttr(dst, ` capability="`, string(h.Capability))
	dst = appendTimeAttr(dst, ` at="`, h.At)
	dst = appendTimeAttr(dst, ` completed="`, h.Completed)
	dst = appendTimeAttr(dst, ` from="`, h.From)
	dst = appendTimeAttr(dst, ` until="`, h.Until)
	dst = append(dst, "/>\n"...)
	for i := range h.Links {
		dst = appendLink(dst, &h.Links[i])
		dst = append(dst, '\n')
	}
	return dst
}

// AppendEntry appends one entry of a document of kind root, as one line.
// e is not kept.
func AppendEntry(dst []byte, root Root, e *Entry) []byte {
	dst = append(dst, '<')
	dst = append(dst, entryNames[root]...)
	dst = append(dst, "><loc>"...)
	dst = appendEscaped(dst, e.Loc)
	dst = append(dst, "</loc>"...)
	if !e.LastMod.IsZero() {
		dst = append(dst, "<lastmod>"...)
		dst = AppendTime(dst, e.LastMod)
		dst = append(dst, "</lastmod>"...)
	}
	dst = appendElement(dst, "<changefreq>", e.ChangeFreq, "</changefreq>")
	dst = appendElement(dst, "<priority>", e.Priority, "</priority>")
	dst = appendMetadata(dst, e)
	for i := range e.Links {
		dst = appendLink(dst, &e.Links[i])
	}
	dst = append(dst, "</"...)
	dst = append(dst, entryNames[root]...)
	return append(dst, ">\n"...)
}

// AppendFoot appends the end of the document and a line end.
func AppendFoot(dst []byte, root Root) []byte {
	dst = append(dst, "</"...)
	dst = append(dst, rootNames[root]...)
	return append(dst, ">\n"...)
}

// appendMetadata appends the rs:md of an entry, or nothing if it says nothing.
func appendMetadata(dst []byte, e *Entry) []byte {
	start := len(dst)
	dst = append(dst, "<rs:md"...)
	attrs := len(dst)
	dst = appendAttr(dst, ` capability="`, string(e.Capability))
	dst = appendAttr(dst, ` change="`, string(e.Change))
	dst = appendTimeAttr(dst, ` datetime="`, e.DateTime)
	dst = appendTimeAttr(dst, ` at="`, e.At)
	dst = appendTimeAttr(dst, ` completed="`, e.Completed)
	dst = appendTimeAttr(dst, ` from="`, e.From)
	dst = appendTimeAttr(dst, ` until="`, e.Until)
	dst = appendHashes(dst, e.Hashes)
	if e.Length >= 0 {
		dst = appendLength(dst, e.Length)
	}
	dst = appendAttr(dst, ` type="`, e.Type)
	dst = appendAttr(dst, ` encoding="`, e.Encoding)
	dst = appendAttr(dst, ` path="`, e.Path)
	dst = appendAttr(dst, ` cut:event="`, e.Event)
	if e.Seq != 0 {
		dst = append(dst, ` cut:seq="`...)
		dst = strconv.AppendUint(dst, e.Seq, 10)
		dst = append(dst, '"')
	}
	if len(dst) == attrs {
		return dst[:start]
	}
	return append(dst, "/>"...)
}

func appendLink(dst []byte, l *Link) []byte {
	dst = append(dst, "<rs:ln"...)
	dst = appendAttr(dst, ` rel="`, l.Rel)
	dst = appendAttr(dst, ` href="`, l.Href)
	if l.Pri != 0 {
		dst = append(dst, ` pri="`...)
		dst = strconv.AppendInt(dst, int64(l.Pri), 10)
		dst = append(dst, '"')
	}
	dst = appendTimeAttr(dst, ` modified="`, l.Modified)
	dst = appendHashes(dst, l.Hashes)
	if l.Length > 0 {
		dst = appendLength(dst, l.Length)
	}
	dst = appendAttr(dst, ` type="`, l.Type)
	dst = appendAttr(dst, ` encoding="`, l.Encoding)
	dst = appendAttr(dst, ` path="`, l.Path)
	return append(dst, "/>"...)
}

func appendHashes(dst []byte, hashes []Hash) []byte {
	if len(hashes) == 0 {
		return dst
	}
	dst = append(dst, ` hash="`...)
	for i := range hashes {
		if i > 0 {
			dst = append(dst, ' ')
		}
		if hashes[i].Alg != "" {
			dst = appendEscaped(dst, hashes[i].Alg)
			dst = append(dst, ':')
		}
		dst = appendEscaped(dst, hashes[i].Value)
	}
	return append(dst, '"')
}

func appendLength(dst []byte, n int64) []byte {
	dst = append(dst, ` length="`...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '"')
}

func appendElement(dst []byte, open, value, end string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, open...)
	dst = appendEscaped(dst, value)
	return append(dst, end...)
}

func appendAttr(dst []byte, open, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, open...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

func appendTimeAttr(dst []byte, open string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = append(dst, open...)
	dst = AppendTime(dst, t)
	return append(dst, '"')
}

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

// A plain Sitemap is one of sitemaps.org without terms of ResourceSync, for search
// engines that take these for errors.

// AppendPlainHead is [AppendHead] for a plain Sitemap.
func AppendPlainHead(dst []byte, root Root) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(dst, rootNames[root]...)
	return append(dst, ` xmlns="`+Namespace+"\">\n"...)
}

// AppendPlainEntry is [AppendEntry] for a plain Sitemap: loc and lastmod.
func AppendPlainEntry(dst []byte, root Root, e *Entry) []byte {
	return AppendEntry(dst, root, &Entry{Loc: e.Loc, LastMod: e.LastMod, Length: -1})
}
