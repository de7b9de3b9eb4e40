package segment

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"

	"cutie/queuefs/journal"
)

// A scan reads the segments when a log is opened.
type scan struct {
	Options
	log  *Log
	buf  []byte
	next uint64   // number of the next batch; 0: nothing says where the journal begins
	prev *segment // the one before
	mark bool     // a new segment is begun: something was read after damage
	torn *segment // whose last batch does not verify; nil if none
	at   int64    // offset of this batch
	over bool     // the last batch reaches to End

	first, reach journal.LSN // see Options
}

func (r *scan) run() error {
	l := r.log
	numbers, highest, err := l.files.list(!r.Look)
	if err != nil {
		return err
	}
	old, err := r.open(numbers)
	if err != nil {
		return err
	}
	r.next = uint64(r.From)
	for _, s := range l.live {
		if err := r.segment(s); err != nil {
			return err
		}
	}
	if r.Found != nil {
		if err := r.Found(r.first, r.reach); err != nil {
			return err
		}
	}
	if r.Look {
		return r.look()
	}
	if err := r.cutTail(); err != nil {
		return err
	}
	for _, s := range old {
		if err := l.files.dir.Remove(s.name); err != nil {
			return err
		}
	}
	return r.goOn(highest)
}

// open opens the segments, from the one with the record From on. It returns the
// earlier ones, closed.
func (r *scan) open(numbers []uint64) (old []*segment, err error) {
	l := r.log
	var broken []error
	for _, n := range numbers {
		s, err := openSegment(l.files.dir, n, r.Look)
		if err != nil && !errors.Is(err, errDamaged) {
			return nil, err
		}
		l.live, broken = append(l.live, s), append(broken, err)
	}
	k := len(l.live) - 1
	for k > 0 && l.live[k].firstOf() > r.From {
		k--
	}
	if k > 0 {
		old, l.live, broken = l.live[:k:k], l.live[k:], broken[k:]
	}
	for _, s := range old {
		s.close()
	}
	for i, s := range l.live {
		if broken[i] != nil || l.files.cut(s.size) {
			if err := r.mend(s, broken[i]); err != nil {
				return nil, err
			}
		}
	}
	return old, nil
}

// mend makes a segment whole again after damage to its header or the loss of its
// end. Its batches verify by themselves.
func (r *scan) mend(s *segment, damaged error) error {
	r.mark = true
	if damaged != nil {
		r.report(s.name, "the segment header does not verify; its batches were read all the same")
		if r.Look {
			return nil
		}
		if _, err := s.f.WriteAt(s.header(), 0); err != nil {
			return err
		}
	}
	if r.log.files.cut(s.size) {
		r.report(s.name, "the segment is shorter than it was made; the records after its end are lost")
		if r.Look {
			return nil
		}
		if err := s.f.Truncate(r.log.files.size); err != nil {
			return err
		}
		s.size = r.log.files.size
	}
	if r.Look {
		return nil
	}
	return s.f.Sync()
}

// segment reads one segment and leaves log.end after its last batch.
func (r *scan) segment(s *segment) error {
	l := r.log
	s.first = journal.LSN(r.next)
	var damaged *segment
	seen, skipped := false, false
	l.end = blockSize
	begin := int64(blockSize) // of the first batch with records
	file := ahead{f: s.f}
	for off := int64(blockSize); off+blockSize <= s.size; {
		b, err := s.batchAt(&file, off, r.buf)
		r.buf = b.data
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		if r.over = r.ends(s, b, off, err); r.over && err != nil {
			break
		}
		if err == nil && off == blockSize && r.prev == nil {
			r.first = journal.LSN(b.number)
		}
		earlier := err == nil && r.earlier(b)
		if err == nil && b.count() == 0 {
			s.proved = true
			r.reach = max(r.reach, journal.LSN(b.number))
			if r.next == 0 { // the records before it are gone, and no number comes again
				r.next = b.number
			}
			off += padded(len(b.data))
			if l.end = off; !seen {
				begin = off
			}
			continue
		}
		if err == nil && (earlier || b.after() > r.next) {
			err = s.table(b, off)
		} else {
			err = errDamaged // or of no use
		}
		if err != nil {
			skipped = true
			off += blockSize
			continue
		}
		if !earlier {
			// Numbers have no gaps: a batch is missing, here or at the end of the
			// segment before.
			gap := r.next != 0 && b.number > r.next
			if gap && off == begin && r.prev != nil {
				damaged = r.prev
			} else if gap || skipped && seen {
				damaged = s
			}
			r.next, seen = b.after(), true
		}
		s.proved = true
		r.reach = max(r.reach, journal.LSN(b.after()))
		skipped = false
		off += padded(len(b.data))
		l.end = off
	}
	if seen && r.Look {
		r.torn = nil
	} else if seen {
		if err := l.files.dir.Step("journal sync", func() error { return fdatasync(s.f) }); err != nil {
			return err
		}
		r.torn = nil
	}
	if s.tornAt(l.end, r.next) {
		r.torn, r.at = s, l.end
	}
	r.prev = s
	if damaged != nil {
		r.mark = true
		return r.setAside(damaged)
	}
	return nil
}

