package publisher

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"

	"cutie/sitemap"
)

// zip writes the package: manifest.xml, then the bitstreams in its order
// (Z39.99-2017, 13.2; APPNOTE 6.3.3). The same parcel gives the same octets.
func (t *task) zip(w io.Writer, p *parcel, pause func() bool) error {
	zw := zip.NewWriter(w)
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
	var buf []byte
	for i := range p.streams {
		if buf, err = t.zipStream(zw, p, i, buf, c); err != nil {
			return err
		}
		if !pause() {
			return errStopped
		}
	}
	return zw.Close()
}

// zipStream writes one bitstream and checks it on the way. buf is memory to
// use, and is returned.
func (t *task) zipStream(zw *zip.Writer, p *parcel, i int, buf []byte, c *copier) ([]byte, error) {
	b := &p.streams[i]
	var r io.Reader
	if b.payload {
		file, err := t.openPayload(b)
		if err != nil {
			return buf, err
		}
		defer file.Close()
		r = &payloadReader{file, t.names.paths + b.job.String()}
	} else {
		text, err := p.texts.section(b.at, b.length)
		if err != nil {
			return buf, err
		}
		r = text
	}
	damaged := &packageError{t.names.files + "…/" + b.job.String(), errors.New("not what it was")}
	name := streamName(i + 1)
	if b.store {
		if int64(cap(buf)) < b.length {
			buf = make([]byte, b.length)
		}
		data := buf[:b.length]
		if _, err := io.ReadFull(r, data); err != nil {
			return buf, err
		}
		if sha256.Sum256(data) != b.sha256 {
			return buf, damaged
		}
		h := zipHeader(name, zip.Store)
		h.CRC32 = crc32.ChecksumIEEE(data)
		h.CompressedSize64, h.UncompressedSize64 = uint64(len(data)), uint64(len(data))
		w, err := zw.CreateRaw(h)
		if err == nil {
			_, err = w.Write(data)
		}
		return buf, err
	}
	w, err := zw.CreateHeader(zipHeader(name, zip.Deflate))
	if err != nil {
		return buf, err
	}
	sum := sha256.New()
	n, err := c.copy(io.MultiWriter(w, sum), r)
	if err != nil {
		return buf, err
	}
	if n != b.length || [sha256.Size]byte(sum.Sum(nil)) != b.sha256 {
		return buf, damaged
	}
	return buf, nil
}

// A payloadReader tells what went wrong with a payload from what went wrong
// with the package.
type payloadReader struct {
	io.Reader
	loc string
}

func (r *payloadReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
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
