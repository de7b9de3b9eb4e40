package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
)

// A segment is one file of the log, of fixed size: a header block, then
// batches, each beginning at a multiple of blockSize.
//
//	header  "CUTIEJNL" | version u32 | crc u32 | number u64 | salt u64, twice in a block
//	batch   magic u32 | crc u32 | length u32 | records u32 | number u64 | records…, padded with zeros
//	record  length u32 | octets
//
// Numbers are little endian. The checksum of a batch covers what follows it
// and is seeded with number and salt of the segment. So what a recycled file
// still holds of its former life never verifies, and nobody can submit a
// payload that looks like a batch: the salt is random, and new at each use.
type segment struct {
	number uint64
	salt   uint64
	name   string
	f      *os.File
	direct *os.File // the same around the page cache; nil where that cannot be
	size   int64
	aside  bool // the file has a second name and must not be used again
}

const (
	blockSize   = 4096
	segMagic    = "CUTIEJNL"
	segVersion  = 1
	batchMagic  = 0x31425143 // "CQB1"
	batchHeader = 24
	recHeader   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seeded(number, salt uint64, p []byte) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], number)
	binary.LittleEndian.PutUint64(b[8:], salt)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, p)
}

func segmentName(number uint64) string { return fmt.Sprintf("%016x.log", number) }

func parseSegmentName(name string) (uint64, bool) {
	hex, ok := strings.CutSuffix(name, ".log")
	if !ok || len(hex) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil && segmentName(n) == name
}

// headerCopy is the offset of the second copy of a header.
const headerCopy = blockSize / 2

func segmentHeader(number, salt uint64) []byte {
	b := make([]byte, blockSize)
	for _, h := range [][]byte{b, b[headerCopy:]} {
		copy(h, segMagic)
		binary.LittleEndian.PutUint32(h[8:], segVersion)
		binary.LittleEndian.PutUint64(h[16:], number)
		binary.LittleEndian.PutUint64(h[24:], salt)
		binary.LittleEndian.PutUint32(h[12:], seeded(number, salt, nil))
	}
	return b
}

// newSalt returns a number that nobody can guess.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// createSegment makes the next segment from the spare file, or a new one
// filled with zeros: fdatasync then never has a size or an extent to write.
func createSegment(d *durable.Dir, number uint64, size int64, spare string) (*segment, error) {
	name, salt := segmentName(number), newSalt()
	tmp := spare
	var f *os.File
	var err error
	if spare != "" {
		f, err = os.OpenFile(d.Path()+"/"+spare, os.O_RDWR, 0)
	} else {
		f, tmp, err = d.Temp()
	}
	if err != nil {
		return nil, err
	}
	err = d.Step("prepare segment", func() error {
		if spare == "" {
			if err := zeroFill(d, tmp, f, size); err != nil {
				return err
			}
		}
		if _, err := f.WriteAt(segmentHeader(number, salt), 0); err != nil {
			return err
		}
		return f.Sync()
	})
	if err == nil {
		err = d.Rename(tmp, d, name)
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		f.Close()
		if spare == "" {
			d.Remove(tmp)
		}
		return nil, fmt.Errorf("prepare journal segment: %w", err)
	}
	s := &segment{number: number, salt: salt, name: name, f: f, size: size}
	s.openDirect(d)
	return s, nil
}

// openSegment opens an existing segment. A header that does not verify is an
// error that wraps errDamaged.
func openSegment(d *durable.Dir, number uint64) (*segment, error) {
	name := segmentName(number)
	f, err := os.OpenFile(d.Path()+"/"+name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{number: number, name: name, f: f, size: st.Size, aside: st.Nlink > 1}
	s.openDirect(d)
	head := make([]byte, blockSize)
	_, err = f.ReadAt(head, 0)
	for _, h := range [][]byte{head, head[headerCopy:]} {
		s.salt = binary.LittleEndian.Uint64(h[24:])
		if string(h[:32]) == string(segmentHeader(number, s.salt)[:32]) {
			break
		}
	}
	if err != nil || string(head) != string(segmentHeader(number, s.salt)) {
		return s, fmt.Errorf("%s: %w: segment header", name, errDamaged)
	}
	return s, nil
}

func (s *segment) close() error {
	if s.direct != nil {
		s.direct.Close()
	}
	return s.f.Close()
}

var errDamaged = errors.New("damaged")

// batchAt reads the batch at offset off into buf. Without a batch that
// verifies the error wraps errDamaged.
func (s *segment) batchAt(off int64, buf []byte) (number uint64, batch []byte, err error) {
	if off+blockSize > s.size {
		return 0, nil, errDamaged
	}
	var head [batchHeader]byte
	if _, err := s.f.ReadAt(head[:], off); err != nil {
		return 0, nil, err
	}
	le := binary.LittleEndian
	length := int64(le.Uint32(head[8:]))
	if le.Uint32(head[0:]) != batchMagic || length < batchHeader || off+length > s.size {
		return 0, nil, errDamaged
	}
	if int64(cap(buf)) < length {
		buf = make([]byte, length)
	}
	buf = buf[:length]
	if _, err := s.f.ReadAt(buf, off); err != nil {
		return 0, nil, err
	}
	if le.Uint32(buf[4:]) != seeded(s.number, s.salt, buf[8:]) {
		return 0, buf, errDamaged
	}
	return le.Uint64(buf[16:]), buf, nil
}

// tornAt tells whether the batch of this number was begun at offset off. What
// a recycled file still holds there has lower numbers.
func (s *segment) tornAt(off int64, number uint64) bool {
	var head [batchHeader]byte
	if _, err := s.f.ReadAt(head[:], off); err != nil {
		return false
	}
	le := binary.LittleEndian
	return le.Uint32(head[0:]) == batchMagic && le.Uint64(head[16:]) == number
}
