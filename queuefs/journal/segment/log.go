package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// A Log is a [journal.Journal] in a directory.
type Log struct {
	files files
	wg    sync.WaitGroup // goroutines that commit or make a segment

	mu      sync.Mutex
	live    []*segment // oldest first; the last one is written
	next    *segment   // prepared; nil if not
	end     int64      // where the newest batch begins, or the next one
	lsn     journal.LSN
	queue   []*batch // not yet written, in order; the last one gathers
	running bool     // somebody commits
	crowd   bool     // the last batch was of several callers: this one may be, too
	err     error    // final
	bufs    buffers
	durable journal.LSN // after the last record on stable storage

	written atomic.Int64 // see journal.Stats
	syncs   syncs
}

// syncs counts syncs. It has one writer, the caller with the batch.
type syncs struct {
	took  atomic.Int64                             // nanoseconds
	times [len(journal.SyncTimes) + 1]atomic.Int64 // by the first bound reached; above all of them the last
}

func (s *syncs) add(took time.Duration) {
	s.took.Add(int64(took))
	i, _ := slices.BinarySearch(journal.SyncTimes[:], took)
	s.times[i].Add(1)
}

func (s *syncs) read() journal.Syncs {
	all := journal.Syncs{Took: time.Duration(s.took.Load())}
	for i := range s.times {
		all.Count += s.times[i].Load()
		if i < len(all.Within) {
			all.Within[i] = all.Count
		}
	}
	return all
}

// largeBatch is the least size in bytes of a batch that waits for nobody: it keeps
// the disk busy.
const largeBatch = 256 << 10

// maxAppend returns how many bytes one Append may take.
func (l *Log) maxAppend() int { return int(l.files.size/2) - blockSize }

// Append is [journal.Journal.Append]. A use may have to leave the end of the last
// segment to others; it is asked to reserve early.
func (l *Log) Append(use journal.Use, records []journal.Contents) (journal.Ticket, error) {
	size := sizeOf(records)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return journal.Ticket{}, l.err
	}
	if size > l.maxAppend() {
		return journal.Ticket{}, fmt.Errorf("%w: %d bytes", journal.ErrTooLarge, size)
	}
	b, err := l.gathering(size+recHeader*len(records), use)
	if err != nil {
		return journal.Ticket{}, err
	}
	t := journal.Ticket{First: l.lsn, Batch: b}
	for _, r := range records {
		b.add(&l.bufs, r)
	}
	l.lsn += journal.LSN(len(records))
	b.after = l.lsn
	b.callers++
	return t, nil
}

func sizeOf(records []journal.Contents) (size int) {
	for _, r := range records {
		size += r.Size()
	}
	return size
}

// cur returns the segment in use; l.mu is held.
func (l *Log) cur() *segment { return l.live[len(l.live)-1] }

// gathering returns the batch for n more bytes; l.mu is held.
func (l *Log) gathering(n int, use journal.Use) (*batch, error) {
	seg, start := l.cur(), l.end
	size := seg.size
	if l.next == nil {
		size -= leaves(use, size)
	}
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		if len(b.buf)+n <= maxBatch && b.start+padded(len(b.buf)+n) <= size {
			return b, nil
		}
		start = b.start + padded(len(b.buf))
	}
	if start+padded(batchHeader+n) > size {
		if l.next == nil || !holds(l.next.size, n) {
			return nil, journal.ErrUnready
		}
		seg, start = l.next, blockSize
		seg.first = l.lsn
		l.live, l.next = append(l.live, seg), nil
	} else if l.next == nil && !l.files.short.Load() && start > seg.size/prepareAfter {
		l.prepareSoon()
	}
	b := &batch{log: l, seg: seg, start: start, first: l.lsn, buf: l.bufs.grow(nil, batchHeader), done: make(chan struct{})}
	l.end = start // the length is added when the batch is taken
	l.queue = append(l.queue, b)
	return b, nil
}

// Wait is [journal.Ticket.Wait]. The first caller to find nobody committing does it
// itself: a lone caller waits for no other goroutine.
func (b *batch) Wait() (journal.LSN, error) {
	l := b.log
	l.mu.Lock()
	if l.running || b.over() {
		l.mu.Unlock()
	} else {
		l.running = true
		if l.err == nil { // else nothing is written, and Close may be over
			l.wg.Add(1)
			defer l.wg.Done()
		}
		l.mu.Unlock()
		l.run(b)
	}
	<-b.done
	return b.after, b.err
}