// ends reports whether the batch at an offset reaches to End, or nothing was begun there
// after one that does.
func (r *scan) ends(s *segment, b stored, off int64, err error) bool {
	switch {
	case r.End == 0:
		return false
	case err == nil:
		return b.after() == uint64(r.End)
	}
	return r.over && !s.tornAt(off, uint64(r.End))
}

// earlier reports whether all of a batch is before the record From.
func (r *scan) earlier(b stored) bool {
	return journal.LSN(b.after()) <= r.From
}

// look ends a scan that changes nothing.
func (r *scan) look() error {
	if r.torn != nil {
		r.report(r.torn.name, "the last batch does not verify; if the machine stopped while it was written, nobody was told that it was done")
	}
	l := r.log
	l.lsn = max(journal.LSN(r.next), r.From, 1)
	l.durable, l.err = l.lsn, journal.ErrClosed
	return nil
}

// cutTail cuts a batch a crash has torn: it is not found again without its
// beginning.
func (r *scan) cutTail() error {
	s := r.torn
	if s == nil {
		return nil
	}
	r.report(s.name, "the last batch does not verify and was cut; if the machine stopped while it was written, nobody was told that it was done")
	if err := s.writeAt(make([]byte, blockSize), r.at); err != nil {
		return err
	}
	return r.log.files.dir.Step("journal sync", func() error { return fdatasync(s.f) })
}

// goOn sets where the log goes on: in the last segment, or in a new one if the last
// may have batches after its end, or lacks records before From.
func (r *scan) goOn(highest uint64) error {
	l := r.log
	l.lsn = max(journal.LSN(r.next), r.From, 1)
	if k := len(l.live) - 1; k >= 0 {
		s := l.live[k]
		if !r.mark && !s.aside && l.files.whole(s.size) && s.number == highest && (len(s.records) == 0 || s.lsn(len(s.records)) == l.lsn) {
			if len(s.records) == 0 {
				s.first = l.lsn
			}
			l.durable = l.lsn
			if s.proved {
				return nil
			}
			l.end += blockSize
			return r.begin(s, l.end-blockSize)
		}
	}
	var s *segment
	var err error
	if highest == 0 {
		s, err = l.files.first(1)
	} else {
		s, err = l.files.make(highest+1, journal.Frees, 0)
	}
	if err != nil {
		return err
	}
	s.first, l.end, l.durable = l.lsn, 2*blockSize, l.lsn
	l.live = append(l.live, s)
	return r.begin(s, blockSize)
}

// begin writes a batch without records at an offset, so that a segment nobody has written
// to differs from one prepared for later.
func (r *scan) begin(s *segment, at int64) error {
	l := r.log
	b := &batch{log: l, seg: s, start: at, first: l.lsn, after: l.lsn, size: batchHeader, buf: make([]byte, blockSize)}
	s.proved = true
	return l.write(b)
}

// setAside gives a damaged segment a second name, for the operator, and reports it.
func (r *scan) setAside(s *segment) error {
	s.aside = true
	aside := s.name + ".damaged"
	if r.Look {
		if _, err := r.log.files.dir.Stat(aside); err == nil {
			return nil
		}
		r.report(s.name, "a batch does not verify and is lost; what follows it is kept")
		return nil
	}
	err := r.log.files.dir.Link(s.name, aside)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		r.report(s.name, "a batch does not verify and is lost; what follows it was kept; a copy is at "+aside)
	}
	return err
}

func (r *scan) report(name, text string) {
	if r.Report != nil {
		r.Report(name, text)
	}
}

