package sitemap

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// A Reader reads back unchanged everything these functions accept.

func checkHead(root Root, h *Head, d Dialect) error {
	if d > V09 {
		return fmt.Errorf("version %v is read and not written", d)
	}
	if root > SitemapIndex {
		return fmt.Errorf("unknown root %d", root)
	}
	if h.Capability == "" {
		return errors.New("no capability")
	}
	if h.Capability == oldDescription {
		return fmt.Errorf("capability %q is of version 0.9", h.Capability)
	}
	ofResources := !h.At.IsZero() || !h.Completed.IsZero()
	ofChanges := !h.From.IsZero() || !h.Until.IsZero()
	switch f := h.Capability.family(); {
	case f == resourceFamily && (h.At.IsZero() || ofChanges):
		return fmt.Errorf("a %s has at, not from or until", h.Capability)
	case f == changeFamily && (h.From.IsZero() || ofResources):
		return fmt.Errorf("a %s has from, not at or completed", h.Capability)
	case f == changeFamily && d == V09 && h.Until.IsZero():
		return fmt.Errorf("a %s of version 0.9 has until", h.Capability)
	case f == timeless && d == V09 && h.Capability.archive() && !ofResources:
	case f == timeless && (ofResources || ofChanges):
		return fmt.Errorf("a %s has no times", h.Capability)
	}
	if !allInXML(string(h.Capability)) {
		return errIllegal
	}
	for i := range h.Links {
		if h.Links[i].Rel == oldUp {
			return fmt.Errorf("link relation %q is of version 0.9", oldUp)
		}
	}
	if err := checkTimes(h.At, h.Completed, h.From, h.Until); err != nil {
		return err
	}
	return checkLinks(h.Links)
}

func checkEntry(e *Entry) error {
	if e.Loc == "" {
		return errors.New("no loc")
	}
	for _, s := range []string{e.Loc, e.Priority} {
		if strings.TrimSpace(s) != s {
			return fmt.Errorf("space around %q", s)
		}
	}
	if e.ChangeFreq != "" && !changeFreqs[e.ChangeFreq] {
		return fmt.Errorf("unknown changefreq %q", e.ChangeFreq)
	}
	if e.Capability == oldDescription {
		return fmt.Errorf("capability %q is of version 0.9", e.Capability)
	}
	if err := checkChange(e.Change); err != nil {
		return err
	}
	if e.Length < -1 {
		return fmt.Errorf("length %d", e.Length)
	}
	for _, s := range []string{e.Loc, e.Priority, string(e.Capability), e.Type, e.Encoding, e.Path, e.Event} {
		if !allInXML(s) {
			return errIllegal
		}
	}
	if err := checkTimes(e.LastMod, e.DateTime, e.At, e.Completed, e.From, e.Until); err != nil {
		return err
	}
	if err := checkHashes(e.Hashes); err != nil {
		return err
	}
	return checkLinks(e.Links)
}

func checkLinks(links []Link) error {
	for i := range links {
		l := &links[i]
		if l.Rel == "" || l.Href == "" {
			return errors.New("link without rel or href")
		}
		if l.Pri < 0 || l.Pri > maxPri {
			return fmt.Errorf("link priority %d is not 1 to %d", l.Pri, maxPri)
		}
		if l.Length < 0 {
			return fmt.Errorf("link length %d", l.Length)
		}
		for _, s := range []string{l.Rel, l.Href, l.Type, l.Encoding, l.Path} {
			if !allInXML(s) {
				return errIllegal
			}
		}
		if err := checkTimes(l.Modified); err != nil {
			return err
		}
		if err := checkHashes(l.Hashes); err != nil {
			return err
		}
	}
	return nil
}

const maxPri = 999_999

var errIllegal = errors.New("character not allowed in XML 1.0")

func checkChange(c Change) error {
	switch c {
	case "", Created, Updated, Deleted:
		return nil
	}
	return fmt.Errorf("unknown change %q", c)
}

func checkTimes(times ...time.Time) error {
	for _, t := range times {
		if !printable(t) {
			return fmt.Errorf("year out of range: %v", t)
		}
	}
	return nil
}

func checkHashes(hashes []Hash) error {
	for _, h := range hashes {
		if !allInXML(h.Alg) || !allInXML(h.Value) {
			return errIllegal
		}
		if !h.readable() {
			return fmt.Errorf("hash %q:%q is not alg:hex in lower case", h.Alg, h.Value)
		}
	}
	return nil
}

// readable reports whether parseHash makes h of its text.
func (h Hash) readable() bool {
	if isHex(h.Value) && h.Value != strings.ToLower(h.Value) {
		return false
	}
	return h.Value != "" && h.Alg == strings.ToLower(h.Alg) && !strings.Contains(h.Value, ":") &&
		!strings.ContainsFunc(h.Alg, unicode.IsSpace) && !strings.ContainsFunc(h.Value, unicode.IsSpace)
}
