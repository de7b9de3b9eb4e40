// Package segment keeps a [journal.Journal] in the files of a local directory.
//
// A journal is a row of segments, files of one size; the first is smaller. They are
// filled with zeros before use, so a commit is one write and one fdatasync. Concurrent
// callers share these: the first one commits the batch, the others add to the next.
// Released segments are used again.
//
//	file                      content                  after a crash
//	------------------------  -----------------------  -----------------------------------
//	N.log                     batches                  read; a torn last batch is cut
//	N.log, all zero           none yet                 the journal goes on there
//	cutie-tmp-spare-N.log     a segment let go of      kept, to be used again
//	cutie-tmp-T               a segment being made     removed
//	N.log.damaged             a second name of N.log   left to the operator
//
// Damage before the last batch is reported. Batches after it are read, and the
// journal goes on in a new segment.
package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// A segment is one file: a header block, then batches, each beginning at a
// multiple of blockSize.
//
//	header  "CUTIEJNL" | version u32 | crc u32 | number u64 | salt u64, twice in a block
//	batch   magic u32 | crc u32 | length u32 | records u32 | LSN of the first u64 | records…, padded with zeros
//	record  length u32 | bytes
//
// Numbers are little endian. The checksum of a batch covers the bytes after it and
// is seeded with number and salt of the segment: batches of a former use of the
// file never verify, and no payload can pass for a batch, because the salt is random
// and new at each use.
type segment struct {
	number  uint64
	salt    uint64
	name    string
	f       *os.File
	direct  *os.File // the same file around the page cache, or nil
	size    int64
	aside   bool        // the file has a second name and must not be used again
	proved  bool        // has a durable batch: a journal that begins here is no lost one
	first   journal.LSN // of the first record, or of the next one if there is none
	records []extent    // by number from first on
}

// An extent is the place of a record in its segment. The zero extent is a lost
// record.
type extent struct{ off, size uint32 }

func (x extent) end() int64 { return int64(x.off) + int64(x.size) }

const (
	blockSize   = 4096
	segMagic    = "CUTIEJNL"
	segVersion  = 1
	batchMagic  = 0x31425143 // "CQB1"
	batchHeader = 24
	recHeader   = 4
)

// MaxSize is the largest size of a segment, in bytes.
const MaxSize = 1 << 26

// leastSize is the smallest size of a segment, in bytes.
const leastSize = 16 * blockSize

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

// newSalt returns a number nobody can guess.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// createSegment makes a segment from a spare file, or a new one filled with zeros:
// fdatasync then never has a size or an extent to write.
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

