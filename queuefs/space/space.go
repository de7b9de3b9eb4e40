// Package space bounds how far the files of a home may be behind its journal, and
// keeps free space on the disk for them.
//
// Files follow the journal within about a second in calm. In a burst they wait, since
// both want the same disk, and a job that passes through costs no files for the states
// it has left. The lag has one bound, see [Space.Lagging]; at twice the bound
// submissions wait.
//
// A job takes more of the disk in files than in the journal, and the journal keeps all
// records without files. So a submission is refused unless there is free space for the
// files of the whole journal, and its own. Index and published documents have the
// reserve: a file given up when the disk is full all the same, and made again when there
// is space.
package space

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

const (
	// MaxJobs is how many jobs may have files behind the journal, and MaxAge how long.
	// Twice as many are read again within some seconds after a crash.
	MaxJobs = 1_000_000
	MaxAge  = 90 * time.Second

	jobBytes  = 8 << 10 // of the files of a job at most, beyond its bytes in the journal
	jobFiles  = 2
	moreFiles = 64        // for segments and published documents
	fewFiles  = 10_000    // jobs for whose files a submission waits before it is refused
	diskShare = 16        // the reserve takes no more than this part of the free space
	fewShare  = 256 << 10 // bytes of Limit for each job whose files are few yet
)

// A Space is that of one home. Its methods are safe for concurrent use.
type Space struct {
	Home   *durable.Dir
	Shared *ledger.Shared
	Limit  int64 // bytes of journal the files may be behind

	mark  atomic.Int64 // bytes of journal at the last checkpoint
	found atomic.Int64 // jobs behind when the home was opened, until the first checkpoint
	owed  atomic.Int64 // bytes of the reserve given up
	full  atomic.Bool  // files cannot be written, or the journal cannot grow
	until atomic.Int64 // µs: no files are written after it; 0: there is no end

	headroom headroom
	seen     seen // by the last call of Due
}

// Behind returns the bytes of journal since the last checkpoint.
func (s *Space) Behind() int64 { return s.Shared.Journal.Stats().Written - s.mark.Load() }

// Replayed counts bytes of journal from before the opening as behind.
func (s *Space) Replayed(bytes int) { s.mark.Add(-int64(bytes)) }

// Opened counts the jobs behind now as found: nobody is to wait at the start until the
// files of all were looked at.
func (s *Space) Opened() {
	s.found.Store(s.Shared.Behind.Load())
	s.seen.at = s.Shared.Now()
}

// Checkpointed says that the files have all of the journal up to a count of written
// bytes.
func (s *Space) Checkpointed(written int64) {
	s.mark.Store(written)
	s.found.Store(0)
}

// StopWithin sets an end to the writing of files. A later call may extend it.
func (s *Space) StopWithin(d time.Duration) {
	s.until.Store(max(s.until.Load(), s.Shared.Micro()+d.Microseconds()))
}

// InTime reports whether files are written: the end set by StopWithin has not come.
func (s *Space) InTime() bool {
	until := s.until.Load()
	return until == 0 || s.Shared.Micro() < until
}

// Full reports whether files could not be written for lack of space.
func (s *Space) Full() bool { return s.full.Load() }

// Tried notes the result of writing files: nil, or an error, which may mean a full disk.
func (s *Space) Tried(err error) {
	s.full.Store(errors.Is(ledger.StorageError(err), ledger.ErrNoSpace))
}

// NoGrowth notes that the journal found no storage.
func (s *Space) NoGrowth() { s.full.Store(true) }

// Lagging reports whether the files are behind by as much as they may be: Limit bytes
// of journal, MaxJobs jobs, or, on a nearly full disk, half of the free space, so that
// they need not all be written when it is full.
func (s *Space) Lagging() bool {
	return s.Behind() >= s.Limit || s.Shared.Behind.Load() >= MaxJobs || s.crowded()
}

// Overdue reports whether changes are to write files, as many as they cause: files lag
// behind, and are more than a checkpoint writes in a moment. A load whose jobs come and
// go has few files to be written, however large its journal.
func (s *Space) Overdue() bool {
	return s.Shared.Behind.Load() > s.Limit/fewShare && s.Lagging()
}

// TooFar reports whether the files are behind by twice the bound, without those that a
// crash left.
func (s *Space) TooFar() bool {
	return s.Shared.Behind.Load()-s.found.Load() >= 2*MaxJobs || s.Behind() >= 2*s.Limit
}

// needs returns the greatest need of the next checkpoint.
func (s *Space) needs() (bytes, files int64) {
	jobs := s.Shared.Behind.Load()
	return jobs*jobBytes + max(0, s.Behind()), jobs*jobFiles + moreFiles
}

// has reports whether the disk has so much more free space than the next checkpoint
// needs. Where this is unknown, writing shows.
func (s *Space) has(bytes, files int64) bool {
	b, n := s.needs()
	return s.headroom.has(s.Home, b+bytes, n+files)
}

// crowded reports whether the files to be written take half of the disk.
func (s *Space) crowded() bool {
	bytes, files := s.needs()
	return !s.headroom.has(s.Home, 2*bytes, 2*files-moreFiles)
}

// Has reports whether the disk has so many bytes beyond the needs of the queues, the
// next segment of the journal and the reserve.
func (s *Space) Has(bytes int64) bool { return s.Fits(0, bytes) }

// Fits is Has for a submission of n jobs with so many bytes.
func (s *Space) Fits(n int, bytes int64) bool {
	return s.has(bytes+int64(n)*jobBytes+s.Shared.Journal.Stats().Wants+s.owed.Load(), int64(n)*jobFiles)
}

// Hopeless reports whether a submission without space is refused at once: there are
// many files to be written before their true size is known, or they cannot be written.
func (s *Space) Hopeless() bool { return s.Shared.Behind.Load() > fewFiles || s.full.Load() }

// ForSegment reports whether the disk has space for a segment of the journal.
func (s *Space) ForSegment(bytes int64, use journal.Use) bool {
	if use == journal.Adds {
		return s.has(bytes+s.owed.Load(), 0)
	}
	return s.has(bytes, -moreFiles)
}

// GiveUp removes the reserve, and reports whether there was one. Submissions get nothing
// of its space.
func (s *Space) GiveUp() bool {
	st, err := s.Home.Stat(home.ReserveName)
	if err != nil || s.Home.Remove(home.ReserveName) != nil {
		return false
	}
	s.owed.Store(st.Size)
	return true
}

// Keep makes the reserve unless it is there or there is too little space. A disk that
// cannot reserve space goes without.
func (s *Space) Keep() {
	free, _, err := s.Home.Free()
	if err != nil || s.full.Load() {
		return
	}
	if _, err := s.Home.Stat(home.ReserveName); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	size := min(2*int64(s.Shared.MaxAppend), free/diskShare)
	if s.has(size+s.Shared.Journal.Stats().Wants, 0) && s.Home.Allocate(home.ReserveName, size) == nil {
		s.owed.Store(0)
	}
}
