package queuefs

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
)

// writePacks writes the packs of the pages that have become full, as long as there is time.
// A pack that fails is not tried again.
func (q *Queue) writePacks(inTime func() bool) {
	for {
		var n int
		var ids []job.ID
		var bytes int
		q.ledger.Look(func(x *index.Index) { n, ids, bytes = q.content.Packs.Next(x) })
		if n < 0 || !inTime() {
			return
		}
		_ = q.content.Packs.Write(n, ids, bytes, q.copyOf)
	}
}

// copyOf reads a job from the journal; nil if its files are as good.
func (q *Queue) copyOf(id job.ID) (*packs.Copy, error) {
	v, ok := q.ledger.View(id)
	if !ok || v.Journaled.File == 0 || v.Journaled.Payload == 0 {
		return nil, nil
	}
	text, payload, err := q.ledger.Parts(&v, true)
	return &packs.Copy{Text: text, Payload: payload}, err
}

// dropPacks removes the packs of pages without pending jobs, or all packs.
func (q *Queue) dropPacks(all bool) {
	old := q.content.Packs.Made()
	if !all {
		pages := old
		old = nil
		q.ledger.Look(func(x *index.Index) {
			for _, n := range pages {
				if x.Page(n).Pending == 0 {
					old = append(old, n)
				}
			}
		})
	}
	q.content.Packs.Drop(old)
}

const (
	// maxBehindJobs is how many jobs may have files behind the journal, and maxBehindAge how long.
	// Twice as many are read again within some seconds after a crash.
	maxBehindJobs = 1_000_000
	maxBehindAge  = 90 * time.Second

	jobBytes  = 8 << 10 // of the files of a job at most, beyond its bytes in the journal
	jobFiles  = 2
	moreFiles = 64        // for segments and published documents
	fewFiles  = 10_000    // jobs for whose files a submission waits before it is refused
	diskShare = 16        // the reserve takes no more than this part of the free space
	fewShare  = 256 << 10 // bytes of Limit for each job whose files are few yet
)

// A diskSpace bounds how far the files of a home may be behind its journal, and
// keeps free space on the disk for them.
//
// Files follow the journal within about a second in calm. In a burst they wait, since
// both want the same disk, and a job that passes through costs no files for the states
// it has left. The lag has one bound, see [diskSpace.Lagging]; at twice the bound
// submissions wait.
//
// A job takes more of the disk in files than in the journal, and the journal keeps all
// records without files. So a submission is refused unless there is free space for the
// files of the whole journal, and its own. Index and published documents have the
// reserve: a file given up when the disk is full all the same, and made again when there
// is space.
//
// Its methods are safe for concurrent use.
type diskSpace struct {
	Home   *durable.Dir
	Shared *ledger.Shared
	Limit  int64 // bytes of journal the files may be behind

	mark  atomic.Int64 // bytes of journal at the last checkpoint
	found atomic.Int64 // jobs behind when the home was opened, until the first checkpoint
	owed  atomic.Int64 // bytes of the reserve given up
	full  atomic.Bool  // files cannot be written, or the journal cannot grow
	until atomic.Int64 // µs: no files are written after it; 0: there is no end

	headroom headroom
	seen     atomic.Pointer[seen] // by the last call of Due
}

// Behind returns the bytes of journal since the last checkpoint.
func (s *diskSpace) Behind() int64 { return s.behind(s.Shared.Journal.Stats()) }

// behind is Behind of a journal; each call of its Stats takes a lock of all who append.
func (s *diskSpace) behind(log journal.Stats) int64 { return log.Written - s.mark.Load() }

// Replayed counts bytes of journal from before the opening as behind.
func (s *diskSpace) Replayed(bytes int) { s.mark.Add(-int64(bytes)) }

// Opened counts the jobs behind now as found: nobody is to wait at the start until the
// files of all were looked at.
func (s *diskSpace) Opened() {
	s.found.Store(s.Shared.Behind.Load())
	s.seen.Store(&seen{at: s.Shared.Now()})
}

// Checkpointed says that the files have all of the journal up to a count of written
// bytes.
func (s *diskSpace) Checkpointed(written int64) {
	s.mark.Store(written)
	s.found.Store(0)
}