// openSegment opens an existing segment. The error wraps errDamaged if the header
// does not verify; the segment is then returned, too. look says that it is for reading.
func openSegment(d *durable.Dir, number uint64, look bool) (*segment, error) {
	name, flags := segmentName(number), os.O_RDWR
	if look {
		flags = os.O_RDONLY
	}
	f, err := os.OpenFile(d.Path()+"/"+name, flags, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{number: number, name: name, f: f, size: st.Size, aside: st.Nlink > 1}
	if !look {
		s.openDirect(d)
	}
	head := make([]byte, blockSize)
	_, err = f.ReadAt(head, 0)
	for _, h := range [][]byte{head, head[headerCopy:]} {
		s.salt = binary.LittleEndian.Uint64(h[24:])
		if string(h[:32]) == string(s.header()[:32]) {
			break
		}
	}
	if v := otherVersion(head, number); err == nil && v != 0 {
		s.close()
		return nil, fmt.Errorf("%s: %w: it has format %d, and this program reads format %d; use the program that wrote it", name, ErrVersion, v, segVersion)
	}
	if err != nil || string(head) != string(s.header()) {
		return s, fmt.Errorf("%s: %w: segment header", name, errDamaged)
	}
	return s, nil
}

func (s *segment) header() []byte {
	return segmentHeader(s.number, s.salt)
}

// otherVersion returns the version of a header that is whole, but not of this program; 0 for
// any other one. The checksum leaves the version out, so both copies must have the same.
func otherVersion(head []byte, number uint64) (version uint32) {
	le := binary.LittleEndian
	for _, h := range [][]byte{head, head[headerCopy:]} {
		v := le.Uint32(h[8:])
		if string(h[:8]) != segMagic || le.Uint64(h[16:]) != number || le.Uint32(h[12:]) != seeded(number, le.Uint64(h[24:]), nil) ||
			v == segVersion || version != 0 && v != version {
			return 0
		}
		version = v
	}
	return version
}

func (s *segment) close() error {
	if s.direct != nil {
		s.direct.Close()
	}
	return s.f.Close()
}

// lsn returns the number of record i of the table.
func (s *segment) lsn(i int) journal.LSN {
	return s.first + journal.LSN(i)
}

// search returns the first record of the table with the number at or a later one.
func (s *segment) search(at journal.LSN) int {
	return int(min(max(at, s.first)-s.first, journal.LSN(len(s.records))))
}

// ErrVersion is the error for a journal that another version of the program wrote.
var ErrVersion = errors.New("the journal is of another version")

var errDamaged = errors.New("damaged")

// A batch as it stands in a segment.
type stored struct {
	number uint64 // LSN of the first record
	data   []byte
}

// batchAt reads the batch at an offset from r, the file, into buf. The error wraps
// errDamaged if no batch verifies there.
func (s *segment) batchAt(r io.ReaderAt, off int64, buf []byte) (b stored, err error) {
	b.data = buf
	if off+blockSize > s.size {
		return b, errDamaged
	}
	var head [batchHeader]byte
	if _, err := r.ReadAt(head[:], off); err != nil {
		return b, err
	}
	le := binary.LittleEndian
	length := int64(le.Uint32(head[8:]))
	if le.Uint32(head[0:]) != batchMagic || length < batchHeader || off+length > s.size {
		return b, errDamaged
	}
	if int64(cap(buf)) < length {
		b.data = make([]byte, length)
	}
	b.data = b.data[:length]
	if _, err := r.ReadAt(b.data, off); err != nil {
		return b, err
	}
	if le.Uint32(b.data[4:]) != seeded(s.number, s.salt, b.data[8:]) {
		return b, errDamaged
	}
	b.number = le.Uint64(b.data[16:])
	return b, nil
}

// tornAt reports whether a batch with records, of this number, was begun at an offset.
// Batches of a former use of the file have lower numbers; but one without records has the
// number of the record to come.
func (s *segment) tornAt(off int64, number uint64) bool {
	var head [batchHeader]byte
	if _, err := s.f.ReadAt(head[:], off); err != nil {
		return false
	}
	le := binary.LittleEndian
	return le.Uint32(head[0:]) == batchMagic && le.Uint64(head[16:]) == number && le.Uint32(head[12:]) > 0
}

// table adds the records of a batch at an offset to the table of the segment.
func (s *segment) table(b stored, off int64) error {
	first := journal.LSN(b.number)
	if len(s.records) == 0 {
		s.first = first
	}
	lost := int64(first - s.first - journal.LSN(len(s.records)))
	if lost < 0 || lost > s.size {
		return errDamaged
	}
	found := append(s.records, make([]extent, lost)...)
	p := batchHeader
	for range b.count() {
		if p+recHeader > len(b.data) {
			return errDamaged
		}
		size := int(binary.LittleEndian.Uint32(b.data[p:]))
		if p += recHeader; size > len(b.data)-p {
			return errDamaged
		}
		found = append(found, extent{uint32(off) + uint32(p), uint32(size)})
		p += size
	}
	s.records = found
	return nil
}

// after returns the number of the batch after b.
func (b stored) after() uint64 { return b.number + uint64(b.count()) }

// count returns how many records a batch says it has.
func (b stored) count() uint32 { return binary.LittleEndian.Uint32(b.data[12:]) }

// firstOf returns the LSN a segment begins with, as far as it says so itself.
func (s *segment) firstOf() journal.LSN {
	b, err := s.batchAt(s.f, blockSize, nil)
	if err != nil {
		return math.MaxUint64
	}
	return journal.LSN(b.number)
}

func (l *Log) prepareSoon() {
	if !l.files.mu.TryLock() {
		return
	}
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		defer l.files.mu.Unlock()
		l.prepareNext(journal.Adds, 0)
	}()
}

// prepareNext makes the segment after the current one, for n bytes of records at
// least. A prepared one of less gives way. l.files.mu is held.
func (l *Log) prepareNext(use journal.Use, n int) error {
	l.mu.Lock()
	if l.err != nil || l.next != nil && holds(l.next.size, n) {
		err := l.err
		l.mu.Unlock()
		return err
	}
	small := l.next
	l.next = nil
	number := l.cur().number + 1
	l.mu.Unlock()
	if small != nil {
		if err := errors.Join(small.close(), l.files.dir.Remove(small.name)); err != nil {
			return err
		}
	}
	seg, err := l.files.make(number, use, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.short.Store(err != nil)
	if err == nil {
		l.next = seg
	}
	return err
}

// Reserve is [journal.Journal.Reserve]. Of many callers one makes the next segment;
// once another has gone on to it the others find space there.
func (l *Log) Reserve(use journal.Use, records, size int) error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	n := size + recHeader*records
	if l.fits(use, n) {
		return nil
	}
	return l.prepareNext(use, n)
}

// fits reports whether the current segment takes n bytes of records for a use.
func (l *Log) fits(use journal.Use, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, size := l.end, l.cur().size
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		start = b.start + padded(len(b.buf))
	}
	return l.err == nil && start+padded(batchHeader+n)+leaves(use, size) <= size
}

// Release is [journal.Journal.Release]. It lets go of whole segments.
func (l *Log) Release(before journal.LSN) error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	l.mu.Lock()
	k := 0
	for k+1 < len(l.live) && l.live[k+1].first <= before {
		k++
	}
	// Without a durable batch a journal counts as lost.
	for k > 0 && !l.live[k].proved {
		k--
	}
	gone := l.live[:k:k]
	l.live = append([]*segment(nil), l.live[k:]...)
	l.mu.Unlock()
	for _, s := range gone {
		s.close()
	}
	return l.files.drop(gone)
}

// Trim is [journal.Journal.Trim]. One spare file stays if the next segment is not
// there yet.
func (l *Log) Trim() error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	l.mu.Lock()
	keep := 0
	if l.next == nil {
		keep = 1
	}
	l.mu.Unlock()
	return l.files.trim(keep)
}
