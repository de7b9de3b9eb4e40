package queuefs

import (
	"errors"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/journal"
)

// A job takes more room in files than in the journal, and the journal keeps all
// that has no files yet. If it took jobs for whose files the disk has no room, it
// could never be let go: neither of those jobs nor of what would make room. So a
// submission is taken only where the files of all that is in the journal, and its
// own, have room on the disk; and some is left for what follows: the index, what
// is published, and the journal itself.

// A space is some of a disk: octets, and files, of which a disk may have few.
type space struct{ octets, files int64 }

func (a space) plus(b space) space { return space{a.octets + b.octets, a.files + b.files} }

// holds tells whether there is as much in a as in b.
func (a space) holds(b space) bool { return a.octets >= b.octets && a.files >= b.files }

// An account is a space that many add to and take from.
type account struct{ octets, files atomic.Int64 }

func (a *account) load() space { return space{a.octets.Load(), a.files.Load()} }

func (a *account) store(s space) {
	a.octets.Store(s.octets)
	a.files.Store(s.files)
}

func (a *account) add(s space) {
	a.octets.Add(s.octets)
	a.files.Add(s.files)
}

// room is what is known of the disk.
type room struct {
	free   account      // when somebody looked last
	index  account      // that a checkpoint takes, and gives back
	coming account      // for submissions on their way to the journal
	margin atomic.Int64 // octets that submissions leave beyond that
	bare   atomic.Int64 // jobs that have no files yet
	unsure atomic.Int64 // jobs that a crash left and that nobody has looked at
	found  atomic.Int64 // octets of the journal when the home was opened, until the first checkpoint
	vain   atomic.Bool  // the journal cannot be relieved until Maintain tries anew
}

// sure takes one job from those that are unsure; a checkpoint may have before.
func (r *room) sure() {
	for n := r.unsure.Load(); n > 0 && !r.unsure.CompareAndSwap(n, n-1); n = r.unsure.Load() {
	}
}

const (
	tellRoom  = 1 << 10 // octets that a follower writes of an event, about
	moreFiles = 64      // for segments, and of a follower

	fewFiles = 10_000 // jobs whose files a submission waits for, rather than be refused
	fitTries = 100    // that it makes while somebody else is writing files,
	fitPause = 10 * time.Millisecond
)

// farRoom is so much beyond what is needed that nobody looks, but Maintain.
var farRoom = space{1 << 30, 200_000}

// jobsRoom is what the files of n jobs take at the most beyond the octets that
// they have.
func jobsRoom(n int64) space { return space{n * 8 << 10, n * 2} }

// survey looks how much room there is, and how much is to be left.
func (s *Service) survey() {
	pages := space{int64(s.log.Stats().MaxAppend / 32), moreFiles}
	told := int64(0)
	for _, q := range s.Queues() {
		q.mu.RLock()
		_, full := q.idx.Held()
		n, jobs := int64(full), &q.idx.Counts
		pages = pages.plus(space{n * index.PageMemory, n + 1}) // a checkpoint stages copies
		told += jobs.Status[Pending] + jobs.Total()
		q.mu.RUnlock()
	}
	if s.follower == nil {
		told = 0
	}
	s.room.vain.Store(false)
	s.room.index.store(pages)
	s.room.margin.Store(told * tellRoom)
	s.look()
}

// look looks how much room there is. Where that cannot be known, writing shows.
func (s *Service) look() {
	octets, files, err := s.home.Free()
	if err != nil {
		octets, files = 1<<60, 1<<60
	}
	s.room.free.store(space{octets, files})
}

// needs returns what of the disk the next checkpoint will take at the most. What
// the journal has stands also for what a follower writes of it. Of jobs that a
// crash left nobody knows before it which files there are.
func (s *Service) needs() space {
	jobs := jobsRoom(max(0, s.room.bare.Load()) + max(0, s.room.unsure.Load()))
	return s.room.index.load().plus(jobs).plus(space{octets: max(0, s.behind()) + s.room.found.Load()})
}

// left returns what submissions leave to others.
func (s *Service) left() space {
	return s.needs().plus(s.room.coming.load()).plus(space{octets: s.room.margin.Load()})
}

// fits tells whether the disk has room for submissions that are on their way.
func (s *Service) fits() bool { return s.Spares(0) }

