package set

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/flate"
)

// ManifestName is the name of the manifest in a package.
const ManifestName = "manifest.xml"

// A record is a file of a package, as the directory at its end has it.
type record struct {
	file   int   // its number; 0 is the manifest
	at     int64 // where its header begins
	packed int64 // bytes in the package
	length int64
	crc    uint32
	method uint16
	flags  uint16
}

// Methods and flags of ZIP.
const (
	asIs     = 0
	deflated = 8
	streamed = 8 // length and check follow the file
)

// Signatures and lengths of ZIP (APPNOTE 6.3.3, 4.3).
const (
	localMark, localLength   = 0x04034b50, 30
	recordMark, recordLength = 0x02014b50, 46
	descriptorMark           = 0x08074b50
	endMark                  = 0x06054b50
	wideEndMark, wideEnd     = 0x06064b50, 56
	locatorMark              = 0x07064b50
	version, wideVersion     = 20, 45
	firstDay                 = 1<<5 | 1 // 1980-01-01, the first day of ZIP
	wideField, wideFieldLen  = 1, 24
)

// appendName appends the name of the file.
func (r *record) appendName(dst []byte) []byte {
	if r.file == 0 {
		return append(dst, ManifestName...)
	}
	return appendName(dst, r.file)
}

// appendLocal appends the header before the file.
func (r *record) appendLocal(dst []byte) []byte {
	le, at := binary.LittleEndian, len(dst)
	var h [localLength]byte
	le.PutUint32(h[:], localMark)
	r.facts(h[4:], version)
	dst = r.appendName(append(dst, h[:]...))
	le.PutUint16(dst[at+26:], uint16(len(dst)-at-localLength))
	return dst
}

// facts puts the fields of both headers.
func (r *record) facts(h []byte, version uint16) {
	le := binary.LittleEndian
	le.PutUint16(h, version)
	le.PutUint16(h[2:], r.flags)
	le.PutUint16(h[4:], r.method)
	le.PutUint16(h[8:], firstDay) // at midnight
	le.PutUint32(h[10:], r.crc)
	le.PutUint32(h[14:], narrow(r.packed))
	le.PutUint32(h[18:], narrow(r.length))
}

// narrow returns n, or the mark of a number that stands in a wide field.
func narrow(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }

// append appends the line of the directory.
func (r *record) append(dst []byte) []byte {
	le, at, offset := binary.LittleEndian, len(dst), narrow(r.at)
	w, needs, extra := *r, uint16(version), uint16(0)
	wide := max(r.packed, r.length, r.at) >= math.MaxUint32
	if wide {
		needs, extra, offset = wideVersion, 4+wideFieldLen, math.MaxUint32
		w.packed, w.length = math.MaxUint32, math.MaxUint32
	}
	var h [recordLength]byte // without comment, disk and attributes
	le.PutUint32(h[:], recordMark)
	le.PutUint16(h[4:], needs)
	w.facts(h[6:], needs)
	le.PutUint16(h[30:], extra)
	le.PutUint32(h[42:], offset)
	dst = r.appendName(append(dst, h[:]...))
	le.PutUint16(dst[at+28:], uint16(len(dst)-at-recordLength))
	if !wide {
		return dst
	}
	dst = le.AppendUint16(dst, wideField)
	dst = le.AppendUint16(dst, wideFieldLen)
	dst = le.AppendUint64(dst, uint64(r.length))
	dst = le.AppendUint64(dst, uint64(r.packed))
	return le.AppendUint64(dst, uint64(r.at))
}

// appendEnd appends the end of a directory of n lines from an offset up to another.
func appendEnd(dst []byte, n int, from, to int64) []byte {
	le, size := binary.LittleEndian, to-from
	if n >= math.MaxUint16 || to >= math.MaxUint32 {
		dst = le.AppendUint32(dst, wideEndMark)
		dst = le.AppendUint64(dst, wideEnd-12)
		dst = le.AppendUint16(dst, wideVersion)
		dst = le.AppendUint16(dst, wideVersion)
		dst = le.AppendUint64(dst, 0) // disks
		for _, v := range [...]int64{int64(n), int64(n), size, from} {
			dst = le.AppendUint64(dst, uint64(v))
		}
		dst = le.AppendUint32(dst, locatorMark)
		dst = le.AppendUint32(dst, 0)
		dst = le.AppendUint64(dst, uint64(to))
		dst = le.AppendUint32(dst, 1)
		n, size, from = math.MaxUint16, math.MaxUint32, math.MaxUint32
	}
	dst = le.AppendUint32(dst, endMark)
	dst = le.AppendUint32(dst, 0) // disks
	dst = le.AppendUint16(dst, uint16(n))
	dst = le.AppendUint16(dst, uint16(n))
	dst = le.AppendUint32(dst, uint32(size))
	dst = le.AppendUint32(dst, uint32(from))
	return le.AppendUint16(dst, 0)
}