// run commits batch after batch. Once mine is done and more has gathered, another
// goroutine goes on and the caller gets its answer.
func (l *Log) run(mine *batch) {
	for {
		b, failed := l.take()
		if b == nil {
			return
		}
		if failed == nil {
			failed = l.write(b)
		}
		more := l.committed(b, failed)
		close(b.done)
		if !more {
			return
		}
		if mine != nil && mine.over() {
			l.wg.Add(1)
			go func() { defer l.wg.Done(); l.run(nil) }()
			return
		}
	}
}

// take returns the next batch, complete, or nil if there is none. The error is the
// one the log failed with before.
func (l *Log) take() (*batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.crowd && len(l.queue) == 1 && len(l.queue[0].buf) < largeBatch {
		// Callers about to append do so now, and are spared a sync of their own.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	if len(l.queue) == 0 {
		l.running = false
		return nil, nil
	}
	b := l.queue[0]
	l.queue = append(l.queue[:0], l.queue[1:]...)
	b.size = len(b.buf)
	b.buf = l.bufs.pad(b.buf)
	l.crowd = b.callers > 1
	if len(l.queue) == 0 {
		l.end = b.start + int64(len(b.buf))
	}
	return b, l.err
}

// committed notes the outcome of a batch and reports whether another one waits.
func (l *Log) committed(b *batch, failed error) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.err = failed; failed == nil {
		b.seg.proved = true
		l.durable = b.after
		l.written.Add(int64(len(b.buf)))
	} else if l.err == nil {
		l.err = failed
	}
	l.bufs.put(b.buf)
	b.buf = nil
	if more = len(l.queue) > 0; !more {
		l.running = false
	}
	return more
}

// write puts a batch on stable storage. This is the commit point of every
// operation.
func (l *Log) write(b *batch) error {
	le := binary.LittleEndian
	le.PutUint32(b.buf[0:], batchMagic)
	le.PutUint32(b.buf[8:], uint32(b.size))
	le.PutUint32(b.buf[12:], uint32(b.after-b.first))
	le.PutUint64(b.buf[16:], uint64(b.first))
	le.PutUint32(b.buf[4:], seeded(b.seg.number, b.seg.salt, b.buf[8:b.size]))
	err := l.files.dir.Step("journal write", func() error {
		return b.seg.writeAt(b.buf, b.start)
	})
	if err == nil {
		began := time.Now()
		err = l.files.dir.Step("journal sync", func() error { return fdatasync(b.seg.f) })
		l.syncs.add(time.Since(began))
	}
	if err == nil {
		err = linked(b.seg.f)
	}
	if err == nil && b.verify {
		err = b.readBack(l.files.dir.Step)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrFailed, err)
	}
	return nil
}

// Stats is [journal.Journal.Stats].
func (l *Log) Stats() journal.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.live) == 0 { // opened to look
		return journal.Stats{First: l.lsn, Next: l.durable, MaxAppend: l.maxAppend()}
	}
	cur := l.cur()
	s := journal.Stats{First: l.live[0].first, Next: l.durable, Written: l.written.Load(), MaxAppend: l.maxAppend(),
		Syncs: l.syncs.read(), Left: cur.size - l.end}
	for _, seg := range l.live {
		s.Held += seg.size
	}
	if l.next == nil {
		s.Short = l.files.short.Load()
		if l.files.spare.Load() == 0 {
			s.Wants = l.files.leastNext()
		}
	}
	return s
}

// Close is [journal.Journal.Close].
func (l *Log) Close() error {
	l.mu.Lock()
	l.err = cmp.Or(l.err, journal.ErrClosed)
	l.mu.Unlock()
	l.wg.Wait()
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.live)
	if l.next != nil {
		all = append(all, l.next)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.close())
	}
	l.bufs.close()
	return errors.Join(errs...)
}

var _ journal.Journal = (*Log)(nil)