// StopWithin sets an end to the writing of files. A later call may extend it.
func (s *diskSpace) StopWithin(d time.Duration) {
	s.until.Store(max(s.until.Load(), s.Shared.Micro()+d.Microseconds()))
}

// InTime reports whether files are written: the end set by StopWithin has not come.
func (s *diskSpace) InTime() bool {
	until := s.until.Load()
	return until == 0 || s.Shared.Micro() < until
}

// Full reports whether files could not be written for lack of space.
func (s *diskSpace) Full() bool { return s.full.Load() }

// Tried notes the result of writing files: nil, or an error, which may mean a full disk.
func (s *diskSpace) Tried(err error) {
	s.full.Store(errors.Is(ledger.StorageError(err), ledger.ErrNoSpace))
}

// NoGrowth notes that the journal found no storage.
func (s *diskSpace) NoGrowth() { s.full.Store(true) }

// Lagging reports whether the files are behind by as much as they may be: Limit bytes
// of journal, maxBehindJobs jobs, or, on a nearly full disk, half of the free space, so that
// they need not all be written when it is full.
func (s *diskSpace) Lagging() bool {
	log := s.Shared.Journal.Stats()
	return s.behind(log) >= s.Limit || s.Shared.Behind.Load() >= maxBehindJobs || s.crowded(log)
}

// Overdue reports whether changes are to write files, as many as they cause: files lag
// behind, and are more than a checkpoint writes in a moment. A load whose jobs come and
// go has few files to be written, however large its journal.
func (s *diskSpace) Overdue() bool {
	return s.Shared.Behind.Load() > s.Limit/fewShare && s.Lagging()
}

// TooFar reports whether the files are behind by twice the bound, without those that a
// crash left.
func (s *diskSpace) TooFar() bool {
	return s.Shared.Behind.Load()-s.found.Load() >= 2*maxBehindJobs || s.Behind() >= 2*s.Limit
}

// needs returns the greatest need of the next checkpoint.
func (s *diskSpace) needs(log journal.Stats) (bytes, files int64) {
	jobs := s.Shared.Behind.Load()
	return jobs*jobBytes + max(0, s.behind(log)), jobs*jobFiles + moreFiles
}

// has reports whether the disk has so much more free space than the next checkpoint
// needs. Where this is unknown, writing shows.
func (s *diskSpace) has(log journal.Stats, bytes, files int64) bool {
	b, n := s.needs(log)
	return s.headroom.has(s.Home, b+bytes, n+files)
}

// crowded reports whether the files to be written take half of the disk.
func (s *diskSpace) crowded(log journal.Stats) bool {
	bytes, files := s.needs(log)
	return !s.headroom.has(s.Home, 2*bytes, 2*files-moreFiles)
}

// Has reports whether the disk has so many bytes beyond the needs of the queues, the
// next segment of the journal and the reserve.
func (s *diskSpace) Has(bytes int64) bool { return s.Fits(0, bytes) }

// Fits is Has for a submission of n jobs with so many bytes.
func (s *diskSpace) Fits(n int, bytes int64) bool {
	log := s.Shared.Journal.Stats()
	return s.has(log, bytes+int64(n)*jobBytes+log.Wants+s.owed.Load(), int64(n)*jobFiles)
}

// Hopeless reports whether a submission without space is refused at once: there are
// many files to be written before their true size is known, or they cannot be written.
func (s *diskSpace) Hopeless() bool { return s.Shared.Behind.Load() > fewFiles || s.full.Load() }

// ForSegment reports whether the disk has space for a segment of the journal.
func (s *diskSpace) ForSegment(bytes int64, use journal.Use) bool {
	log := s.Shared.Journal.Stats()
	if use == journal.Adds {
		return s.has(log, bytes+s.owed.Load(), 0)
	}
	return s.has(log, bytes, -moreFiles)
}

// GiveUp removes the reserve, and reports whether there was one. Submissions get nothing
// of its space.
func (s *diskSpace) GiveUp() bool {
	st, err := s.Home.Stat(home.ReserveName)
	if err != nil || s.Home.Remove(home.ReserveName) != nil {
		return false
	}
	s.owed.Store(st.Size)
	return true
}