// A content is the content of a file as it stands in a package.
type content struct {
	data   []byte // compressed if the method says so
	length int
	crc    uint32
	method uint16
}

func (c *content) record(number int) record {
	return record{file: number, packed: int64(len(c.data)), length: int64(c.length), crc: c.crc, method: c.method}
}

// A compressor makes contents, one after the other.
type compressor struct {
	w   *flate.Writer
	buf bytes.Buffer
}

// content returns the content of a file. It is compressed if the type and the length say
// so, and if it gets shorter by that. It is valid until the next call, and as long as raw.
func (c *compressor) content(raw []byte, mediaType string) (content, error) {
	out := content{data: raw, length: len(raw), crc: crc32.ChecksumIEEE(raw)}
	if stored(int64(len(raw)), mediaType) {
		return out, nil
	}
	if err := c.begin(); err != nil {
		return out, err
	}
	c.w.Write(raw) // memory takes everything
	c.w.Close()
	if c.buf.Len() < len(raw) {
		out.data, out.method = c.buf.Bytes(), deflated
	}
	return out, nil
}

func (c *compressor) begin() (err error) {
	c.buf.Reset()
	if c.w != nil {
		c.w.Reset(&c.buf)
		return nil
	}
	c.w, err = flate.NewWriter(&c.buf, flate.BestSpeed)
	return err
}

// An archive is a package that is being written.
type archive struct {
	w    io.Writer
	size int64
	dir  []record
	head []byte // memory for a header
}

func (a *archive) write(p []byte) error {
	_, err := a.w.Write(p)
	a.size += int64(len(p))
	return err
}

// add adds a file.
func (a *archive) add(c *content, number int) error {
	r := c.record(number)
	r.at = a.size
	a.dir = append(a.dir, r)
	a.head = r.appendLocal(a.head[:0])
	if err := a.write(a.head); err != nil {
		return err
	}
	return a.write(c.data)
}

// stream adds a file of any length, compressed. If it is not what f says, the error is
// ErrDamaged.
func (a *archive) stream(number int, f *Member, in io.Reader, pause func() bool) error {
	r := record{file: number, at: a.size, method: deflated, flags: streamed}
	if err := a.write(r.appendLocal(nil)); err != nil {
		return err
	}
	out := &counter{w: a.w}
	w, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return err
	}
	crc, sum, c := crc32.NewIEEE(), sha256.New(), &copier{pause: pause}
	if r.length, err = c.copy(io.MultiWriter(w, crc, sum), in); err != nil {
		return err
	}
	if r.length != f.Length || [sha256.Size]byte(sum.Sum(nil)) != f.SHA256 {
		return ErrDamaged
	}
	if err := w.Close(); err != nil {
		return err
	}
	r.packed, r.crc = out.n, crc.Sum32()
	a.size += r.packed
	a.dir = append(a.dir, r)
	le := binary.LittleEndian
	end := le.AppendUint32(le.AppendUint32(nil, descriptorMark), r.crc)
	if max(r.packed, r.length) >= math.MaxUint32 {
		end = le.AppendUint64(le.AppendUint64(end, uint64(r.packed)), uint64(r.length))
	} else {
		end = le.AppendUint32(le.AppendUint32(end, uint32(r.packed)), uint32(r.length))
	}
	return a.write(end)
}

// end adds the manifest and the directory, with the manifest first in it.
func (a *archive) end(m *manifest) error {
	c, err := m.content()
	if err != nil {
		return err
	}
	if err := a.add(&c, 0); err != nil {
		return err
	}
	m.free()
	from, n := a.size, len(a.dir)
	dst := a.dir[n-1].append(make([]byte, 0, 65<<10))
	for i := range a.dir[:n-1] {
		if dst = a.dir[i].append(dst); len(dst) > 64<<10 {
			if err := a.write(dst); err != nil {
				return err
			}
			dst = dst[:0]
		}
	}
	return a.write(appendEnd(dst, n, from, a.size+int64(len(dst))))
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