// Options are the settings of a [Log].
type Options struct {
	// From is where the owner wants to read on: records before it may be gone, and
	// damage to them is not reported. 0: the oldest record there is.
	From journal.LSN

	// End is where the journal ended when it was closed in order: what lies behind is
	// not looked at, unless a batch was begun there. 0: all is read.
	End journal.LSN

	// Found is called when all was read, before anything is made: reach is after the last
	// record found, also of those before From, and 0 if not even the beginning of a
	// segment was; first is the number that the oldest segment begins with, and 0 if that is
	// not known. An error ends Open. nil: everything is accepted.
	Found func(first, reach journal.LSN) error

	// Look says that the files are for reading: nothing is mended, and nothing can be
	// appended.
	Look bool

	Size   int64                   // bytes of a segment file; 0 means MaxSize
	Report func(name, text string) // told of damage; may be nil

	// Spare reports whether the disk can spare so many bytes for a segment. If not,
	// smaller segments are made, down to 4 MiB. nil: whatever is free can be used.
	Spare func(bytes int64, use journal.Use) bool
}

// Open opens the journal in d, or begins one. A tail torn by a crash is cut. Other
// damage is reported, and a damaged segment gets a second name with the ending
// ".damaged". All records there are on stable storage when Open returns.
func Open(d *durable.Dir, o Options) (*Log, error) {
	o.Size = cmp.Or(o.Size, MaxSize)
	if o.Size > MaxSize || o.Size < leastSize || o.Size%blockSize != 0 {
		return nil, fmt.Errorf("journal segment of %d bytes: want a multiple of %d up to %d", o.Size, blockSize, MaxSize)
	}
	l := &Log{files: files{dir: d, size: o.Size}}
	s := &scan{log: l, Options: o}
	if err := s.run(); err != nil {
		for _, seg := range l.live {
			seg.close()
		}
		return nil, err
	}
	l.files.may = o.Spare
	return l, nil
}

// A batch is a group of records with one write and one sync.
type batch struct {
	log          *Log
	seg          *segment
	start        int64
	first, after journal.LSN // numbers of the first record and of the next batch
	buf          []byte
	size         int // of buf without the padding, once taken
	callers      int
	verify       bool // read it back after the sync
	done         chan struct{}
	err          error
}

// add adds a record to the batch and to the table of the segment.
func (b *batch) add(bufs *buffers, r journal.Contents) {
	at := len(b.buf)
	b.buf = bufs.grow(b.buf, recHeader+r.Size())
	binary.LittleEndian.PutUint32(b.buf[at:], uint32(r.Size()))
	at += recHeader
	b.verify = b.verify || r.Verify
	copy(b.buf[at:], r.Head)
	copy(b.buf[at+len(r.Head):], r.Body)
	b.seg.records = append(b.seg.records, extent{uint32(b.start) + uint32(at), uint32(r.Size())})
}

var errReadBack = errors.New("other bytes came back than were written")

var readBlocks = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// linked returns an error if a file has no name any more: what was written to it is gone
// once it is closed, whatever the sync said.
func linked(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Nlink == 0 {
		return fmt.Errorf("%s was removed by other programs, and perhaps all of the home", f.Name())
	}
	return nil
}

// readTries is how often a batch is read back if that fails: a failed reading says nothing
// of what was written.
const readTries = 3

// readBack compares the batch on storage, which is synced, with the one in memory.
func (b *batch) readBack(step func(string, func() error) error) (err error) {
	for range readTries {
		err = step("journal read back", b.compare)
		if err == nil || errors.Is(err, errReadBack) {
			break
		}
	}
	return err
}

func (b *batch) compare() error {
	durable.Uncache(b.seg.f, b.start, b.start+int64(b.size))
	block := readBlocks.Get().(*[64 << 10]byte)
	defer readBlocks.Put(block)
	for at := 0; at < b.size; at += len(block) {
		want := b.buf[at:min(at+len(block), b.size)]
		if _, err := b.seg.f.ReadAt(block[:len(want)], b.start+int64(at)); err != nil {
			return err
		}
		if !bytes.Equal(block[:len(want)], want) {
			return fmt.Errorf("%s: %w", b.seg.f.Name(), errReadBack)
		}
	}
	return nil
}

// over reports whether the batch is committed or lost.
func (b *batch) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// maxBatch is where a batch stops gathering; one single Append may be larger.
const maxBatch = 4 << 20

