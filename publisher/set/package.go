package set

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
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
// the files in the order of the manifest. manifest.xml comes last, when all entries are known.
// All times in it are the first day of ZIP. Each file is compared with its length and SHA-256
// before it counts. It is for one goroutine. After an error the package is no more.
type Package struct {
	Entries int   // lines of the manifest
	Octets  int64 // bytes of all files

	dialect sitemap.Dialect
	pause   func() bool
	path    []byte // memory for one
	sum     hash.Hash
	out     counter
	zip     *zip.Writer
	tool    *flate.Writer // for files in memory
	packed  bytes.Buffer  // the last of them
	text    []byte        // memory for a file
	number  int           // of the last file

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
	w := &Package{dialect: d, pause: pause, sum: sha256.New(), lines: lines, manif: bufio.NewWriterSize(lines, 64<<10)}
	w.out.w = io.MultiWriter(out, w.sum)
	w.zip = NewZip(bufio.NewWriterSize(&w.out, 256<<10))
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

// AddText adds an entry with a file of these contents, which were compared with f. It is
// compressed if the type and the length say so, and if it gets shorter by that.
func (w *Package) AddText(e Entry, f *Member, text []byte) error {
	path := w.begin(f)
	h := Header(string(path[1:]), zip.Store)
	h.CRC32, h.UncompressedSize64 = crc32.ChecksumIEEE(text), uint64(len(text))
	if !stored(f.Length, f.Type) {
		short, err := w.deflate(text)
		if err != nil {
			return err
		}
		if len(short) < len(text) {
			h.Method, text = zip.Deflate, short
		}
	}
	h.CompressedSize64 = uint64(len(text))
	out, err := w.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return w.add(e, path)
}

// deflate returns a text compressed, valid until the next call.
func (w *Package) deflate(text []byte) (_ []byte, err error) {
	w.packed.Reset()
	if w.tool == nil {
		w.tool, err = flate.NewWriter(&w.packed, flate.BestSpeed)
	} else {
		w.tool.Reset(&w.packed)
	}
	if err != nil {
		return nil, err
	}
	w.tool.Write(text) // memory takes everything
	w.tool.Close()
	return w.packed.Bytes(), nil
}

// AddFile adds an entry with a file read from in. If it is not what f says the error is a
// [FileError] with [ErrDamaged].
func (w *Package) AddFile(e Entry, f *Member, in io.Reader) error {
	if f.Length > storeLimit {
		path := w.begin(f)
		if err := w.stream(string(path[1:]), f, &fileReader{in, e.Loc()}); err != nil {
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

// stream adds a file of any length, compressed. If it is not what f says, the error is
// ErrDamaged.
func (w *Package) stream(name string, f *Member, in io.Reader) error {
	out, err := w.zip.CreateHeader(Header(name, zip.Deflate))
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := w.copy(io.MultiWriter(out, sum), in)
	if err == nil && (n != f.Length || [sha256.Size]byte(sum.Sum(nil)) != f.SHA256) {
		err = ErrDamaged
	}
	return err
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

// End completes the package with its manifest, and returns its length and its SHA-256 in
// hexadecimal.
func (w *Package) End(head sitemap.Head) (length int64, sum string, err error) {
	if err := w.manif.Flush(); err != nil {
		return 0, "", err
	}
	if _, err := w.lines.Seek(0, io.SeekStart); err != nil {
		return 0, "", err
	}
	out, err := w.zip.CreateHeader(Header(ManifestName, zip.Deflate))
	if err != nil {
		return 0, "", err
	}
	out.Write(w.dialect.AppendHead(nil, sitemap.URLSet, head)) // copy has its error
	if _, err := w.copy(out, w.lines); err != nil {
		return 0, "", err
	}
	out.Write(sitemap.AppendFoot(nil, sitemap.URLSet)) // Close has its error
	if err := w.zip.Close(); err != nil {
		return 0, "", err
	}
	return w.out.n, hex.EncodeToString(w.sum.Sum(nil)), nil
}

// copy copies with pauses.
func (w *Package) copy(to io.Writer, from io.Reader) (total int64, err error) {
	for {
		n, err := io.CopyN(to, from, 1<<20)
		total += n
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		case !w.pause():
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

// ManifestName is the name of the manifest in a package.
const ManifestName = "manifest.xml"
