package publisher

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"

	"cutie/sitemap"
)

// zip writes the package: manifest.xml, then the bitstreams in its order
// (Z39.99-2017, 13.2; APPNOTE 6.3.3). The same parcel gives the same octets.
func (t *task) zip(w io.Writer, p *parcel, pause func() bool) error {
	buf := bufio.NewWriterSize(w, 256<<10)
	zw := zip.NewWriter(buf)
	zw.RegisterCompressor(zip.Deflate, newDeflate())
	head := t.p.Dialect.AppendHead(nil, sitemap.URLSet, p.head)
	lines, err := p.lines.section(0, p.lines.size)
	if err != nil {
		return err
	}
	mw, err := zw.CreateHeader(zipHeader("manifest.xml", zip.Deflate))
	if err != nil {
		return err
	}
	manifest := io.MultiReader(bytes.NewReader(head), lines, bytes.NewReader(sitemap.AppendFoot(nil, sitemap.URLSet)))
	c := &copier{pause: pause}
	if _, err := c.copy(mw, manifest); err != nil {
		return err
	}
	if _, err := p.texts.section(0, 0); err != nil { // from here on they are only read
		return err
	}
	b := bench{task: t, parcel: p}
	for i := 0; i < len(p.streams); {
		n := b.fit(i)
		if n == 0 {
			err, n = t.zipLarge(zw, p, i, c), 1
		} else {
			err = b.zip(zw, i, n)
		}
		if err != nil {
			return err
		}
		if i += n; !pause() {
			return errStopped
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// zipLarge writes a bitstream on the way from its file, and checks it.
func (t *task) zipLarge(zw *zip.Writer, p *parcel, i int, c *copier) error {
	b := &p.streams[i]
	r, err := t.openStream(p, b)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := zw.CreateHeader(zipHeader(streamName(i+1), zip.Deflate))
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := c.copy(io.MultiWriter(w, sum), r)
	if err != nil {
		return err
	}
	if n != b.length || [sha256.Size]byte(sum.Sum(nil)) != b.sha256 {
		return t.damaged(b)
	}
	return nil
}

// openStream opens a bitstream. It may be called by several goroutines once
// the parcel is complete.
func (t *task) openStream(p *parcel, b *bitstream) (io.ReadCloser, error) {
	if b.payload {
		r, err := t.openPayload(b)
		if err != nil {
			return nil, err
		}
		return &payloadReader{r, t.names.paths + b.job.String()}, nil
	}
	r, err := p.texts.section(b.at, b.length)
	return io.NopCloser(r), err
}

func (t *task) damaged(b *bitstream) error {
	return &packageError{t.names.files + "…/" + b.job.String(), errors.New("not what it was")}
}

// A payloadReader tells what went wrong with a payload from what went wrong
// with the package.
type payloadReader struct {
	io.ReadCloser
	loc string
}

func (r *payloadReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &packageError{r.loc, err}
	}
	return n, err
}

// zipHeader returns the header of a file that has the time of all files.
func zipHeader(name string, method uint16) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Method: method}
	// 1980-01-01 is the first day there is.
	//lint:ignore SA1019 CreateRaw writes this field, and it alone makes no extra field
	h.ModifiedDate = 1<<5 | 1
	return h
}

// newDeflate returns a compressor for packages, which takes one writer again
// and again.
func newDeflate() zip.Compressor {
	var fw *flate.Writer
	return func(w io.Writer) (io.WriteCloser, error) {
		if fw != nil {
			fw.Reset(w)
			return fw, nil
		}
		var err error
		fw, err = flate.NewWriter(w, flate.BestSpeed)
		return fw, err
	}
}

// compressible reports whether files of the media type are likely to shrink.
func compressible(mediaType string) bool {
	t, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	t = strings.TrimSpace(t)
	if strings.HasPrefix(t, "text/") {
		return true
	}
	for _, end := range []string{"json", "xml", "javascript", "yaml", "x-tar", "csv", "sql"} {
		if strings.HasSuffix(t, end) {
			return true
		}
	}
	return false
}

// A copier copies with pauses, in memory of its own.
type copier struct {
	pause func() bool
	buf   [64 << 10]byte
}

func (c *copier) copy(w io.Writer, r io.Reader) (total int64, err error) {
	for n := 0; ; n++ {
		if n%16 == 15 && !c.pause() {
			return total, errStopped
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

// A counter counts what goes through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
