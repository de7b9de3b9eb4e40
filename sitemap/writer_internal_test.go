package sitemap

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
)

// ErrFull says: one entry more would take a document over [MaxEntries] or
// [MaxOctets]. The document can still be closed, and the entry begin the next.
var ErrFull = errors.New("sitemap: document is full")

// A Writer writes one document of a version by the append functions, and refuses
// everything outside of the version. A [Reader] reads back unchanged everything a Writer
// accepts.
type Writer struct {
	Dialect Dialect // V11, V10 or V09; set it before the first call

	w       io.Writer
	root    Root
	buf     []byte
	entries int
	octets  int  // written and in buf
	headed  bool // the head is in buf or written
	err     error
}

// NewWriter returns a Writer to w. It buffers; [Writer.Close] ends the
// document.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// WriteHead begins the document. It comes once, before any entry. A capability is
// mandatory, with the times of [Head]. A refused head leaves the Writer as it was.
func (w *Writer) WriteHead(root Root, h Head) error {
	if w.headed {
		return errors.New("sitemap: second head")
	}
	if err := checkHead(root, &h, w.Dialect); err != nil {
		return fmt.Errorf("sitemap: head: %w", err)
	}
	w.root, w.headed = root, true
	return w.add(w.Dialect.AppendHead(w.buf, root, h))
}

// Write adds an entry. A refused entry, invalid or with [ErrFull], leaves the
// document as it was; an error of the underlying writer is returned by every
// later call.
func (w *Writer) Write(e Entry) error {
	if w.err != nil {
		return w.err
	}
	if !w.headed {
		return errors.New("sitemap: entry before the head")
	}
	if w.entries == MaxEntries {
		return ErrFull
	}
	if err := checkEntry(&e); err != nil {
		return fmt.Errorf("sitemap: entry %q: %w", e.Loc, err)
	}
	if w.Dialect != V11 && e.Change != "" && e.Changed().IsZero() {
		return fmt.Errorf("sitemap: entry %q: a change of version %v has a lastmod", e.Loc, w.Dialect)
	}
	buf := w.Dialect.AppendEntry(w.buf, w.root, &e)
	const foot = len("</sitemapindex>\n")
	if w.octets+len(buf)-len(w.buf)+foot > MaxOctets {
		return ErrFull
	}
	w.entries++
	return w.add(buf)
}

// Close ends the document and hands all of it to the underlying writer, without
// closing it.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if !w.headed {
		return errors.New("sitemap: close before the head")
	}
	w.buf = AppendFoot(w.buf, w.root)
	if err := w.flush(); err != nil {
		return err
	}
	w.err = errors.New("sitemap: writer is closed")
	return nil
}

// add takes buf: w.buf with something appended.
func (w *Writer) add(buf []byte) error {
	w.octets += len(buf) - len(w.buf)
	w.buf = buf
	if len(w.buf) < 32<<10 {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	_, w.err = w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return w.err
}

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

var errIllegal = errors.New("character not allowed in XML 1.0")

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

var changeFreqs = map[string]bool{
	"always": true, "hourly": true, "daily": true, "weekly": true,
	"monthly": true, "yearly": true, "never": true,
}

// Each byte at each place among plain ones is found to be special, or is not, as the
// table says.
func TestSpecialBytesAreFoundInWords(t *testing.T) {
	for c := range 256 {
		for at := range 8 {
			for _, fill := range []byte{'a', '!', '~', ' '} {
				var w uint64
				for i := range 8 {
					b := fill
					if i == at {
						b = byte(c)
					}
					w |= uint64(b) << (8 * i)
				}
				if got, want := hasSpecial(w), special[c]; got != want {
					t.Errorf("%#02x at %d among %q: got %v, want %v", c, at, fill, got, want)
				}
			}
		}
	}
}
