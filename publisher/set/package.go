package set

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// ErrDamaged: a file has another length or digest than its entry says.
var ErrDamaged = errors.New("not what it was")

// A FileError says why the file of a reference cannot be in a package. Every
// other error is about writing the package.
type FileError struct {
	Loc string
	Err error
}

func (e *FileError) Error() string { return e.Loc + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// A Member is what a package holds for an entry.
type Member struct {
	Length int64
	SHA256 [sha256.Size]byte
	Type   string // media type; decides whether the file is compressed
}

// Is reports whether the file has the octets of text.
func (f *Member) Is(text []byte) bool {
	return int64(len(text)) == f.Length && sha256.Sum256(text) == f.SHA256
}

// A Package writes one package of a ResourceSync Dump (Z39.99-2017, 11 and 13): a ZIP file with
// the files in the order of the manifest. manifest.xml is written last, when all entries are
// known, and comes first in the directory. All times in it are the first day of ZIP. Each file
// is compared with its length and SHA-256 before it counts. It is for one goroutine. After an error the package is no more.
type Package struct {
	Entries int   // lines of the manifest
	Octets  int64 // bytes of all files

	dialect sitemap.Dialect
	pause   func() bool
	path    []byte // memory for one
	out     *meter
	buf     *bufio.Writer
	archive archive
	tool    compressor
	text    []byte // memory for a file
	number  int    // of the last file

	lines *os.File // of the manifest, without a name: its head comes last
	manif *bufio.Writer
	line  []byte
}

// NewPackage begins a package in out, with a temporary file in dir. It calls pause often; after
// that has returned false the error is [ErrStopped].
func NewPackage(out io.Writer, dir *durable.Dir, d sitemap.Dialect, pause func() bool) (*Package, error) {
	lines, name, err := dir.Temp()
	if err != nil {
		return nil, err
	}
	if err := dir.Remove(name); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	w := &Package{dialect: d, pause: pause, out: &meter{w: out, sum: sha256.New()}, lines: lines, manif: bufio.NewWriterSize(lines, 64<<10)}
	w.buf = bufio.NewWriterSize(w.out, 256<<10)
	w.archive.w = w.buf
	return w, nil
}

// Close removes the temporary file.
func (w *Package) Close() { w.lines.Close() }

// An Entry is a line of the manifest.
type Entry interface {
	Loc() string
	Append(dst, path []byte) []byte // appends the line, with the path of a file in the package
}

// Add adds an entry without a file, such as a deletion.
func (w *Package) Add(e Entry) error { return w.add(e, nil) }

func (w *Package) add(e Entry, path []byte) error {
	w.Entries++
	w.line = e.Append(w.line[:0], path)
	if _, err := w.manif.Write(w.line); err != nil {
		return err
	}
	if w.Entries%64 == 0 && !w.pause() {
		return ErrStopped
	}
	return nil
}

// AddText adds an entry with a file of these contents, which were compared with f.
func (w *Package) AddText(e Entry, f *Member, text []byte) error {
	c, err := w.tool.content(text, f.Type)
	if err != nil {
		return err
	}
	path := w.begin(f)
	if err := w.archive.add(&c, w.number); err != nil {
		return err
	}
	return w.add(e, path)
}

// AddFile adds an entry with a file read from in. If it is not what f says the error is a
// [FileError] with [ErrDamaged].
func (w *Package) AddFile(e Entry, f *Member, in io.Reader) error {
	if f.Length > storeLimit {
		path := w.begin(f)
		if err := w.archive.stream(w.number, f, &fileReader{in, e.Loc()}, w.pause); err != nil {
			if err == ErrDamaged {
				err = &FileError{e.Loc(), err}
			}
			return err
		}
		return w.add(e, path)
	}
	if int64(cap(w.text)) < f.Length {
		w.text = make([]byte, f.Length)
	}
	text := w.text[:f.Length]
	switch _, err := io.ReadFull(in, text); {
	case err == io.EOF, err == io.ErrUnexpectedEOF, err == nil && !f.Is(text):
		return &FileError{e.Loc(), ErrDamaged}
	case err != nil:
		return &FileError{e.Loc(), err}
	}
	return w.AddText(e, f, text)
}

// begin returns the path of the next file.
func (w *Package) begin(f *Member) []byte {
	w.number++
	w.Octets += f.Length
	w.path = appendName(append(w.path[:0], '/'), w.number)
	return w.path
}

// A fileReader separates errors of a file from errors of the package.
type fileReader struct {
	io.Reader
	loc string
}

func (r *fileReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = &FileError{r.loc, err}
	}
	return n, err
}

// End completes the package with the head of its manifest, and returns its length and its
// SHA-256 in hexadecimal.
func (w *Package) End(head sitemap.Head) (length int64, sum string, err error) {
	if err := w.manif.Flush(); err != nil {
		return 0, "", err
	}
	if _, err := w.lines.Seek(0, io.SeekStart); err != nil {
		return 0, "", err
	}
	m, err := newManifest(w.dialect.AppendHead(nil, sitemap.URLSet, head))
	if err != nil {
		return 0, "", err
	}
	if _, err := (&copier{pause: w.pause}).copy(m, w.lines); err != nil {
		return 0, "", err
	}
	if err := w.archive.end(m); err != nil {
		return 0, "", err
	}
	if err := w.buf.Flush(); err != nil {
		return 0, "", err
	}
	return w.out.n, hex.EncodeToString(w.out.sum.Sum(nil)), nil
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

const memberDir = "resources/"

// appendName appends the name of a file in the package, by its number from 1.
func appendName(dst []byte, number int) []byte {
	dst = append(dst, memberDir...)
	for least := 100_000; least > max(number, 1); least /= 10 { // it has six digits at least
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(number), 10)
}

// storeLimit bounds files stored as they are. A larger one is written before
// its checksum is known; many readers of ZIP take that for compressed files
// only.
const storeLimit = 1 << 20

// packLimit is the least length of a file to compress. Most job files are shorter: to
// compress them takes long, and saves a thirtieth of the bytes.
const packLimit = 4 << 10

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
