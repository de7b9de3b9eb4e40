package compose

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

// The file of a [FileWriter] has two members of gzip (RFC 1952, 2.2): the text, and after
// it an empty one with a table in its extra field, so that reading may begin in the middle.
// Tools for gzip print the text. The table has the bytes of each run of blocks, in the text
// and in the file, and at its end the size of the second member.
const (
	tableHead = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x04\xff" // with an extra field
	tableID   = "ct"                                       // of the subfield (RFC 1952, 2.3.1.1)
	tableEnd  = "\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00" // an empty text

	tableFixed = len(tableHead) + 2 + len(tableID) + 2 + 4 + len(tableEnd) // size without lengths
	maxTable   = 1<<16 - 1 - len(tableID) - 2                              // bytes of the subfield
)

// appendTable appends the second member; lengths are varints.
func appendTable(dst, lengths []byte) ([]byte, error) {
	n := len(lengths) + 4
	if n > maxTable {
		return nil, errors.New("the text is too long for a table")
	}
	dst = append(dst, tableHead...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(tableID)+2+n))
	dst = append(dst, tableID...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(n))
	dst = append(dst, lengths...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(tableFixed+len(lengths)))
	return append(dst, tableEnd...), nil
}

// A Packed is a file of a [FileWriter], read as its text. It implements [Content]. It is
// for one goroutine.
type Packed struct {
	Len   int64 // bytes of the text
	Size  int64 // bytes of the file
	Check Check // of the text

	file  *os.File
	texts []int64 // where each run begins in the text, and the end
	runs  []int64 // where each run begins in the file, and the end

	now  int                        // the run in text
	have int                        // bytes of it in text
	text *[blockSize + maxLine]byte // nil until a run is read
	gz   []byte
	src  bytes.Reader
	z    flateReader
}

type flateReader interface {
	io.Reader
	flate.Resetter
}

// OpenPacked reads the table of a file, and takes the file over. The error is a
// [PackedError] for a file of another form.
func OpenPacked(file *os.File) (*Packed, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p := &Packed{Size: st.Size(), file: file, now: -1}
	var end [4 + len(tableEnd)]byte
	if p.Size < int64(len(gzipHead)+gzipEnd+tableFixed) {
		return nil, p.formless()
	}
	if _, err := file.ReadAt(end[:], p.Size-int64(len(end))); err != nil {
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint32(end[:]))
	first := p.Size - size // of the second member
	if string(end[4:]) != tableEnd || size < int64(tableFixed) || size > 1<<17 || first < int64(len(gzipHead)+gzipEnd) {
		return nil, p.formless()
	}
	tail := make([]byte, int64(gzipEnd)+size)
	if _, err := file.ReadAt(tail, first-int64(gzipEnd)); err != nil {
		return nil, err
	}
	check, ok := parseCheck(tail[:gzipEnd])
	lengths := tail[gzipEnd+tableFixed-4-len(tableEnd) : len(tail)-len(end)]
	again, err := appendTable(nil, lengths)
	if !ok || err != nil || !bytes.Equal(again, tail[gzipEnd:]) {
		return nil, p.formless()
	}
	p.Check = check
	return p, p.parse(lengths, first-int64(gzipEnd))
}

// formless is the error about a file that no FileWriter has written.
func (p *Packed) formless() error {
	return &PackedError{p.Name(), errors.New("its table is not as it is written")}
}

// parse reads the lengths of the table; the last run ends at end.
func (p *Packed) parse(lengths []byte, end int64) error {
	text, at := int64(0), int64(len(gzipHead))
	for len(lengths) > 0 {
		t, n := binary.Uvarint(lengths)
		r, m := binary.Uvarint(lengths[max(n, 0):])
		if n <= 0 || m <= 0 || t == 0 || t > blockSize+maxLine || r == 0 || r > 2*(blockSize+maxLine) {
			return p.formless()
		}
		p.texts, p.runs = append(p.texts, text), append(p.runs, at)
		text, at, lengths = text+int64(t), at+int64(r), lengths[n+m:]
	}
	p.texts, p.runs, p.Len = append(p.texts, text), append(p.runs, at), text
	if at != end || p.Check.Len != uint32(text) {
		return p.formless()
	}
	return nil
}

// Name returns the name of the file.
func (p *Packed) Name() string { return p.file.Name() }