// directBatch is the least size in bytes of a batch written around the page cache:
// it is mostly payload, the files of the jobs will hold the same bytes, and the
// pages would cost more than the disk does.
const directBatch = 512 << 10

// largeBuffer is the size in bytes of their buffers.
const largeBuffer = 2 * maxBatch

// keptSmall and keptLarge are how many buffers wait for the next batches.
const (
	keptSmall = 3
	keptLarge = 2
)

// buffers are the memory of batches: Go's for small ones, huge pages for batches
// written around the page cache.
type buffers struct {
	small, large [][]byte         // free; the largest small one is last
	mapped       map[*byte][]byte // the mapping of each large buffer
	outgrew      bool             // the last batch was large, so the next begins in a large buffer
	closed       bool
}

// grow returns buf with n more bytes of any value.
func (b *buffers) grow(buf []byte, n int) []byte {
	if cap(buf)-len(buf) >= n {
		return buf[:len(buf)+n]
	}
	to := append(b.get(cap(buf), len(buf)+n), buf...)
	b.keep(buf)
	return to[:len(to)+n]
}

// get returns an empty buffer for n bytes, in place of one of size bytes.
func (b *buffers) get(size, n int) []byte {
	switch k := len(b.small); {
	case n > largeBuffer:
		return make([]byte, 0, padded(n))
	case n > directBatch, size == 0 && b.outgrew:
		b.outgrew = true
		return b.getLarge()
	case k > 0 && n <= cap(b.small[k-1]):
		buf := b.small[k-1]
		b.small = b.small[:k-1]
		return buf
	}
	return make([]byte, 0, max(min(2*size, directBatch), int(padded(n)), 1<<16))
}

func (b *buffers) getLarge() []byte {
	if k := len(b.large); k > 0 {
		buf := b.large[k-1]
		b.large = b.large[:k-1]
		return buf
	}
	mem, mapped, err := durable.MapHuge(largeBuffer)
	if err != nil {
		return make([]byte, 0, largeBuffer)
	}
	if b.mapped == nil {
		b.mapped = map[*byte][]byte{}
	}
	b.mapped[unsafe.SliceData(mem)] = mapped
	return mem[:0]
}

// put takes back the buffer of a batch.
func (b *buffers) put(buf []byte) {
	b.outgrew = len(buf) > directBatch
	b.keep(buf)
}

func (b *buffers) keep(buf []byte) {
	if cap(buf) == 0 {
		return
	}
	at := unsafe.SliceData(buf)
	switch mapped := b.mapped[at]; {
	case mapped == nil && cap(buf) <= directBatch:
		b.small = append(b.small, buf[:0])
		slices.SortFunc(b.small, func(x, y []byte) int { return cap(x) - cap(y) })
		b.small = b.small[max(0, len(b.small)-keptSmall):]
	case mapped != nil && len(b.large) < keptLarge && !b.closed:
		b.large = append(b.large, buf[:0])
	case mapped != nil:
		delete(b.mapped, at)
		unix.Munmap(mapped)
	}
}

// close gives back the free buffers; the others follow when they are put.
func (b *buffers) close() {
	b.closed = true
	for _, buf := range b.large {
		b.keep(buf)
	}
	b.large = nil
}

func padded(n int) int64 { return int64(n+blockSize-1) &^ (blockSize - 1) }

// pad fills buf with zeros up to a block.
func (b *buffers) pad(buf []byte) []byte {
	n := len(buf)
	buf = b.grow(buf, int(padded(n))-n)
	clear(buf[n:])
	return buf
}

// writeAt writes whole blocks.
func (s *segment) writeAt(p []byte, at int64) error {
	if s.direct != nil && len(p) >= directBatch {
		if n, err := s.direct.WriteAt(p, at); err == nil {
			return nil
		} else if n > 0 {
			return err
		}
	}
	_, err := s.f.WriteAt(p, at)
	return err
}

// leaves returns how many bytes at the end of a segment are not for a use unless
// another segment follows.
func leaves(use journal.Use, size int64) int64 {
	switch use {
	case journal.Adds:
		return size / 8
	case journal.Changes:
		return size / 16
	}
	return 0
}
