package publisher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"cutie/publisher/names"
	"cutie/publisher/scrub"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// Scrub reads published files again at the pace of the options, and notes damaged ones
// for the next Tick to heal. Call it about once a second; without a pace it does
// nothing.
func (p *Publisher) Scrub(ctx context.Context) error {
	if p.closed.Load() {
		return nil
	}
	p.scrubber.Step(func() bool { return ctx.Err() != nil || p.closed.Load() })
	return nil
}

// Care is what was found by reading published files, since the start.
type Care struct {
	scrub.Stats
	Healed int64 // files made again
	Lost   int64 // files set aside for good
}

// Care returns the figures of the background reader and of healing.
func (p *Publisher) Care() Care {
	return Care{p.scrubber.Stats(), p.healed.Load(), p.given.Load()}
}

func (p *Publisher) newScrubber() *scrub.Reader {
	size := func() (n int64) {
		for _, s := range p.sets() {
			s.mu.Lock()
			n += s.Octets() + s.at.Length
			s.mu.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range p.rest {
			for i := range r.lines {
				n += r.lines[i].Files.Octets + r.lines[i].Open.Length
			}
		}
		return n
	}
	return scrub.NewReader(p.Pace, size, p.scrubAll, p.Now)
}

// perSet is how many bytes the small files of a set count for, and opening it.
const perSet = 64 << 10

// scrubAll reads the files of all sets.
func (p *Publisher) scrubAll(yield func(int64) bool) {
	n, err := p.cursor.Verify()
	if err = errors.Join(err, p.store.VerifySettings()); err != nil {
		p.Reportf("", "%v", err)
	}
	if !yield(n) {
		return
	}
	for i, q := range p.svc.queues() {
		if i%trimEach == trimEach-1 {
			p.tryTrim()
		}
		if !p.scrubQueue(q, yield) {
			return
		}
	}
}

// scrubQueue reads the files of a queue, and reports whether to go on.
func (p *Publisher) scrubQueue(q Queue, yield func(int64) bool) bool {
	f, err := p.use(q)
	if err != nil {
		return true // a Tick says why
	}
	defer f.release()
	for _, s := range f.sets {
		if !s.scrub(yield) || !yield(perSet) {
			return false
		}
	}
	return true
}

// scrub reads the files of the set, and reports whether to go on.
func (s *set) scrub(yield func(int64) bool) bool {
	s.mu.Lock()
	if s.at.Entries == 0 && len(s.Lists.All)+len(s.Dumps) == 0 {
		s.mu.Unlock()
		return true
	}
	err := s.scrubLines()
	lists := s.Lists.All
	var pieces []store.Piece
	for p := range s.Pieces {
		pieces = append(pieces, p)
	}
	s.mu.Unlock()
	if err != nil {
		s.p.Reportf(s.path, "not verified: %v", err)
	}
	sums := make(map[queuefs.Seq][sha256.Size]byte)
	for _, p := range pieces {
		more, err := s.scrubPiece(p, sums, yield)
		if err != nil {
			s.report(p.Name, "not verified: %v", err)
		}
		if !more {
			return false
		}
	}
	for i := range lists {
		if lists[i].Lost() {
			continue
		}
		if file, err := s.openGzip(lists[i]); err == nil {
			file.Close()
		} else if store.Unusable(err) && !store.Absent(err) {
			s.mu.Lock()
			s.note(names.GzipFile(lists[i].First), err)
			s.mu.Unlock()
		}
		if !yield(lists[i].Length / 8) {
			return false
		}
	}
	s.know(sums)
	return s.scrubOpen(yield)
}

// scrubLines verifies the files of lines and of Resource Dumps, and writes damaged ones
// anew. mu is held.
func (s *set) scrubLines() error {
	d, err := s.dir()
	if err != nil {
		return s.mend(err)
	}
	defer d.Close()
	if err := s.survey(d); err != nil {
		return err
	}
	for name, of := range map[string]*store.Spans{"lists": &s.Lists, "packages": &s.Packages} {
		whole, err := of.Whole(d)
		if err != nil {
			return err
		}
		if whole {
			continue
		}
		former := of.Old()
		if err := s.final(of.Renew(s.p.store, d)); err != nil {
			return err
		}
		if !former {
			s.report(name, "was damaged; written again")
			s.p.healed.Add(1)
		}
	}
	for _, one := range s.Dumps {
		whole, err := s.Renew(d, one)
		if err != nil {
			return err
		}
		if !whole {
			s.report(names.DumpFile(one.Seq), "was damaged; written again")
			s.p.healed.Add(1)
		}
	}
	return nil
}

// scrubPiece reads a file of a closed list or a package. The digest of a list closed by a
// former version goes into sums.
func (s *set) scrubPiece(p store.Piece, sums map[queuefs.Seq][sha256.Size]byte, yield func(int64) bool) (more bool, err error) {
	file, err := s.openFile(p.Name)
	var got [sha256.Size]byte
	if more = true; err == nil {
		defer file.Close()
		if err = store.HasLength(file, p.Length); err == nil {
			got, more, err = store.SlowSum(file, p.Length, yield)
		}
	}
	switch {
	case err == nil && !more:
	case err == nil && !p.Known:
		sums[p.First] = got
	case err == nil && got == p.Sum:
		s.p.store.Verified.Trust(file, got)
	case err == nil:
		err = store.Damaged("%s has not its SHA-256 digest", p.Name)
	}
	if err != nil && store.Unusable(err) {
		s.mu.Lock()
		s.note(p.Name, err)
		s.mu.Unlock()
		err = nil
	}
	return more, err
}

// know adds digests of lists closed by a former version. A compressed form that is whole
// has a check of its own, and is believed before the list.
func (s *set) know(sums map[queuefs.Seq][sha256.Size]byte) {
	if len(sums) == 0 {
		return
	}
	d, err := s.dir()
	if err != nil {
		return
	}
	defer d.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := range sums {
		sp, _ := s.Lists.Find(first)
		if sum, err := store.GzipSum(d, sp); err == nil {
			sums[first] = sum
		}
	}
	if err := s.final(s.Lists.Know(s.p.store, d, sums)); err != nil {
		s.report("lists", "%v", err)
	}
}

// scrubOpen reads the open list.
func (s *set) scrubOpen(yield func(int64) bool) bool {
	s.mu.Lock()
	at, want := s.at, s.text.Word()
	s.mu.Unlock()
	if at.Entries == 0 || want == store.Unknown {
		return true
	}
	file, err := s.openFile(names.EntriesFile(at.First))
	more := true
	if err == nil {
		defer file.Close()
		var got [sha256.Size]byte
		got, more, err = store.SlowSum(file, at.Length, yield)
		if err == nil && more && want != hex.EncodeToString(got[:]) {
			err = store.Damaged("%s has not its SHA-256 digest", file.Name())
		}
	}
	if err == nil || !more {
		return more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.First == at.First {
		if err = s.mend(lostList(err)); err != nil {
			s.p.Reportf(s.path, "not verified: %v", err)
		}
	}
	return true
}