// Keep makes the reserve unless it is there or there is too little space. A disk that
// cannot reserve space goes without.
func (s *diskSpace) Keep() {
	free, _, err := s.Home.Free()
	if err != nil || s.full.Load() {
		return
	}
	if _, err := s.Home.Stat(home.ReserveName); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	size, log := min(2*int64(s.Shared.MaxAppend), free/diskShare), s.Shared.Journal.Stats()
	if s.has(log, size+log.Wants, 0) && s.Home.Allocate(home.ReserveName, size) == nil {
		s.owed.Store(0)
	}
}

// In calm the files follow the journal within a second. In a burst they wait, up to
// the bound of [diskSpace.Lagging]. From there on files are written in the background, oldest
// first, and every change writes as many as it causes, unless they are few; at twice the
// bound submissions wait.
const (
	calmRate = 1 << 20          // bytes of journal a second, below which it is calm
	fewJobs  = 5000             // whose files a burst does not notice
	calmAge  = 30 * time.Second // between checkpoints in calm, or with few files to write,
	calmSize = 256 << 20        // or so many bytes of journal
)

// A seen is the journal at one instant.
type seen struct {
	at      time.Time
	written int64 // bytes
	calm    bool  // it was calm before
}

// Due reports whether a checkpoint is due, whether it is calm since the last call, and
// the bytes of journal written. last is the time of the last checkpoint. One caller at a
// time calls it.
func (s *diskSpace) Due(now, last time.Time) (due, calm bool, written int64) {
	log, was := s.Shared.Journal.Stats(), s.last()
	elapsed := now.Sub(was.at).Seconds()
	calm = elapsed <= 0 || float64(log.Written-was.written)/elapsed < calmRate
	s.seen.Store(&seen{now, log.Written, calm})
	age := now.Sub(last)
	light := calm || s.Shared.Behind.Load() <= fewJobs
	due = s.Lagging()
	if s.Behind() > 0 {
		short := log.Short && age >= time.Second // released segments are the next ones
		due = due || short || age < 0 || age >= maxBehindAge || light && (age >= calmAge || s.Behind() >= calmSize)
	}
	s.Keep()
	return due, calm, log.Written
}

// Calm reports whether it was calm at the last call of Due, and is since.
func (s *diskSpace) Calm() bool {
	was := s.last()
	return was.calm && s.Shared.Journal.Stats().Written-was.written <= calmRate/4
}

func (s *diskSpace) last() seen {
	if was := s.seen.Load(); was != nil {
		return *was
	}
	return seen{}
}

// A headroom asks for the free space of a disk, for each request twice. On a disk
// far from full an answer holds for a moment: nobody fills the rest meanwhile.
type headroom struct{ last atomic.Pointer[answer] }

// An answer is the free space of a disk at one instant.
type answer struct {
	bytes, files int64
	at           time.Time
}

const (
	farBytes = 4 << 30 // beyond what is asked for
	farFiles = 100_000
	moment   = 20 * time.Millisecond
)

// has reports whether the disk of d has so much free space, also if this is
// unknown.
func (h *headroom) has(d *durable.Dir, bytes, files int64) bool {
	if was := h.last.Load(); was != nil && was.bytes >= bytes+farBytes && was.files >= files+farFiles && time.Since(was.at) < moment {
		return true
	}
	now := answer{at: time.Now()}
	var err error
	if now.bytes, now.files, err = d.Free(); err != nil {
		return true
	}
	h.last.Store(&now)
	return now.bytes >= bytes && now.files >= files
}

// assist writes the files of n jobs if many are behind, so that a
// sustained load settles at what the file system carries.
func (q *Queue) assist(n int) {
	s := q.svc
	if !s.space.Overdue() || s.begin() != nil {
		return
	}
	defer s.end()
	for n > 0 {
		done, err := q.dir.WriteSome(n)
		if err != nil {
			s.space.Tried(err)
			return
		}
		if n -= done; done == 0 {
			return
		}
	}
}

// checkpointIfTooFar checkpoints if the files are still too far behind when the turn
// comes.
func (s *Service) checkpointIfTooFar() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if !s.space.TooFar() {
		return nil
	}
	return s.checkpointLocked(allFiles)
}