// Starts returns where runs begin in the text, each with a line. Reading there costs no
// more than what is read.
func (p *Packed) Starts() []int64 { return p.texts[:len(p.texts)-1] }

var runReaders sync.Pool // of flateReader

// Close closes the file.
func (p *Packed) Close() error {
	p.Free()
	return p.file.Close()
}

// Free gives memory back, and leaves the file open.
func (p *Packed) Free() {
	if p.text != nil {
		blocks.Put(p.text)
		runReaders.Put(p.z)
		p.text, p.z, p.now = nil, nil, -1
	}
}

// ReadAt implements [io.ReaderAt] over the text. It unpacks from the beginning of a run
// on, and goes on where the last call ended.
func (p *Packed) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && off < p.Len {
		i, found := slices.BinarySearch(p.texts, off)
		if !found {
			i--
		}
		start := off - p.texts[i]
		end := min(p.texts[i+1]-p.texts[i], start+int64(len(b)-n))
		if err := p.unpack(i, int(end)); err != nil {
			return n, err
		}
		k := copy(b[n:], p.text[start:end])
		n, off = n+k, off+int64(k)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// unpack makes the first bytes of run i stand in text, upto of them at least.
func (p *Packed) unpack(i, upto int) error {
	if p.now != i {
		if err := p.begin(i); err != nil {
			return err
		}
	}
	if p.have >= upto {
		return nil
	}
	n, err := io.ReadFull(p.z, p.text[p.have:upto])
	if p.have += n; err != nil {
		p.now = -1
		return p.damaged(err)
	}
	return nil
}

// begin begins to read run i.
func (p *Packed) begin(i int) error {
	p.now = -1
	n := int(p.runs[i+1] - p.runs[i])
	p.gz = slices.Grow(p.gz[:0], n+len(lastBlock))[:n]
	if _, err := p.file.ReadAt(p.gz, p.runs[i]); err != nil {
		return p.damaged(err)
	}
	p.gz = append(p.gz, lastBlock...) // so that a run is a text of its own
	p.src.Reset(p.gz)
	if p.text == nil {
		p.text = blocks.Get().(*[blockSize + maxLine]byte)
		if z, ok := runReaders.Get().(flateReader); ok {
			p.z = z
		} else {
			p.z = flate.NewReader(nil).(flateReader)
		}
	}
	if err := p.z.Reset(&p.src, nil); err != nil {
		return err
	}
	p.now, p.have = i, 0
	return nil
}

// damaged returns an error of reading as one about the file; other errors of the system
// stay as they are.
func (p *Packed) damaged(err error) error {
	var corrupt flate.CorruptInputError
	if err == io.EOF || err == io.ErrUnexpectedEOF || errors.As(err, &corrupt) {
		return &PackedError{p.Name(), err}
	}
	return err
}

// A PackedError is about a file that is damaged.
type PackedError struct {
	Name string
	Err  error
}

func (e *PackedError) Error() string { return fmt.Sprintf("%s: not whole: %v", e.Name, e.Err) }

// Unwrap returns the error.
func (e *PackedError) Unwrap() error { return e.Err }

// Each calls do with the text of each run, lent, and ends with its first error. All of the
// file is verified: after nil it is as it was written.
func (p *Packed) Each(do func(text []byte) error) error {
	var head [len(gzipHead)]byte
	if _, err := p.file.ReadAt(head[:], 0); err != nil {
		return p.damaged(err)
	}
	crc := uint32(0)
	for i := range p.Starts() {
		n := int(p.texts[i+1] - p.texts[i])
		if err := p.begin(i); err != nil {
			return err
		}
		if err := p.unpack(i, n); err != nil {
			return err
		}
		p.now = -1
		var more [1]byte
		if k, err := p.z.Read(more[:]); k != 0 || err != io.EOF || p.src.Len() > 0 {
			return &PackedError{p.Name(), errors.New("a run is longer than in the table")}
		}
		crc = crc32.Update(crc, crc32.IEEETable, p.text[:n])
		if err := do(p.text[:n]); err != nil {
			return err
		}
	}
	if string(head[:]) != gzipHead || crc != p.Check.crc {
		return &PackedError{p.Name(), errors.New("another CRC-32")}
	}
	return nil
}
