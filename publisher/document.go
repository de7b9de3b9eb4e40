package publisher

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// A document is one representation, as parts put one behind the other. It is
// an [io.ReadSeeker] and reads a part when it gets there.
type document struct {
	tag      string    // entity tag of the state, see resource; "" if it has none
	modified time.Time // zero if unknown
	parts    []part
	size     int64

	at  int64 // where the next Read begins
	cur io.ReadCloser
	end int64 // of the part cur reads
}

// A part opens its octets from an offset on.
type part struct {
	size int64
	open func(from int64) (io.ReadCloser, error)
}

func (d *document) add(size int64, open func(from int64) (io.ReadCloser, error)) {
	if size > 0 {
		d.parts = append(d.parts, part{size, open})
		d.size += size
	}
}

// text adds octets at hand.
func (d *document) text(b []byte) {
	d.add(int64(len(b)), func(from int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b[from:])), nil
	})
}

// member adds the entries of a member in a coding.
func (d *document) member(m *member, c coding) {
	switch c {
	case gzipped:
		d.text(m.gz)
		return
	case zstandard:
		d.text(m.zstd())
		return
	}
	d.add(m.raw, func(from int64) (io.ReadCloser, error) {
		r, err := m.expand()
		if err == nil {
			_, err = io.CopyN(io.Discard, r, from)
		}
		return r, err
	})
}

// file adds the first size octets of a file in the directory of a set. It is
// opened when it is read.
func (d *document) file(f *feed, s Set, name string, size int64) {
	d.add(size, func(from int64) (io.ReadCloser, error) {
		file, err := f.open(s, name)
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(file, from, size-from), file}, nil
	})
}

type section struct {
	*io.SectionReader
	file *os.File
}

func (s *section) Close() error { return s.file.Close() }

// open opens a file in the directory of a set for reading.
func (f *feed) open(s Set, name string) (*os.File, error) {
	d, err := f.dir(s, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(name)
}

func (d *document) Read(p []byte) (int, error) {
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

// next opens the part that has the next octet.
func (d *document) next() (err error) {
	start := int64(0)
	for _, p := range d.parts {
		if d.at < start+p.size {
			d.end = start + p.size
			d.cur, err = p.open(d.at - start)
			return err
		}
		start += p.size
	}
	return io.EOF
}

// Seek implements [io.Seeker].
func (d *document) Seek(offset int64, whence int) (int64, error) {
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
	d.at = offset
	return offset, nil
}

// Close lets go of the part being read.
func (d *document) Close() error {
	if d.cur == nil {
		return nil
	}
	cur := d.cur
	d.cur = nil
	return cur.Close()
}
