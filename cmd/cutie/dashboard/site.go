package dashboard

import (
	"cutie/cmd/cutie/live"
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
func newPart(id, name string, data any) live.Part {
	return live.Part{ID: id, Text: appendPage(nil, name, data)}
}
