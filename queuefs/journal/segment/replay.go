package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/durable"
)

// Options are the settings of a [Log].
type Options struct {
	Segment int64                         // octets of a segment file; 0 means 64 MiB, the most
	Report  func(name, text string)       // told of damage that was found; may be nil
	Visit   func(rec []byte, at Position) // gets every record from the mark on; rec is only lent
	// Earlier lets Visit also get what is left of records before the mark, in
	// its segment. Nothing is said of what does not verify there.
	Earlier bool
	// Spare tells, once the log is open, whether the disk can spare so many octets
	// for a segment; nil: it can if it has them. Where it cannot, smaller segments
	// are made, down to 4 MiB.
	Spare func(octets int64, use Use) bool
}

// Open opens the journal in d and replays it from the mark. A tail that was
// torn by a crash is cut. Damage before the tail is reported, what verifies
// behind it is still replayed, and the damaged segment is kept beside the
// journal with the ending ".damaged". What was replayed is on stable storage
// when Open returns.
func Open(d *durable.Dir, from Mark, o Options) (*Log, error) {
	if o.Segment == 0 {
		o.Segment = MaxSegment
	}
	if o.Segment > MaxSegment || o.Segment < leastSegment || o.Segment%blockSize != 0 {
		return nil, fmt.Errorf("journal segment of %d octets: want a multiple of %d up to %d", o.Segment, blockSize, MaxSegment)
	}
	l := &Log{dir: d, segSize: o.Segment, live: map[uint64]*segment{}, number: max(from.Batch, 1)}
	r := &replay{log: l, opts: o}
	if err := r.run(from); err != nil {
		for _, s := range l.live {
			s.close()
		}
		return nil, err
	}
	l.spare = o.Spare
	return l, nil
}

// A replay reads the segments of a log that is being opened.
type replay struct {
	log    *Log
	opts   Options
	buf    []byte
	behind bool // something was applied behind damage: begin a new segment
	prev   *segment
	begun  bool     // a batch was seen
	torn   *segment // whose last batch does not verify; nil if none
	tornAt int64
}

func (r *replay) run(from Mark) error {
	l := r.log
	numbers, err := r.list()
	if err != nil {
		return err
	}
	highest := from.At.Segment()
	for _, n := range numbers {
		highest = max(highest, n)
		if n < from.At.Segment() {
			continue // let go already, the file stayed behind
		}
		s, err := openSegment(l.dir, n)
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		l.live[n] = s
		if err != nil || l.short(s.size) {
			if err := r.mend(s, err); err != nil {
				return err
			}
		}
		start := int64(blockSize)
		if n == from.At.Segment() {
			start = max(from.At.offset(), blockSize)
			if r.opts.Earlier {
				if err := r.earlier(s, start); err != nil {
					return err
				}
			}
		}
		if err := r.segment(s, start); err != nil {
			return err
		}
	}
	if s := r.torn; s != nil {
		r.report(s.name, "the last batch does not verify and was cut; if the machine stopped while it was written, nobody was told that it was done")
		// Without its beginning it is not found again.
		if err := s.writeAt(make([]byte, blockSize), r.tornAt); err != nil {
			return err
		}
		if err := l.dir.Step("journal sync", func() error { return fdatasync(s.f) }); err != nil {
			return err
		}
	}
	for _, n := range numbers {
		if n < from.At.Segment() {
			if err := l.dir.Remove(segmentName(n)); err != nil {
				return err
			}
		}
	}
	// Go on in the last segment, unless what stands behind its end might one
	// day be taken for ours.
	if s := l.live[highest]; s != nil && !r.behind && !s.aside && l.whole(s.size) && len(l.live) > 0 {
		l.cur = s
	} else {
		seg, err := l.begin(highest + 1)
		if err != nil {
			return err
		}
		l.cur, l.end = seg, blockSize
		l.live[seg.number] = seg
	}
	if l.end == 0 {
		l.end = blockSize
	}
	l.done = Mark{At: position(l.cur.number, l.end), Batch: l.number}
	return nil
}

// mend makes a segment whole again whose header does not verify, or that is
// shorter than it was made. Its batches say themselves that they are of it.
func (r *replay) mend(s *segment, damaged error) error {
	r.behind = true
	if damaged != nil {
		r.report(s.name, "the segment header does not verify; its batches were read all the same")
		if _, err := s.f.WriteAt(segmentHeader(s.number, s.salt), 0); err != nil {
			return err
		}
	}
	if r.log.short(s.size) {
		r.report(s.name, "the segment is shorter than it was made; what stood behind its end is lost")
		if err := s.f.Truncate(r.log.segSize); err != nil {
			return err
		}
		s.size = r.log.segSize
	}
	return s.f.Sync()
}

