package dump

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"

	"github.com/klauspost/compress/flate"

	"cutie/sitemap"
)

// ManifestName is the name of the manifest, the first file of a package.
const ManifestName = "manifest.xml"

// write writes the package (APPNOTE 6.3.3).
func (p *Package) write(w io.Writer, head sitemap.Head, pause func() bool) error {
	buf := bufio.NewWriterSize(w, 256<<10)
	zw := NewWriter(buf)
	lines, err := p.lines.section(0, p.lines.size)
	if err != nil {
		return err
	}
	mw, err := zw.CreateHeader(Header(ManifestName, zip.Deflate))
	if err != nil {
		return err
	}
	c := &copier{pause: pause}
	for _, r := range []io.Reader{bytes.NewReader(p.Dialect.AppendHead(nil, sitemap.URLSet, head)), lines, bytes.NewReader(sitemap.AppendFoot(nil, sitemap.URLSet))} {
		if _, err := c.copy(mw, r); err != nil {
			return err
		}
	}
	if _, err := p.texts.section(0, 0); err != nil { // flushes; from here on goroutines read them
		return err
	}
	b := batch{Package: p}
	for i := 0; i < len(p.files); {
		n := b.fit(i)
		if n == 0 {
			err, n = p.writeLarge(zw, i, c), 1
		} else {
			err = b.write(zw, i, n)
		}
		if err != nil {
			return err
		}
		if i += n; !pause() {
			return ErrStopped
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// writeLarge streams a file into the package and checks it.
func (p *Package) writeLarge(zw *zip.Writer, i int, c *copier) error {
	m := &p.files[i]
	r, err := p.open(m)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := zw.CreateHeader(Header(memberName(i+1), zip.Deflate))
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := c.copy(io.MultiWriter(w, sum), r)
	if err != nil {
		return err
	}
	if n != m.length || [sha256.Size]byte(sum.Sum(nil)) != m.sha256 {
		return p.fileError(m, errDamaged)
	}
	return nil
}

// NewWriter returns a writer of packages to w.
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
