package set

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/flate"
)

// OpenManifest returns the manifest of a package, decompressed. Close closes the
// package too, and so does an error.
func OpenManifest(pkg *os.File) (io.ReadCloser, error) {
	r, err := openManifest(pkg)
	if err != nil {
		return nil, errors.Join(err, pkg.Close())
	}
	return &unpacked{r, pkg}, nil
}

func openManifest(pkg *os.File) (io.ReadCloser, error) {
	st, err := pkg.Stat()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(pkg, st.Size())
	if err != nil {
		return nil, err
	}
	if len(z.File) == 0 || z.File[0].Name != ManifestName {
		return nil, zip.ErrFormat
	}
	return z.File[0].Open()
}

type unpacked struct {
	io.ReadCloser
	pkg io.Closer
}

func (m *unpacked) Close() error { return errors.Join(m.ReadCloser.Close(), m.pkg.Close()) }

// maxLine bounds a line of a manifest.
const maxLine = 32 << 10

// AsResourceList turns a manifest written here into the Resource List of its
// files: with another head, and without paths.
func AsResourceList(manifest io.ReadCloser, head []byte) io.ReadCloser {
	return &listing{in: bufio.NewReaderSize(manifest, maxLine), Closer: manifest, text: head}
}

type listing struct {
	in *bufio.Reader
	io.Closer
	text    []byte // to be read next
	entries bool   // the old head is over
}

func (l *listing) Read(p []byte) (int, error) {
	for len(l.text) == 0 {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return 0, err // the last line has its end
		}
		if l.entries = l.entries || bytes.HasPrefix(line, []byte("<url>")) || bytes.HasPrefix(line, []byte("</")); !l.entries {
			continue
		}
		if i := bytes.Index(line, []byte(` path="`)); i >= 0 { // a text has no quotation mark
			end := i + len(` path="`)
			end += bytes.IndexByte(line[end:], '"') + 1
			line = append(line[:i], line[end:]...)
		}
		l.text = line
	}
	n := copy(p, l.text)
	l.text = l.text[n:]
	return n, nil
}

// NewZip returns a writer of ZIP to w, for packages of others.
func NewZip(w io.Writer) *zip.Writer {
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
