// Package compose makes the representations of documents. A [Document] is a sequence of
// parts: texts in memory and files. Its compressed forms are made of its text as a stream
// and kept by [Forms] while the document stays as it is; a closed Change List is copied
// from its file in gzip, see [Document.Around]. Equal texts give equal bytes in every
// coding, and a form is a single member of gzip (RFC 1952, 2.3) or frame of Zstandard,
// because many clients read no further.
package compose

import (
	"bytes"
	"errors"
	"io"
)

// A Document is one representation. It implements [io.ReadSeeker], and opens a
// part when reading gets there.
type Document struct {
	State

	parts []part
	size  int64
	at    int64 // where the next Read begins
	past  int   // parts before that, at least
	start int64 // where these end
	cur   io.ReadCloser
	end   int64 // of the part that cur reads
}

// A part opens its bytes from an offset on.
type part struct {
	size int64
	open func(from int64) (io.ReadCloser, error)
}

func (d *Document) add(size int64, open func(from int64) (io.ReadCloser, error)) {
	if size > 0 {
		d.parts = append(d.parts, part{size, open})
		d.size += size
	}
}

// Text adds bytes in memory.
func (d *Document) Text(b []byte) {
	d.add(int64(len(b)), func(from int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b[from:])), nil
	})
}

// Pack compresses the document.
func (d *Document) Pack(w Packer) error {
	for _, p := range d.parts {
		in, err := p.open(0)
		if err != nil {
			return err
		}
		n, err := io.Copy(w, in)
		if err = errors.Join(err, in.Close()); err == nil && n != p.size {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = w.Part()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A Content is a file, or the text of a [Packed].
type Content interface {
	io.ReaderAt
	io.Closer
	Name() string
}

// An Opener opens a content for reading.
type Opener func() (Content, error)

// Content adds the bytes from start to end of a content, opened when they are read.
func (d *Document) Content(open Opener, start, end int64) {
	d.add(end-start, func(from int64) (io.ReadCloser, error) {
		c, err := open()
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(c, start+from, end-start-from), c}, nil
	})
}

type section struct {
	*io.SectionReader
	content Content
}

func (s *section) Close() error { return s.content.Close() }

func (d *Document) Read(p []byte) (int, error) {
	for {
		if d.cur == nil {
			if err := d.next(); err != nil {
				return 0, err
			}
		}
		n, err := d.cur.Read(p)
		d.at += int64(n)
		if err == io.EOF {
			if err = d.Close(); d.at < d.end {
				err = io.ErrUnexpectedEOF
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens the part with the next byte.
func (d *Document) next() (err error) {
	for ; d.past < len(d.parts); d.past++ {
		p := d.parts[d.past]
		if d.end = d.start + p.size; d.at < d.end {
			d.cur, err = p.open(d.at - d.start)
			return err
		}
		d.start = d.end
	}
	return io.EOF
}

// Seek implements [io.Seeker].
func (d *Document) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += d.at
	case io.SeekEnd:
		offset += d.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the document")
	}
	d.Close()
	d.at, d.past, d.start = offset, 0, 0
	return offset, nil
}

// Close closes the part being read.
func (d *Document) Close() error {
	if d.cur == nil {
		return nil
	}
	cur := d.cur
	d.cur = nil
	return cur.Close()
}
