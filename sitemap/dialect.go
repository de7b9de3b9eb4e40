package sitemap

import (
	"fmt"
	"time"
)

// Dialect is a version of ResourceSync. A Reader turns all of them into the
// model of 1.1:
//
//	1.0      the same, but the instant of a change is its lastmod: see [Entry.Changed]
//	0.9      links resourcesync and up are up and index, capability resourcesync is
//	         description, from is at where resources are listed; archives have root
//	         times
//	Jan2013  links top and up are up and index, modified is at where resources are
//	         listed, and is dropped elsewhere; Change Lists run newest first
//
// The drafts 0.5 and 0.6 count as 0.9; their modified is read as in Jan2013.
// Versions 1.0 and 1.1 differ in Change Lists and their manifests alone.
type Dialect uint8

const (
	V11 Dialect = iota
	V10
	V09
	Jan2013
)

var dialectNames = [...]string{V11: "1.1", V10: "1.0", V09: "0.9", Jan2013: "2013-01"}

// String returns "1.1", "1.0", "0.9" or "2013-01".
func (d Dialect) String() string { return dialectNames[d] }

// ParseDialect is strict: it accepts only the output of String.
func ParseDialect(s string) (Dialect, error) {
	for d, name := range dialectNames {
		if s == name {
			return Dialect(d), nil
		}
	}
	return 0, fmt.Errorf("sitemap: %.20q is no version of ResourceSync; there are 1.1, 1.0, 0.9 and 2013-01", s)
}

const (
	namespace2013  = "http://www.openarchives.org/rs/"
	oldDescription = "resourcesync" // the capability
	oldUp          = "resourcesync" // the link relation
	oldTop         = "top"
)

// oldHead is a head as some dialect wrote it.
type oldHead struct {
	Head
	modified  time.Time
	namespace string // of its rs:md
}

// dialect guesses. A head of 1.0 is one of 1.1.
func (h *oldHead) dialect() Dialect {
	switch {
	case h.namespace == namespace2013:
		return Jan2013
	case h.Capability == oldDescription, h.Link(oldUp) != "",
		h.Capability.family() == resourceFamily && h.At.IsZero() && !h.From.IsZero():
		return V09
	}
	return V11
}

// normal returns the head in the model of 1.1.
func (h *oldHead) normal() (Head, Dialect) {
	d := h.dialect()
	n := h.Head
	if n.Capability.family() == resourceFamily && n.At.IsZero() {
		n.At = h.modified
	}
	if d == V11 {
		return n, d
	}
	n.Capability = n.Capability.normal()
	switch n.Capability.family() {
	case resourceFamily:
		if n.At.IsZero() {
			n.At = n.From
		}
		n.From, n.Until = time.Time{}, time.Time{}
	case timeless:
		n.At, n.Completed = time.Time{}, time.Time{}
		if d != V09 || !n.Capability.archive() {
			n.From, n.Until = time.Time{}, time.Time{}
		}
	}
	// Sloppy documents of 1.0 have from for at, but only in 0.9 does a link
	// resourcesync stand beside a link up.
	if d == V09 && n.Link(oldUp) == "" {
		return n, d
	}
	for i := range n.Links {
		switch rel := &n.Links[i].Rel; *rel {
		case oldUp, oldTop:
			*rel = RelUp
		case RelUp:
			*rel = RelIndex
		}
	}
	return n, d
}

func (c Capability) normal() Capability {
	if c == oldDescription {
		return Description
	}
	return c
}

// A dialect is printed from the model of 1.1, as far as the version has it:
//
//	1.0   a change has its instant as lastmod, without datetime
//	0.9   besides, links up and index are resourcesync and up, capability
//	      description is resourcesync, at of a document of resources is from,
//	      and there is no completed; entries have their times as lastmod alone;
//	      links contents, timemap and profile are left out
//
// In 0.9 a Change List has an until even while it is open: give the instant up
// to which it is true. Archives have a from.

// AppendHead is [AppendHead] for a dialect. Jan2013 cannot be printed, and is
// taken for V09.
func (d Dialect) AppendHead(dst []byte, root Root, h Head) []byte {
	if d < V09 {
		return AppendHead(dst, root, h)
	}
	if h.Capability.family() == resourceFamily {
		h.From, h.At, h.Completed = h.At, time.Time{}, time.Time{}
	}
	h.Capability = h.Capability.old()
	h.Links = oldLinks(h.Links, true)
	return AppendHead(dst, root, h)
}

// AppendEntry is [AppendEntry] for a dialect.
func (d Dialect) AppendEntry(dst []byte, root Root, e *Entry) []byte {
	if d == V11 {
		return AppendEntry(dst, root, e)
	}
	n := *e
	if n.Change != "" {
		n.LastMod, n.DateTime = n.Changed(), time.Time{}
	}
	if d >= V09 {
		if n.LastMod.IsZero() {
			n.LastMod = n.latest()
		}
		n.At, n.Completed, n.From, n.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		n.Capability = n.Capability.old()
		n.Links = oldLinks(n.Links, false)
	}
	return AppendEntry(dst, root, &n)
}

// latest returns the last of the document times in the entry.
func (e *Entry) latest() (last time.Time) {
	for _, t := range []time.Time{e.At, e.Completed, e.From, e.Until} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func (c Capability) old() Capability {
	if c == Description {
		return oldDescription
	}
	return c
}

// oldLinks returns the links in the form of 0.9; a head has other names.
func oldLinks(links []Link, head bool) []Link {
	old := make([]Link, 0, len(links))
	for _, l := range links {
		switch {
		case l.Rel == RelContents, l.Rel == RelTimeMap, l.Rel == RelProfile:
			continue
		case head && l.Rel == RelUp:
			l.Rel = oldUp
		case head && l.Rel == RelIndex:
			l.Rel = RelUp
		}
		old = append(old, l)
	}
	return old
}
