package queuefs

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// A job takes more of the disk in files than in the journal, and the journal
// keeps all records without files. So a submission is refused unless there is
// free space for the files of the whole journal, and its own. The followers of
// the journal, index and published documents, have the reserve: a file given up
// when the disk is full all the same, and made again when there is space.
const (
	jobOctets = 8 << 10 // of the files of a job at most, beyond its bytes in the journal
	jobFiles  = 2
	moreFiles = 64     // for segments and published documents
	fewFiles  = 10_000 // jobs for whose files a submission waits before it is refused
	diskShare = 16     // the reserve takes no more than this part of the free space
)

// needs returns the greatest need of the next checkpoint for free space.
func (s *Service) needs() (octets, files int64) {
	jobs := s.dirty.Load()
	return jobs*jobOctets + max(0, s.behind()), jobs*jobFiles + moreFiles
}

// has reports whether the disk has so much more free space than the next
// checkpoint needs. Where this is unknown, writing shows.
func (s *Service) has(octets, files int64) bool {
	o, n := s.needs()
	return s.headroom.has(s.home, o+octets, n+files)
}

// A headroom asks for the free space of a disk, for each request twice. On a disk
// far from full an answer holds for a moment: nobody fills the rest meanwhile.
type headroom struct{ last atomic.Pointer[space] }

// A space is the free space of a disk at one instant.
type space struct {
	octets, files int64
	at            time.Time
}

const (
	farOctets = 4 << 30 // beyond what is asked for
	farFiles  = 100_000
	moment    = 20 * time.Millisecond
)

// has reports whether the disk of d has so much free space, also if this is
// unknown.
func (h *headroom) has(d *durable.Dir, octets, files int64) bool {
	if was := h.last.Load(); was != nil && was.octets >= octets+farOctets && was.files >= files+farFiles && time.Since(was.at) < moment {
		return true
	}
	now := space{at: time.Now()}
	var err error
	if now.octets, now.files, err = d.Free(); err != nil {
		return true
	}
	h.last.Store(&now)
	return now.octets >= octets && now.files >= files
}

// Spares reports whether the disk has so many bytes beyond the needs of the
// queues.
func (s *Service) Spares(octets int64) bool { return s.free(octets, 0) }

func (s *Service) free(octets, files int64) bool {
	return s.has(octets+s.log.Stats().Wants+s.owed.Load(), files)
}

// canSpare reports whether the disk has space for a segment of the journal.
func (s *Service) canSpare(octets int64, use journal.Use) bool {
	if use == journal.Adds {
		return s.has(octets+s.owed.Load(), 0)
	}
	return s.has(octets, -moreFiles)
}

// crowded reports whether the files to be written take half of the disk.
func (s *Service) crowded() bool {
	octets, files := s.needs()
	return !s.has(octets, files-moreFiles)
}

// makeFit returns [ErrNoSpace] unless there is free space for the files of n
// jobs with so many bytes. If few files are to be written it writes them first:
// then their true size is known.
func (s *Service) makeFit(n int, octets int64) error {
	fits := func() bool { return s.free(octets+int64(n)*jobOctets, int64(n)*jobFiles) }
	if fits() {
		return nil
	}
	if s.dirty.Load() > fewFiles || s.full.Load() {
		return ErrNoSpace
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if fits() {
		return nil
	}
	if err := s.shed(); err != nil {
		return storageError(err)
	}
	if err := s.checkpointLocked(false); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	if fits() {
		return nil
	}
	s.full.Store(true)
	return ErrNoSpace
}

// spool makes a temporary file for a large payload, with the same check as it
// grows.
func (s *Service) spool() (*durable.Spool, error) {
	f, err := s.temp.Spool()
	if err != nil {
		return nil, err
	}
	f.Reserve = func(octets int64) error { return s.makeFit(0, octets) }
	return f, nil
}

// relieve makes space for the journal by a checkpoint, which releases old
// segments. It reports whether to try again.
func (s *Service) relieve() bool {
	if s.behind() <= 0 || !s.upkeep.TryLock() {
		return false
	}
	defer s.upkeep.Unlock()
	return s.checkpointLocked(false) == nil || s.giveUp()
}

// shed gives back space kept for speed only: packs, and segments of the journal
// to be used again.
func (s *Service) shed() error {
	for _, q := range s.Queues() {
		q.dropPacks(true)
	}
	return s.log.Trim()
}

// giveUp removes the reserve, and reports whether there was one. Submissions get
// nothing of its space.
func (s *Service) giveUp() bool {
	st, err := s.home.Stat(reserveName)
	if err != nil || s.home.Remove(reserveName) != nil {
		return false
	}
	s.owed.Store(st.Size)
	return true
}

// keepReserve makes the reserve unless it is there or there is too little space. A
// disk that cannot reserve space goes without.
func (s *Service) keepReserve() {
	free, _, err := s.home.Free()
	if err != nil || s.full.Load() {
		return
	}
	if _, err := s.home.Stat(reserveName); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	size := min(2*int64(s.most), free/diskShare)
	if s.has(size+s.log.Stats().Wants, 0) && s.home.Allocate(reserveName, size) == nil {
		s.owed.Store(0)
	}
}

// useOf returns the use of the records: the largest claim of them all.
func useOf(recs []*record.Record) journal.Use {
	use := journal.Frees
	for _, r := range recs {
		switch {
		case r.Kind == Submit || r.Flags&record.Result != 0:
			return journal.Adds
		case r.Kind != Cull:
			use = journal.Changes
		}
	}
	return use
}