// find returns the segment and the place of a durable record; l.mu is held.
func (l *Log) find(at journal.LSN) (*segment, extent, error) {
	i := l.segmentOf(at)
	switch {
	case i < 0:
		return nil, extent{}, journal.ErrReleased
	case at >= l.durable:
		return nil, extent{}, journal.ErrNoRecord
	}
	s := l.live[i]
	if k := s.search(at); k < len(s.records) && s.records[k].off != 0 && s.lsn(k) == at {
		return s, s.records[k], nil
	}
	return nil, extent{}, journal.ErrNoRecord
}

// segmentOf returns the last segment whose first record is at or an earlier one, -1
// if there is none; l.mu is held.
func (l *Log) segmentOf(at journal.LSN) int {
	i := len(l.live) - 1
	for i >= 0 && l.live[i].first > at {
		i--
	}
	return i
}

// ReadAt is [journal.Journal.ReadAt].
func (l *Log) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	l.mu.Lock()
	s, x, err := l.find(at)
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := min(len(p), max(int(x.size)-off, 0))
	if err := l.read(s, p[:n], int64(x.off)+int64(off)); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read fills p from a segment, unless it was released before or meanwhile.
func (l *Log) read(s *segment, p []byte, off int64) error {
	_, err := s.f.ReadAt(p, off)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.live, s) {
		return journal.ErrReleased
	}
	return err
}

// readBlock is how many bytes Read reads at a time.
const readBlock = 256 << 10

// Read is [journal.Journal.Read].
func (l *Log) Read(from journal.LSN) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		l.mu.Lock()
		if len(l.live) == 0 { // to look at, and nobody has made one
			l.mu.Unlock()
			return
		}
		if from == 0 {
			from = l.live[0].first
		}
		first, until := l.segmentOf(from), l.durable
		live := slices.Clone(l.live[max(first, 0):])
		tables := make([][]extent, len(live))
		for i, s := range live {
			tables[i] = s.records
		}
		l.mu.Unlock()
		if first < 0 {
			yield(journal.Record{}, journal.ErrReleased)
			return
		}
		buf := readMemory.Get().(*[]byte)
		defer readMemory.Put(buf)
		for i, s := range live {
			if !l.readSegment(s.view(tables[i]), s, from, until, buf, yield) {
				return
			}
		}
	}
}

// view returns the segment with the table it had at some instant.
func (s *segment) view(table []extent) *segment {
	return &segment{number: s.number, first: s.first, records: table}
}

// readMemory is of calls of Read: each needs a large one for a moment.
var readMemory = sync.Pool{New: func() any { return new([]byte) }}

// readSegment yields the records of one segment as its table v lists them. It
// returns false when there is nothing more to yield.
func (l *Log) readSegment(v, s *segment, from, until journal.LSN, mem *[]byte, yield func(journal.Record, error) bool) bool {
	for i := v.search(from); i < len(v.records) && v.lsn(i) < until; {
		if v.records[i].off == 0 {
			i++ // lost
			continue
		}
		begin, k := int64(v.records[i].off), i+1
		for k < len(v.records) && v.lsn(k) < until && v.records[k].off != 0 && v.records[k].end()-begin <= readBlock {
			k++
		}
		n := int(v.records[k-1].end() - begin)
		buf := slices.Grow((*mem)[:0], n)[:n]
		if cap(buf) <= 2*readBlock {
			*mem = buf
		}
		if err := l.read(s, buf, begin); err != nil {
			yield(journal.Record{}, err)
			return false
		}
		for ; i < k; i++ {
			x := v.records[i]
			if !yield(journal.Record{LSN: v.lsn(i), Data: buf[int64(x.off)-begin : x.end()-begin : x.end()-begin]}, nil) {
				return false
			}
		}
	}
	return true
}

// An ahead reads a file from front to back, readBlock bytes at a time: most of a
// segment may be empty blocks.
type ahead struct {
	f   *os.File
	off int64  // of buf
	buf []byte // part of the file
}

// ReadAt is [io.ReaderAt], for one caller at a time.
func (r *ahead) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > readBlock {
		return r.f.ReadAt(p, off)
	}
	if off < r.off || off+int64(len(p)) > r.off+int64(len(r.buf)) {
		r.buf = slices.Grow(r.buf[:0], readBlock)[:readBlock]
		n, err := r.f.ReadAt(r.buf, off)
		if r.off, r.buf = off, r.buf[:n]; err != nil && err != io.EOF {
			r.buf = r.buf[:0]
			return 0, err
		}
	}
	n := copy(p, r.buf[off-r.off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
