package dump

import (
	"archive/zip"
	"bufio"
	"io"

	"github.com/klauspost/compress/flate"

	"cutie/sitemap"
)

// write writes the files that a package may get as it grows, the late ones, and the rest.
func (p *Package) write(w io.Writer, head sitemap.Head, pause func() bool) error {
	buf := bufio.NewWriterSize(w, 256<<10)
	a := &archive{w: buf}
	if _, err := p.texts.section(0, 0); err != nil { // flushes; from here on goroutines read them
		return err
	}
	c := &copier{pause: pause}
	for _, some := range [][]member{p.early, p.late} {
		if err := p.writeAll(a, some, c); err != nil {
			return err
		}
	}
	m, err := p.manifest(head, c)
	if err != nil {
		return err
	}
	if err := a.end(m); err != nil {
		return err
	}
	return buf.Flush()
}

// writeAll writes files in their order.
func (p *Package) writeAll(a *archive, files []member, c *copier) error {
	b := batch{Package: p}
	for len(files) > 0 {
		n := fit(files)
		var err error
		if n == 0 {
			err, n = p.writeLarge(a, &files[0], c.pause), 1
		} else {
			err = b.write(a, files[:n])
		}
		if err != nil {
			return err
		}
		if files = files[n:]; !c.pause() {
			return ErrStopped
		}
	}
	return nil
}

// manifest returns the manifest with its head.
func (p *Package) manifest(head sitemap.Head, c *copier) (*Manifest, error) {
	lines, err := p.lines.section(0, p.lines.size)
	if err != nil {
		return nil, err
	}
	m, err := NewManifest(p.Dialect, head)
	if err == nil {
		_, err = c.copy(m, lines)
	}
	return m, err
}

// writeLarge streams a file into the package and checks it.
func (p *Package) writeLarge(a *archive, m *member, pause func() bool) error {
	r, err := p.open(m)
	if err != nil {
		return err
	}
	defer r.Close()
	f := File{Length: m.length, SHA256: m.sha256}
	if err = a.stream(m.number, &f, r, pause); err == ErrDamaged {
		err = p.fileError(m, err)
	}
	return err
}

// NewWriter returns a writer of ZIP to w, for packages of others.
func NewWriter(w io.Writer) *zip.Writer {
	zw := zip.NewWriter(w)
	var fw *flate.Writer // used for one file after the other
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (_ io.WriteCloser, err error) {
		if fw == nil {
			fw, err = flate.NewWriter(w, flate.BestSpeed)
		} else {
			fw.Reset(w)
		}
		return fw, err
	})
	return zw
}

// Header returns the header of a file, with the time all files have.
func Header(name string, method uint16) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Method: method}
	// 1980-01-01 is the first day of ZIP.
	//lint:ignore SA1019 CreateRaw writes this field, and it alone makes no extra field
	h.ModifiedDate = 1<<5 | 1
	return h
}

// A copier copies with pauses, in memory of its own.
type copier struct {
	pause func() bool
	buf   [64 << 10]byte
}

func (c *copier) copy(w io.Writer, r io.Reader) (total int64, err error) {
	for n := 0; ; n++ {
		if n%16 == 15 && !c.pause() {
			return total, ErrStopped
		}
		k, err := r.Read(c.buf[:])
		total += int64(k)
		if _, err := w.Write(c.buf[:k]); err != nil {
			return total, err
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
