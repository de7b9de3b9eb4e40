package dashboard

import (
	"strings"
	"unicode/utf8"

	"cutie/queuefs/state"
)

// A Site is what a page has from its request.
type Site struct {
	Base state.Base
	// May reports whether the reader may send a request to a path below the base. nil: the
	// reader may do everything.
	May  func(method, path string) bool
	Live string // path and query of the parts that change, below the base; "": none does
}

// may reports whether the reader may post to a URL below the base.
func (v *Site) may(method, ref string) bool {
	return v.May == nil || v.May(method, ref[len(v.Base):])
}

// page returns the URL of a state as a page.
func (v *Site) page(segments ...string) string { return state.XHTML.Ask(v.Base.Ref(segments...)) }

func (v *Site) head(title string, way ...crumb) head {
	h := newHead(title, v.Base, v.May, way...)
	h.follow(v.Base, v.Live)
	return h
}

// follow makes a page live.
func (h *head) follow(base state.Base, live string) {
	if live != "" {
		h.Live, h.Script, h.Hash = string(base)+live, base.Ref(ScriptDir, ScriptName), scriptHash
	}
}

func (v *Site) write(name string, data any) []byte { return appendPage(nil, name, data) }

// newPart returns an element of a page for its watchers.
func newPart(id, name string, data any) Part {
	return Part{ID: id, Text: appendPage(nil, name, data)}
}

// octets returns a number of octets with three digits and a unit, "" below 1000.
func octets(n int64) string {
	if n < 1000 {
		return ""
	}
	return state.FormatSize(n)
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
