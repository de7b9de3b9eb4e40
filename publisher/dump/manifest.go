package dump

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
)

// OpenManifest returns the manifest of a package, decompressed. It reads the
// beginning of the package only. Close closes the package too.
func OpenManifest(pkg io.ReadCloser) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(pkg, 32<<10)
	// The local header of a file (APPNOTE 6.3.3, 4.3.7).
	const size = 30
	var h [size]byte
	_, err := io.ReadFull(in, h[:])
	if err == nil && (binary.LittleEndian.Uint32(h[:]) != 0x04034b50 || binary.LittleEndian.Uint16(h[8:]) != zip.Deflate) {
		err = zip.ErrFormat
	}
	if err == nil {
		_, err = in.Discard(int(binary.LittleEndian.Uint16(h[26:])) + int(binary.LittleEndian.Uint16(h[28:])))
	}
	if err != nil {
		return nil, errors.Join(err, pkg.Close())
	}
	return &manifest{flate.NewReader(in), pkg}, nil
}

type manifest struct {
	io.ReadCloser
	pkg io.Closer
}

func (m *manifest) Close() error {
	m.ReadCloser.Close()
	return m.pkg.Close()
}

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
