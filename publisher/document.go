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

	at    int64 // where the next Read begins
	past  int   // parts before that, at least
	start int64 // where these end
	cur   io.ReadCloser
	end   int64 // of the part cur reads
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

// file adds the octets from start to end of a file in the directory of a set.
// It is opened when it is read.
func (d *document) file(f *feed, s Set, name string, start, end int64) {
	d.add(end-start, func(from int64) (io.ReadCloser, error) {
		file, err := f.open(s, name)
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(file, start+from, end-start-from), file}, nil
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
	d.at, d.past, d.start = offset, 0, 0
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