// Spares tells whether the disk has so many octets that neither the queues need nor
// are kept for what will be said of their jobs.
func (s *Service) Spares(octets int64) bool {
	need := s.left().plus(space{octets: octets})
	return s.far(need) || s.has(need.plus(space{octets: s.log.Stats().Wants}))
}

// canSpare tells whether the disk has room for a segment of the journal. One for
// what makes room may take what submissions leave, but never what a checkpoint
// needs: that lets go of other segments.
func (s *Service) canSpare(octets int64, use journal.Use) bool {
	need := s.needs()
	if use == journal.Adds {
		need = s.left()
	}
	need.octets += octets
	return s.far(need) || s.has(need)
}

// far tells whether the disk has that by far.
func (s *Service) far(need space) bool { return s.room.free.load().holds(need.plus(farRoom)) }

// has tells whether the disk has that.
func (s *Service) has(need space) bool {
	s.look()
	return s.room.free.load().holds(need)
}

// crowded tells whether what has no files yet would take half of the disk.
func (s *Service) crowded() bool {
	need := jobsRoom(s.room.bare.Load()).plus(space{octets: s.behind()})
	return !s.room.free.load().holds(need.plus(need))
}

// reserve reserves room for the files of n jobs, and so many octets that they
// have in the journal. If it is not there, also when few files are left to be
// written and have been, the error is [ErrNoSpace]. What it returns is to be given
// back when the journal has the jobs, or will not have them.
func (s *Service) reserve(n int, octets int64) (reserved space, err error) {
	reserved = jobsRoom(int64(n)).plus(space{octets: octets})
	s.room.coming.add(reserved)
	if !s.fits() {
		err = s.makeFit()
	}
	if err != nil {
		s.unreserve(reserved)
		return space{}, err
	}
	return reserved, nil
}

func (s *Service) unreserve(was space) { s.room.coming.add(space{-was.octets, -was.files}) }

// spool makes a temporary file for what comes from outside. It takes nothing of the
// disk that is reserved for others.
func (s *Service) spool() (*durable.Spool, error) {
	f, err := s.temp.Spool()
	if err != nil {
		return nil, err
	}
	f.Reserve = func(octets int64) (taken func(), err error) {
		reserved, err := s.reserve(0, octets)
		if err != nil {
			return nil, err
		}
		return func() { s.unreserve(reserved) }, nil
	}
	return f, nil
}

// relieve checkpoints if the journal cannot grow before old segments are let go:
// at a quarter of what is left in this one, and so on. Whoever is about to change
// something waits for that. The caller has no locks.
func (s *Service) relieve() {
	pressed := func() bool {
		log := s.log.Stats()
		return log.Short && !s.room.vain.Load() && s.behind() >= log.Left/4
	}
	if !pressed() || s.begin() != nil {
		return
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if pressed() && s.checkpointLocked(false) != nil {
		s.room.vain.Store(true)
	}
}

// makeFit brings the files up to the journal if they are few: then it is known what
// they take, and old segments are free.
func (s *Service) makeFit() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	// Of many files Maintain writes on, and whoever comes later finds room.
	for tries := 0; s.dirty.Load() > fewFiles || !s.upkeep.TryLock(); tries++ {
		if s.dirty.Load() > fewFiles || tries == fitTries {
			return ErrNoSpace
		}
		time.Sleep(fitPause)
	}
	defer s.upkeep.Unlock()
	if s.fits() {
		return nil
	}
	if s.full.Load() {
		return ErrNoSpace
	}
	if err := s.shed(); err != nil {
		return storageError(err)
	}
	if err := s.checkpointLocked(false); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	s.survey()
	if s.fits() {
		return nil
	}
	s.full.Store(true)
	return ErrNoSpace
}

// shed gives back what the disk has only to be quick: packs, and segments of the
// journal that would be used again.
func (s *Service) shed() error {
	for _, q := range s.Queues() {
		q.dropPacks(true)
	}
	return s.log.Trim()
}

// useOf returns what records are for: the largest claim of them all.
func useOf(recs []*record) journal.Use {
	use := journal.Frees
	for _, r := range recs {
		switch {
		case r.kind == Submit || r.flags&recResult != 0:
			return journal.Adds
		case r.kind != Cull:
			use = journal.Changes
		}
	}
	return use
}
