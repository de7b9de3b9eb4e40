package sitemap

import "time"

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
