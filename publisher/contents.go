package publisher

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/flate"
)

// packaged returns a package that stands in the file name, or the copy of its
// manifest (Z39.99-2017, 11 and 13): that is read out of the package, so the
// two are the same.
func (f *feed) packaged(s Set, doc docName, sp span, name string) *resource {
	if doc.kind == changeManifest || doc.kind == resourceManifest {
		tag := fmt.Sprintf("m%d-%d-%.16s", doc.n, doc.version, sp.sha256)
		return &resource{tag: tag, modified: sp.until, cache: cacheClosed, compose: func(c coding) (*document, error) {
			d := &document{tag: tag, modified: sp.until}
			return d, d.stream(c, func() (io.ReadCloser, error) { return f.openManifest(s, name) })
		}}
	}
	tag := fmt.Sprintf("z%d-%.16s", doc.n, sp.sha256)
	return &resource{zip: true, tag: tag, modified: sp.until, cache: cacheClosed, compose: func(coding) (*document, error) {
		d := &document{tag: tag, modified: sp.until}
		d.file(f, s, name, 0, sp.length)
		return d, nil
	}}
}

// streamBlock is how much of a stream is compressed at a time.
const streamBlock = 1 << 20

// stream adds what open reads, in a coding. It is read once for its size, or
// to be compressed.
func (d *document) stream(c coding, open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	if c == identity {
		size, err := io.Copy(io.Discard, r)
		if err != nil {
			return err
		}
		d.add(size, func(from int64) (io.ReadCloser, error) {
			r, err := open()
			if err != nil {
				return nil, err
			}
			if _, err := io.CopyN(io.Discard, r, from); err != nil {
				r.Close()
				return nil, err
			}
			return r, nil
		})
		return nil
	}
	p := d.packing(c)
	block := make([]byte, streamBlock)
	for {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			p.text(block[:n])
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			p.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openManifest opens the first file of a package, which is its manifest,
// without reading the directory at the end of the package.
func (f *feed) openManifest(s Set, name string) (io.ReadCloser, error) {
	file, err := f.open(s, name)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(file, 32<<10)
	r, err := inflate(in)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &firstFile{r, file}, nil
}

// inflate reads the local header of a compressed file and returns its contents
// (APPNOTE 6.3.3, 4.3.7).
func inflate(in *bufio.Reader) (io.ReadCloser, error) {
	const size = 30
	var h [size]byte
	if _, err := io.ReadFull(in, h[:]); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(h[:]) != 0x04034b50 || binary.LittleEndian.Uint16(h[8:]) != zip.Deflate {
		return nil, zip.ErrFormat
	}
	rest := int(binary.LittleEndian.Uint16(h[26:])) + int(binary.LittleEndian.Uint16(h[28:]))
	if _, err := in.Discard(rest); err != nil {
		return nil, err
	}
	return flate.NewReader(in), nil
}

type firstFile struct {
	io.ReadCloser
	file *os.File
}

func (f *firstFile) Close() error {
	f.ReadCloser.Close()
	return f.file.Close()
}
