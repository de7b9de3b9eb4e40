// Package dump makes the packages of ResourceSync Dumps (Z39.99-2017, 11 and
// 13): ZIP files with manifest.xml first and the files in the order of the
// manifest.
//
// A package is a function of its list of files: the same [Package] and head
// always give the same bytes. All times in it are the first day of ZIP. Each
// file is checked against its length and SHA-256 on the way.
//
// A package lists tens of thousands of files. What takes time is opening,
// checking and compressing each; small files are prepared in memory in
// batches by several goroutines. Manifest lines, and small texts that may be
// gone a moment later, wait in files without a name.
package dump

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"
	"strings"

	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// ErrStopped says that a pause function asked to stop.
var ErrStopped = errors.New("stopped")

// A FileError says why the file of a reference cannot be in a package. Every
// other error is about writing the package.
type FileError struct {
	Loc string
	Err error
}

func (e *FileError) Error() string { return e.Loc + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// A Package gathers entries and files. It is for one goroutine.
type Package struct {
	Dialect sitemap.Dialect
	Open    func(id uint64) (r io.ReadCloser, length int64, err error) // opens a file; called by several goroutines
	Loc     func(id uint64) string                                     // reference of a file, for errors

	Entries int   // lines of the manifest
	Octets  int64 // bytes of all files

	lines  *scratch // of the manifest
	line   []byte   // memory for one
	texts  *scratch
	number int // of the last file
	early  []member
	late   []member
}

// A File is what a package holds for an entry.
type File struct {
	ID     uint64
	Length int64
	SHA256 [sha256.Size]byte
	Type   string // media type; decides whether the file is compressed
}

// Is reports whether the file has the octets of text.
func (f *File) Is(text []byte) bool {
	return int64(len(text)) == f.Length && sha256.Sum256(text) == f.SHA256
}

type member struct {
	number    int
	id        uint64
	length    int64
	sha256    [sha256.Size]byte
	mediaType string
	text      int64 // where it begins in texts; -1 if it is opened by id
}

// Late is the most bytes of a file that a package gets as it grows. Longer ones come
// after all others, unless they are texts.
const Late = 128 << 10

// New returns an empty package, with temporary files in dir.
func New(dir *durable.Dir) (*Package, error) {
	lines, err := newScratch(dir)
	if err != nil {
		return nil, err
	}
	texts, err := newScratch(dir)
	if err != nil {
		lines.file.Close()
		return nil, err
	}
	return &Package{lines: lines, texts: texts}, nil
}

// Close removes the temporary files.
func (p *Package) Close() {
	p.lines.file.Close()
	p.texts.file.Close()
}

// Add adds an entry without a file, such as a deletion.
func (p *Package) Add(e *sitemap.Entry) error {
	p.Entries++
	p.line = p.Dialect.AppendEntry(p.line[:0], sitemap.URLSet, e)
	_, err := p.lines.Write(p.line)
	return err
}

// AddFile adds an entry with a file; e gets its path in the package.
func (p *Package) AddFile(e *sitemap.Entry, f File) error { return p.add(e, f, -1) }

// AddText adds an entry with a file whose contents are text.
func (p *Package) AddText(e *sitemap.Entry, f File, text []byte) error {
	at := p.texts.size
	if _, err := p.texts.Write(text); err != nil {
		return err
	}
	return p.add(e, f, at)
}

func (p *Package) add(e *sitemap.Entry, f File, text int64) error {
	p.number++
	m := member{p.number, f.ID, f.Length, f.SHA256, f.Type, text}
	if text < 0 && f.Length > Late {
		p.late = append(p.late, m)
	} else {
		p.early = append(p.early, m)
	}
	p.Octets += f.Length
	e.Path = "/" + memberName(m.number)
	return p.Add(e)
}

// Skip leaves out a file: its number stays free, so that the others keep theirs.
func (p *Package) Skip() { p.number++ }

// Number returns the number of the next file.
func (p *Package) Number() int { return p.number + 1 }

const memberDir = "resources/"

// memberName returns the name of a file in the package, by its number from 1.
func memberName(number int) string { return string(AppendName(nil, number)) }

// AppendName appends the name of a file in the package.
func AppendName(dst []byte, number int) []byte {
	dst = append(dst, memberDir...)
	for least := 100_000; least > max(number, 1); least /= 10 { // it has six digits at least
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(number), 10)
}

// memberOverhead is about how many bytes a file adds to a package beside its
// own: its header and its line in the directory.
const memberOverhead = 256

// Size returns about how many bytes the package will have at most, and how
// many its temporary files have.
func (p *Package) Size() (needed, temporary int64) {
	return p.Octets + p.lines.size + int64(len(p.early)+len(p.late))*memberOverhead, p.lines.size + p.texts.size
}

// Write writes the package with the head of its manifest, and returns its
// length and its SHA-256 in hexadecimal. It calls pause often; after pause has
// returned false the error is [ErrStopped].
func (p *Package) Write(w io.Writer, head sitemap.Head, pause func() bool) (length int64, sum string, err error) {
	m := &meter{w: w, sum: sha256.New()}
	if err := p.write(m, head, pause); err != nil {
		return 0, "", err
	}
	return m.n, hex.EncodeToString(m.sum.Sum(nil)), nil
}

// A meter measures what goes through it.
type meter struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.sum.Write(p[:n])
	m.n += int64(n)
	return n, err
}

// open opens a file. It may be called by several goroutines after the last Add.
func (p *Package) open(m *member) (io.ReadCloser, error) {
	if m.text >= 0 {
		r, err := p.texts.section(m.text, m.length)
		return io.NopCloser(r), err
	}
	r, length, err := p.Open(m.id)
	if err != nil {
		return nil, p.fileError(m, err)
	}
	if length != m.length {
		r.Close()
		return nil, p.fileError(m, fmt.Errorf("%d octets, not %d", length, m.length))
	}
	return &fileReader{r, p, m}, nil
}

func (p *Package) fileError(m *member, err error) error { return &FileError{p.Loc(m.id), err} }

// ErrDamaged: a file has another length or digest than its entry says.
var ErrDamaged = errors.New("not what it was")

// A fileReader separates errors of a file from errors of the package.
type fileReader struct {
	io.ReadCloser
	p *Package
	m *member
}

func (r *fileReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if err != nil && err != io.EOF {
		err = r.p.fileError(r.m, err)
	}
	return n, err
}

// storeLimit bounds files stored as they are. A larger one is written before
// its checksum is known; many readers of ZIP take that for compressed files
// only.
const storeLimit = 1 << 20

// packLimit is the least length of a file to compress. Most job files are shorter: to
// compress them takes a fifth of the time of following an event, and saves a thirtieth of
// the bytes.
const packLimit = 1 << 10

// stored reports whether a file stands in a package as it is.
func stored(length int64, mediaType string) bool {
	return length <= storeLimit && (length < packLimit || !compressible(mediaType))
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

// A scratch is a file without a name, written once and read anywhere.
type scratch struct {
	file *os.File
	w    *bufio.Writer
	size int64
}

func newScratch(dir *durable.Dir) (*scratch, error) {
	f, name, err := dir.Temp()
	if err != nil {
		return nil, err
	}
	if err := dir.Remove(name); err != nil {
		f.Close()
		return nil, err
	}
	return &scratch{file: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

func (s *scratch) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.size += int64(n)
	return n, err
}

// section returns a reader of n bytes from off on. Nothing is written after.
func (s *scratch) section(off, n int64) (io.Reader, error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	return io.NewSectionReader(s.file, off, n), nil
}
