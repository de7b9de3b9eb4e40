package set

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"

	"cutie/queuefs/durable"
	"cutie/sitemap"

	"github.com/klauspost/compress/flate"
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
// manifest.xml, then the files in the order of the manifest. The manifest is known last, so what
// stands in the ZIP file of each other one is kept in a file without a name until [Package.End].
// All times in it are the first day of ZIP. Each file is compared with its length and SHA-256
// before it counts. It is for one goroutine. After an error the package is no more.
type Package struct {
	Entries int   // lines of the manifest
	Octets  int64 // bytes of all files

	dialect sitemap.Dialect
	pause   func() bool
	room    func(octets, taken int64) error
	path    []byte // memory for one
	line    []byte // memory for one
	buf     []byte // memory for copying

	lines, bodies spool             // of the manifest without its head, and of the files
	spared        int64             // up to which length of bodies there is room
	files         []*zip.FileHeader // of the bodies
	tool          *flate.Writer     // to bodies
}

// NewPackage begins a package, with temporary files in dir. It calls pause often; after that has
// returned false the error is [ErrStopped]. It calls room before it writes octets beside those
// it has taken, and ends with its error.
func NewPackage(dir *durable.Dir, d sitemap.Dialect, pause func() bool, room func(octets, taken int64) error) (*Package, error) {
	w := &Package{dialect: d, pause: pause, room: room, buf: make([]byte, 64<<10)}
	if err := w.lines.open(dir); err != nil {
		return nil, err
	}
	err := w.bodies.open(dir)
	if err == nil {
		w.tool, err = flate.NewWriter(&w.bodies, flate.BestSpeed)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close removes the temporary files.
func (w *Package) Close() {
	w.lines.file.Close()
	w.bodies.file.Close()
}

// A spool is a file without a name, written and then read.
type spool struct {
	file *os.File
	w    *bufio.Writer
	n    int64 // octets written
}

func (s *spool) open(dir *durable.Dir) error {
	f, name, err := dir.Temp()
	if err != nil {
		return err
	}
	s.file, s.w = f, bufio.NewWriterSize(f, 256<<10)
	return dir.Remove(name)
}

func (s *spool) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	return n, err
}

// reader returns what was written.
func (s *spool) reader() (io.Reader, error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.n), 256<<10), nil
}

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
	if _, err := w.lines.Write(w.line); err != nil {
		return err
	}
	if w.Entries%64 == 0 && !w.pause() {
		return ErrStopped
	}
	return nil
}

// AddText adds an entry with a file of these contents, which were compared with f.
func (w *Package) AddText(e Entry, f *Member, text []byte) error {
	return w.addFile(e, f, func(body io.Writer) error {
		_, err := body.Write(text)
		return err
	})
}

// AddFile adds an entry with a file read from in. If it is not what f says the error is a
// [FileError] with [ErrDamaged].
func (w *Package) AddFile(e Entry, f *Member, in io.Reader) error {
	return w.addFile(e, f, func(body io.Writer) error {
		sum := sha256.New()
		n, err := w.copy(io.MultiWriter(body, sum), &fileReader{in, e.Loc()})
		if err == nil && (n != f.Length || [sha256.Size]byte(sum.Sum(nil)) != f.SHA256) {
			err = &FileError{e.Loc(), ErrDamaged}
		}
		return err
	})
}

// addFile adds an entry with a file that fill writes.
func (w *Package) addFile(e Entry, f *Member, fill func(io.Writer) error) error {
	if err := w.askForRoom(f.Length); err != nil {
		return err
	}
	w.Octets += f.Length
	w.path = appendName(append(w.path[:0], '/'), len(w.files)+1)
	h := Header(string(w.path[1:]), zip.Store)
	begin, crc := w.bodies.n, crc32.NewIEEE()
	if packed(f) {
		h.Method = zip.Deflate
		w.tool.Reset(&w.bodies)
		if err := fill(io.MultiWriter(w.tool, crc)); err != nil {
			return err
		}
		if err := w.tool.Close(); err != nil {
			return err
		}
	} else if err := fill(io.MultiWriter(&w.bodies, crc)); err != nil {
		return err
	}
	h.CRC32, h.UncompressedSize64, h.CompressedSize64 = crc.Sum32(), uint64(f.Length), uint64(w.bodies.n-begin)
	if f.Length > mostPlain {
		h.Flags |= 1 << 3
	}
	w.files = append(w.files, h)
	return w.add(e, w.path)
}

// askForRoom asks for room for a file, and for a quarter of what was written, so that the next
// attempt does not end at once. It asks again after a megabyte.
func (w *Package) askForRoom(length int64) error {
	if w.bodies.n+length <= w.spared {
		return nil
	}
	octets := max(length, w.bodies.n/4)
	w.spared = w.bodies.n + max(length, min(octets, 1<<20))
	return w.room(octets, w.bodies.n)
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

// End writes the package with this head of its manifest, and returns its length and its SHA-256
// in hexadecimal.
func (w *Package) End(out io.Writer, head sitemap.Head) (length int64, sum string, err error) {
	if err := w.room(w.bodies.n, w.bodies.n); err != nil {
		return 0, "", err
	}
	lines, err := w.lines.reader()
	if err != nil {
		return 0, "", err
	}
	bodies, err := w.bodies.reader()
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	to := &counter{w: io.MultiWriter(out, h)}
	z := NewZip(bufio.NewWriterSize(to, 256<<10))
	manifest, err := z.CreateHeader(Header(ManifestName, zip.Deflate))
	if err != nil {
		return 0, "", err
	}
	manifest.Write(w.dialect.AppendHead(nil, sitemap.URLSet, head)) // copy has its error
	if _, err := w.copy(manifest, lines); err != nil {
		return 0, "", err
	}
	manifest.Write(sitemap.AppendFoot(nil, sitemap.URLSet)) // CreateRaw or Close has its error
	for _, h := range w.files {
		body, err := z.CreateRaw(h)
		if err != nil {
			return 0, "", err
		}
		if _, err := w.copy(body, io.LimitReader(bodies, int64(h.CompressedSize64))); err != nil {
			return 0, "", err
		}
	}
	if err := z.Close(); err != nil {
		return 0, "", err
	}
	return to.n, hex.EncodeToString(h.Sum(nil)), nil
}

// copy copies with pauses.
func (w *Package) copy(to io.Writer, from io.Reader) (total int64, err error) {
	for {
		n, err := from.Read(w.buf)
		if _, err := to.Write(w.buf[:n]); err != nil {
			return total, err
		}
		before := total
		switch total += int64(n); {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		case total>>20 != before>>20 && !w.pause():
			return total, ErrStopped
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

const memberDir = "resources/"

// appendName appends the name of a file in the package, by its number from 1.
func appendName(dst []byte, number int) []byte {
	dst = append(dst, memberDir...)
	for least := 100_000; least > max(number, 1); least /= 10 { // it has six digits at least
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(number), 10)
}

// packLimit is the least length of a file to compress. Most job files are shorter: to
// compress them takes long, and saves a thirtieth of the bytes.
const packLimit = 4 << 10

// mostPlain is the longest file whose lengths have place in the head before it. Those of a
// longer one stand after it; many readers of ZIP take that for compressed files only.
const mostPlain = 1<<32 - 2

// packed reports whether a file is compressed.
func packed(f *Member) bool {
	return f.Length >= packLimit && compressible(f.Type) || f.Length > mostPlain
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

// ManifestName is the name of the manifest in a package.
const ManifestName = "manifest.xml"