// whole tells whether segments are made with so many octets.
func (l *Log) whole(size int64) bool { return slices.Contains(l.sizes(Frees), size) }

// short tells whether a segment of so many octets had more when it was made.
func (l *Log) short(size int64) bool { return size < l.segSize && !l.whole(size) }

// begin makes the segment that a log goes on in, or its first.
func (l *Log) begin(number uint64) (*segment, error) {
	if spare := l.takeSpare(); spare != "" {
		return createSegment(l.dir, number, l.segSize, spare)
	}
	return l.newSegment(number, Frees, 0)
}

// list returns the numbers of the segments in order, keeps whole spares and
// removes unfinished files.
func (r *replay) list() ([]uint64, error) {
	d := r.log.dir
	var numbers []uint64
	var temps []string
	if err := d.Names(func(name string) {
		if n, ok := parseSegmentName(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasPrefix(name, durable.TempPrefix) {
			temps = append(temps, name)
		}
	}); err != nil {
		return nil, err
	}
	slices.Sort(temps)
	for _, name := range temps {
		st, err := d.Stat(name)
		if err == nil && strings.HasPrefix(name, durable.TempPrefix+"spare-") && st.Size == r.log.segSize && len(r.log.spares) < keepSpares {
			r.log.spares = append(r.log.spares, name)
		} else if err := d.Remove(name); err != nil {
			return nil, err
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// segment replays one segment from offset off and leaves log.end and
// log.number behind its last batch.
func (r *replay) segment(s *segment, off int64) error {
	l := r.log
	start := off
	l.end = off
	var damaged *segment
	seen := false
	for off+blockSize <= s.size {
		number, batch, err := s.batchAt(off, r.buf)
		if batch != nil {
			r.buf = batch
		}
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		if err == nil && number >= l.number {
			if !r.begun && l.number == 1 {
				l.number = number // without a mark nothing says where the journal begins
			}
			if !r.begun {
				l.first = Mark{At: position(s.number, off), Batch: number}
			}
			r.begun = true
			if number > l.number || off != l.end {
				// Batches are numbered without gaps: one is missing, here or
				// at the end of the segment before.
				damaged = s
				if off == start && r.prev != nil {
					damaged = r.prev
				}
			}
			if err := r.records(batch, position(s.number, off)); err != nil {
				return err
			}
			seen = true
			off += padded(len(batch))
			l.number, l.end = number+1, off
			continue
		}
		off += blockSize
	}
	if seen {
		if err := l.dir.Step("journal sync", func() error { return fdatasync(s.f) }); err != nil {
			return err
		}
	}
	if seen {
		r.torn = nil
	}
	if s.tornAt(l.end, l.number) {
		r.torn, r.tornAt = s, l.end
	}
	r.prev = s
	if damaged != nil {
		r.behind = true
		return r.setAside(damaged)
	}
	return nil
}

// earlier hands the batches before offset end to Visit.
func (r *replay) earlier(s *segment, end int64) error {
	for off := int64(blockSize); off < end; {
		_, batch, err := s.batchAt(off, r.buf)
		if batch != nil {
			r.buf = batch
		}
		switch {
		case err == nil:
			if err := r.records(batch, position(s.number, off)); err != nil {
				return err
			}
			off += padded(len(batch))
		case errors.Is(err, errDamaged):
			off += blockSize
		default:
			return err
		}
	}
	return nil
}

// records hands the records of a batch to Visit.
func (r *replay) records(batch []byte, at Position) error {
	n := int(binary.LittleEndian.Uint32(batch[12:]))
	p := batchHeader
	for ; n > 0; n-- {
		if p+recHeader > len(batch) {
			return fmt.Errorf("%s: batch at %d: %w", segmentName(at.Segment()), at.offset(), errDamaged)
		}
		size := int(binary.LittleEndian.Uint32(batch[p:]))
		p += recHeader
		if size > len(batch)-p {
			return fmt.Errorf("%s: batch at %d: %w", segmentName(at.Segment()), at.offset(), errDamaged)
		}
		if r.opts.Visit != nil {
			r.opts.Visit(batch[p:p+size], at.Add(p))
		}
		p += size
	}
	return nil
}

// setAside keeps a damaged segment under another name as long as somebody
// wants to look at it, and reports it.
func (r *replay) setAside(s *segment) error {
	d := r.log.dir
	s.aside = true
	aside := s.name + ".damaged"
	err := d.Link(s.name, aside)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		r.report(s.name, "a batch does not verify and is lost; what follows it was kept; a copy is at "+aside)
	}
	return nil
}

func (r *replay) report(name, text string) {
	if r.opts.Report != nil {
		r.opts.Report(name, text)
	}
}
