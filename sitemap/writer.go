package sitemap

import (
	"errors"
	"fmt"
	"io"
)

// ErrFull says: one entry more would take a document over [MaxEntries] or
// [MaxOctets]. The document can still be closed, and the entry begin the next.
var ErrFull = errors.New("sitemap: document is full")

// A Writer writes one document of a version, and refuses everything outside of
// the version.
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

// WriteHead begins the document. It comes once, before any entry.
//
// A capability is mandatory; At with those of resources and From with those
// of changes, and neither may carry times of the other; Source Descriptions,
// Capability Lists and archives carry none (Z39.99-2017, 8 to 13). In version
// 0.9 documents of changes also need Until, and archives may have From and
// Until. A refused head leaves the Writer as it was.
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
