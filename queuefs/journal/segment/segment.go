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
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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

// fdatasync puts the contents of f on stable storage, without the times.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// zeroBuffer is how many bytes zeroFill writes at a time.
const zeroBuffer = 2 << 20

// zeroFill gives f, a file in d, size bytes of zeros on the disk, around the page
// cache if the file system allows it: nobody will read them. It does not begin
// without the free space: a partial file would take it from others.
func zeroFill(d *durable.Dir, name string, f *os.File, size int64) error {
	if free, _, err := d.Free(); err == nil && free < size {
		return unix.ENOSPC
	}
	zero := make([]byte, min(size, zeroBuffer))
	w := f
	if direct, err := os.OpenFile(d.Path()+"/"+name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		defer direct.Close()
		if _, err := direct.WriteAt(zero, 0); err == nil {
			w = direct
		}
	}
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := w.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) openDirect(d *durable.Dir) {
	if f, err := os.OpenFile(d.Path()+"/"+s.name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		s.direct = f
	}
}

// files makes the files of segments, uses them again, and removes them. Its mutex
// comes before the one of the log.
type files struct {
	dir  *durable.Dir
	size int64 // bytes of a segment where the disk is not short
	may  func(bytes int64, use journal.Use) bool

	mu     sync.Mutex // held while a file is made, renamed or removed
	spares []string   // files to be used again
	gone   []*segment // let go of, but still under their names

	spare atomic.Int32 // how many spares there are
	short atomic.Bool  // the last attempt to make a segment failed: the next is for Reserve
}

const sparePrefix = durable.TempPrefix + "spare-"

// keepSpares is how many released segments wait to be used again.
const keepSpares = 4

// The next segment is made when 1/prepareAfter of the current one is full. It may
// take as long as to fill half of one.
const prepareAfter = 8

// On a disk short of space smaller segments are made: of smallSize at least for
// records of [journal.Adds], because the largest description of a job must fit; of
// scantySize for others.
const (
	smallSize  = 4 << 20
	scantySize = 1 << 20
)

// diskParts is how many segments of a size must fit the free space if a smaller one
// is possible.
const diskParts = 8

// holds reports whether a segment of so many bytes has space for a batch with n
// bytes of records.
func holds(segment int64, n int) bool { return blockSize+padded(batchHeader+n) <= segment }

// sizes returns the sizes a segment may have for a use, the largest first.
func (f *files) sizes(use journal.Use) []int64 {
	least := int64(scantySize)
	if use == journal.Adds {
		least = smallSize
	}
	all := []int64{f.size}
	for size := f.size / 4; size >= least && size%blockSize == 0; size /= 4 {
		all = append(all, size)
	}
	return all
}

// leastNext returns the bytes of the disk for the next segment, at least.
func (f *files) leastNext() int64 {
	least := f.size
	for size := least / 4; size >= smallSize && size%blockSize == 0; size /= 4 {
		least = size
	}
	return least
}

// whole reports whether segments are made with so many bytes.
func (f *files) whole(size int64) bool { return slices.Contains(f.sizes(journal.Frees), size) }

// cut reports whether a segment of so many bytes had more when it was made.
func (f *files) cut(size int64) bool { return size < f.size && !f.whole(size) }

// first makes the first segment of a journal: of the second size there is. It is filled
// with zeros, and read to its end after a crash, and many homes have few jobs for a long
// time.
func (f *files) first(number uint64) (*segment, error) {
	sizes := f.sizes(journal.Frees)
	return f.create(number, journal.Frees, sizes[min(1, len(sizes)-1):])
}

// make makes a segment for n bytes of records at least, of a spare file if there is
// one, else of the largest size the disk can spare; f.mu is held.
func (f *files) make(number uint64, use journal.Use, n int) (*segment, error) {
	if k := len(f.spares); k > 0 {
		spare := f.spares[k-1]
		f.keep(f.spares[:k-1])
		return createSegment(f.dir, number, f.size, spare)
	}
	return f.create(number, use, slices.DeleteFunc(f.sizes(use), func(size int64) bool { return !holds(size, n) }))
}

// create makes a segment of the largest size the disk can spare.
func (f *files) create(number uint64, use journal.Use, sizes []int64) (*segment, error) {
	err := fmt.Errorf("prepare journal segment: %w", unix.ENOSPC)
	free, _, e := f.dir.Free()
	if e != nil {
		free = math.MaxInt64 // the attempt will show
	}
	for i, size := range sizes {
		if i < len(sizes)-1 && free/size < diskParts || f.may != nil && !f.may(size, use) {
			continue
		}
		seg, e := createSegment(f.dir, number, size, "")
		if !errors.Is(e, unix.ENOSPC) && !errors.Is(e, unix.EDQUOT) {
			return seg, e
		}
		err = e
	}
	return nil, err
}

// keep sets the spare files.
func (f *files) keep(names []string) {
	f.spares = names
	f.spare.Store(int32(len(names)))
}

// list returns the numbers of the segments in order and the highest number of any
// file. It keeps whole spares and, to tidy up, removes unfinished files.
func (f *files) list(tidy bool) (numbers []uint64, highest uint64, err error) {
	var temps []string
	if err := f.dir.Names(func(name string) {
		if n, ok := parseSegmentName(strings.TrimPrefix(name, sparePrefix)); ok {
			highest = max(highest, n)
		}
		if n, ok := parseSegmentName(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasPrefix(name, durable.TempPrefix) {
			temps = append(temps, name)
		}
	}); err != nil {
		return nil, 0, err
	}
	slices.Sort(temps)
	var spares []string
	for _, name := range temps {
		st, err := f.dir.Stat(name)
		if err == nil && strings.HasPrefix(name, sparePrefix) && st.Size == f.size && len(spares) < keepSpares {
			spares = append(spares, name)
		} else if !tidy {
			continue
		} else if err := f.dir.Remove(name); err != nil {
			return nil, 0, err
		}
	}
	f.keep(spares)
	slices.Sort(numbers)
	return numbers, highest, nil
}

// drop puts away released segments: some wait to be used again, the others are
// removed. They go oldest first: a crash or an error leaves no hole, and the next
// drop does the rest. f.mu is held.
func (f *files) drop(gone []*segment) error {
	f.gone = append(f.gone, gone...)
	slices.SortFunc(f.gone, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for len(f.gone) > 0 {
		s := f.gone[0]
		if len(f.spares) < keepSpares && s.size == f.size && !s.aside {
			spare := sparePrefix + s.name
			if err := f.dir.Rename(s.name, f.dir, spare); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			} else if err == nil {
				f.keep(append(f.spares, spare))
			}
		} else if err := f.dir.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.gone = f.gone[1:]
		f.short.Store(false) // there is space now
	}
	return nil
}

// trim removes the spare files but for so many; f.mu is held.
func (f *files) trim(keep int) error {
	keep = min(keep, len(f.spares))
	gone := slices.Clone(f.spares[keep:])
	f.keep(f.spares[:keep])
	var errs []error
	for _, name := range gone {
		errs = append(errs, f.dir.Remove(name))
	}
	return errors.Join(errs...)
}
