package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
)

// load brings what is known to the last acknowledged state: index, then journal.
// Where the index is missing or damaged the directories stand in for it.
func (s *Service) load() error {
	if err := s.tidy(); err != nil {
		return err
	}
	c, indexed := s.index.Checkpoint()
	var err error
	if k := s.madeOf(); k != nil {
		if k.Imaged && !indexed {
			return errImage
		}
		if err := s.makeKnown(k); err != nil {
			return err
		}
		if indexed = true; !k.Imaged {
			c = table.Checkpoint{}
		}
	}
	if s.known.mirrors, err = s.index.Table.Mirrors(); err != nil {
		return err
	}
	var known found
	if known.Known, err = home.Find(s.dirs.home, s.dirs.queues, s.report); err != nil {
		return err
	}
	if s.stored != nil {
		known.Unlisted = nil // the journal says if they are queues
	}
	if known.Torn >= 0 {
		s.properties.lines.Torn(known.Torn)
	}
	s.inOrder = c.Clean
	if c.Clean { // the files are exact
		known.Unlisted = slices.DeleteFunc(known.Unlisted, func(id string) bool { return !home.Used(s.dirs.queues, id) })
	}
	known.trust = c.Clean && !s.opts.ReadAll && !s.opts.Look
	was, err := s.openAll(&known, func(q *Queue, f *snapshot.File) (loaded, error) {
		q.presumeMirror(f)
		return q.load(f, c, indexed)
	})
	if err != nil {
		return err
	}
	if s.stored != nil && slices.ContainsFunc(slices.Collect(maps.Values(was)), func(l loaded) bool { return l.scanned }) {
		if s.madeOf() != nil {
			return errImage
		}
		return errStale // the journal knows more than directories that nobody synced
	}
	if err := s.reportMissing(); err != nil {
		return err
	}
	s.index.DropDamaged(func(id string) bool {
		_, lost := s.known.lost[id]
		return lost || slices.Contains(known.fresh, id) || s.open(id) != nil
	})
	s.doubt(known.fresh)
	lost, err := s.replay(c, indexed)
	if err != nil {
		return err
	}
	known.fresh = s.settleDoubt(known.fresh)
	s.weedOut(&known)
	if err := s.retireStrays(); err != nil && !s.opts.Look && !errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return err
	}
	for _, q := range s.Queues() {
		if err := q.replayedSettings(); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	if s.opts.Look {
		return s.looked(c, indexed, lost, &known, was)
	}
	if err := s.sweepTemps(); err != nil {
		return err
	}
	if err := s.fetchTemps(); err != nil {
		return err
	}
	if err := s.claim(); err != nil {
		return err
	}
	for _, q := range s.Queues() {
		if err := q.finish(was[q], c.Clean || c.Stopped, lost); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		q.ledger.Wake()
	}
	// After a crash before this, the next start takes in the rest of the
	// changes by hand.
	if c.Clean || c.Stopped || !indexed {
		if err := s.index.MarkOpen(c); err != nil {
			return err
		}
	}
	s.space.Opened()
	s.upkeep.last = s.opts.Now()
	s.shared.MaxAppend = s.shared.Journal.Stats().MaxAppend
	s.shared.Inline = min(content.Inline, s.shared.MaxAppend/4)
	s.space.Keep()
	return s.takeInKnown(&known, lost)
}

// reportMissing reports that the index is missing although the home was used. A copy that
// becomes a home has none.
func (s *Service) reportMissing() error {
	if !s.index.Missing() || s.opts.Rebuild || s.opts.Making || s.stored != nil {
		return nil
	}
	used := 0
	for _, q := range s.Queues() {
		published, err := home.Published(s.dirs.home, q.ID())
		if err != nil {
			return err
		}
		if n := q.ledger.Numbers(); published || n.Job > 0 || n.Seq > 0 {
			used++
		}
	}
	if used > 0 {
		s.index.KeepFloor()
		s.report(snapshot.TablePath, fmt.Sprintf("missing, and with it the index of %d queues; made again from "+
			"the directories, and numbers go on above all that is published. If the home was not closed, its last changes are lost", used))
	}
	return nil
}

// tidy removes what a crash has left unfinished.
func (s *Service) tidy() error {
	if s.opts.Look {
		return nil
	}
	return errors.Join(s.sweepRemoved(), s.dirs.home.Sweep(nil), s.index.Log.Sweep(nil))
}

// replay opens the journal and applies the records after the checkpoint, by the
// code of normal use. lost says that the journal does not reach the index, and that
// this is accepted.
func (s *Service) replay(c table.Checkpoint, indexed bool) (lost bool, err error) {
	found := func(first, reach journal.LSN) error {
		if indexed && c.Past != 0 && first > c.Past && !s.opts.Rebuild {
			if !s.opts.Look {
				return fmt.Errorf("%s: %w", snapshot.TablePath, errTableOld)
			}
			s.report(snapshot.TablePath, errTableOld.Error())
		}
		if lost = indexed && !c.Reached(reach); !lost {
			return nil
		}
		path := home.LogDir + "/" + home.JournalDir
		switch {
		case s.opts.AcceptLoss:
			s.report(path, lostJournal+"; the directories stand in for it")
		case s.opts.Look:
			s.report(path, lostJournal)
		default:
			return fmt.Errorf("%s: %w", path, ErrJournalLost)
		}
		return nil
	}
	err = s.replayFrom(c, found)
	return lost, err
}

// openJournal opens the journal in the directory, or takes that in the store, and
// returns from where to read it.
func (s *Service) openJournal(c table.Checkpoint, found func(first, reach journal.LSN) error) (log journal.Journal, from journal.LSN, err error) {
	path := home.LogDir + "/" + home.JournalDir
	if s.stored == nil {
		var end journal.LSN
		if c.Clean && !s.opts.ReadAll && !s.opts.Look {
			end = c.Past
		}
		log, err = segment.Open(s.dirs.journal, segment.Options{Found: found, Look: s.opts.Look, From: c.From(), End: end, Size: s.opts.Segment, Spare: s.space.ForSegment,
			Report: func(name, text string) { s.report(path+"/"+name, text) }})
		return log, 0, err
	}
	if s.stored.Log.Stats().Next < c.Past {
		return nil, 0, ErrJournalLost
	}
	return s.stored.Log, c.From(), nil
}

func (s *Service) replayFrom(c table.Checkpoint, found func(first, reach journal.LSN) error) error {
	log, from, err := s.openJournal(c, found)
	if err != nil {
		return err
	}
	s.shared.Journal = log
	missing := map[string]bool{} // queues of the journal that the directory lacks
	s.upkeep.past, s.upkeep.keep = c.Past, c.From()
	if st := log.Stats(); s.upkeep.keep == 0 && st.First < st.Next {
		s.upkeep.keep = st.First // a follower without a checkpoint wants everything
	}
	s.known.strays = map[string]index.Numbers{}
	var r record.Record
	for rec, err := range log.Read(from) {
		if err != nil {
			return err
		}
		change, is, err := record.ParseHomeChange(rec.Data)
		if err == nil && !is {
			err = r.Parse(rec.Data)
		}
		switch {
		case err != nil:
			return err
		case is:
			if err := s.compareHome(&change, rec.LSN, missing); err != nil {
				return err
			}
		default:
			if err := s.replayed(&r, rec.LSN, len(rec.Data)); err != nil {
				return err
			}
		}
	}
	if len(missing) > 0 {
		return errStale
	}
	return nil
}

// compareHome compares a change of a home in a store with the directory. A crash may
// have come between the two; then the directory is made again.
func (s *Service) compareHome(c *record.HomeChange, at journal.LSN, missing map[string]bool) error {
	q := s.open(c.Queue)
	switch {
	case c.Kind == record.QueueMade && q == nil:
		missing[c.Queue] = true
	case c.Kind == record.QueueGone && q == nil:
		delete(missing, c.Queue)
	case c.Kind == record.QueueGone && q.ledger.Since() <= at:
		return errStale
	}
	return nil
}

// makeKnown makes the queues of a home in a store, as they would be if the machine had
// stopped before any of their files was written.
func (s *Service) makeKnown(k *stored.Known) error {
	if len(k.Gone) > 0 { // their documents go
		if err := s.stored.Published(); err != nil {
			return err
		}
	}
	for id, last := range k.Gone {
		if err := s.unmake(id, last); err != nil {
			return fmt.Errorf("queue %s, which is gone: %w", id, err)
		}
	}
	var list home.List
	for _, of := range k.Queues {
		make := s.makeOne
		if of.Kept {
			make = s.makeKept
		}
		if err := make(of); err != nil {
			return fmt.Errorf("queue %s: %w", of.ID, err)
		}
		list = list.Add(of.ID)
	}
	if k.Imaged {
		return list.Write(s.dirs.home)
	}
	if len(k.Queues) > 0 {
		if err := list.Write(s.dirs.home); err != nil {
			return err
		}
	}
	if err := s.syncNew(); err != nil {
		return err
	}
	return s.index.SetCheckpoint(&table.Checkpoint{})
}

// unmake removes a queue of an image, except for its last numbers.
func (s *Service) unmake(id string, last index.Numbers) error {
	published, err := s.dirs.home.Sub(home.PublishedDir)
	if err == nil {
		err = published.RemoveTree(id)
		published.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.dirs.queues.RemoveTree(id), s.index.Forget(id), s.index.Retire(map[string]index.Numbers{id: last}))
}

// makeKept brings a queue of an image up to the journal, except for its jobs.
func (s *Service) makeKept(of *stored.Queue) error {
	root, err := s.dirs.queues.AddSub(of.ID)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := dir.Make(root); err != nil {
		return err
	}
	return s.makeProperties(root, of)
}

// makeProperties writes the properties of a queue, as far as they are known.
func (s *Service) makeProperties(root *durable.Dir, of *stored.Queue) error {
	if of.Callback != "" {
		if _, err := s.index.Table.KeepCallback(of.ID, of.Callback); err != nil {
			return err
		}
	}
	if of.Info != "" {
		if err := root.Renew(home.QueueInfoName, []byte(of.Info)); err != nil {
			return err
		}
	}
	if of.Modified == 0 {
		return nil
	}
	return root.Date(home.QueueInfoName, time.UnixMicro(of.Modified)) // it is published
}

func (s *Service) makeOne(of *stored.Queue) error {
	root, err := s.dirs.queues.AddSub(of.ID)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := dir.Make(root); err != nil {
		return err
	}
	if err := s.makeProperties(root, of); err != nil {
		return err
	}
	if err := s.index.Retire(map[string]index.Numbers{of.ID: of.Former}); err != nil {
		return err
	}
	q, err := s.openQueue(of.ID, (*Queue).readSettings)
	if err != nil {
		return err
	}
	defer q.close()
	return s.index.New(q.ledger, of.Since)
}

// replayed takes in a record of size bytes. Those before the checkpoint are kept for
// followers.
func (s *Service) replayed(r *record.Record, at journal.LSN, size int) error {
	q := s.open(r.Queue)
	if lost := s.known.lost[r.Queue]; lost != nil {
		lost.hold(at)
		return nil
	}
	if q == nil {
		s.known.strays[r.Queue] = s.known.strays[r.Queue].Max(index.Numbers{Job: r.Job, Seq: r.Seq})
	}
	past := s.upkeep.past
	if q != nil {
		past = min(past, q.from)
	}
	switch {
	case q != nil && at < q.ledger.Since():
		// Of a removed queue of the name.
	case q == nil && (at < past || s.stored != nil):
		// Of a removed queue.
	case q == nil:
		s.report(home.LogDir+"/"+home.JournalDir, fmt.Sprintf("events of queue %q, which %s does not list, passed over", r.Queue, home.ListName))
	case at < past:
		q.ledger.Remember(r, at)
	default:
		if err := s.stageResult(r); err != nil {
			return err
		}
		q.ledger.Replay(r, at, q.dir.HasResults)
		s.space.Replayed(size)
	}
	return nil
}

// stageResult writes the small result of a record to the temporary file it names: nobody
// synced the one of before, and another directory has none.
func (s *Service) stageResult(r *record.Record) error {
	if r.Result == nil || s.opts.Look {
		return nil
	}
	temp, _, _ := strings.Cut(r.Temp, "/")
	return s.dirs.temp.Renew(temp, r.Result)
}

// sweepTemps removes payloads without jobs.
func (s *Service) sweepTemps() error {
	wanted := map[string]bool{}
	for _, q := range s.Queues() {
		q.ledger.Temps(func(name string) { wanted[name] = true })
	}
	return s.dirs.temp.Sweep(func(name string) bool { return wanted[name] })
}

// fetchTemps brings the payloads and results from the store that records name and that the
// directory lacks.
func (s *Service) fetchTemps() error {
	if s.stored == nil {
		return nil
	}
	var names []string
	for _, q := range s.Queues() {
		q.ledger.Temps(func(name string) { names = append(names, name) })
	}
	return s.stored.Fetch(context.Background(), names)
}

// Restored reports whether the directory was made from a store when the home was opened.
func (s *Service) Restored() bool { return s.madeOf() != nil }

// Lookout asks the store of the home whether another process owns it. The error is then
// [journal.ErrFenced], and nothing can be changed any more. After a failure of the store it is
// [bucket.ErrBack] once the store answers again. A home in its directory has no other owner.
func (s *Service) Lookout() error {
	if s.stored == nil {
		return nil
	}
	err := s.stored.Log.Lookout()
	if errors.Is(err, journal.ErrFollowing) {
		return nil
	}
	if errors.Is(err, journal.ErrFenced) {
		s.shared.Gate.Fail(err)
	}
	return err
}

// Owns returns nil if this process owned the home at some time during the call: what it knew
// was the present state. For a home in a store it looks there. The error is [journal.ErrFenced] if
// another process owns the home, and [journal.ErrFollowing] at a standby.
func (s *Service) Owns(ctx context.Context) error {
	if s.stored == nil {
		return nil
	}
	err := s.stored.Log.Owns(ctx)
	if errors.Is(err, journal.ErrFenced) {
		s.shared.Gate.Fail(err)
	}
	return ledger.StorageError(err)
}

// Owns is as [Service.Owns].
func (q *Queue) Owns(ctx context.Context) error { return q.svc.Owns(ctx) }

// beginAgain is for a journal taken away by other hands: its numbers begin
// anew, and new records must not be taken for those of former queues.
func (s *Service) beginAgain() error {
	at, late := s.shared.Journal.Stats().Next, false
	for _, q := range s.Queues() {
		if q.ledger.Since() > at {
			q.ledger.Begin(at, q.ledger.Before())
			q.ledger.Note(func(x *index.Index) { x.Changed = true })
			late = true
		}
	}
	if !late {
		return nil
	}
	return s.checkpoint(allFiles)
}

// A queue is lost if queues.txt lists it, the index or published documents know it, and
// its directory is missing or empty, as the place of a volume that is not mounted. It is
// not served, and never made again: its numbers would begin anew, and its jobs would count
// as removed by hand. The index keeps what it has, and the journal is not released from the
// first record on that only the directory would have had. The next opening with the
// directory in its place serves the queue as if nothing had happened.

// A lostQueue is a queue without its directory.
type lostQueue struct {
	from journal.LSN // the index has the records before it
	keep journal.LSN // the first record that the index lacks; 0: there is none
}

// hold notes a record of the queue in the journal.
func (l *lostQueue) hold(at journal.LSN) {
	if at >= l.from && (l.keep == 0 || at < l.keep) {
		l.keep = at
	}
}

// Lost returns the queues that are lost, in the order of their identifiers. Those with
// their directory in place again are served after the next opening.
func (s *Service) Lost() []content.LostError {
	s.known.mu.RLock()
	ids := slices.Sorted(maps.Keys(s.known.lost))
	s.known.mu.RUnlock()
	all := make([]content.LostError, len(ids))
	for i, id := range ids {
		all[i] = content.LostError{Queue: id, Back: !s.dirLost(id)}
	}
	return all
}

// lostError returns a [*LostError] if the queue is lost, else nil.
func (s *Service) lostError(id string) error {
	s.known.mu.RLock()
	_, lost := s.known.lost[id]
	s.known.mu.RUnlock()
	if !lost {
		return nil
	}
	return &content.LostError{Queue: id, Back: !s.dirLost(id)}
}

// findLost reports whether a listed queue is lost, and remembers it. f is its file in the
// index.
func (s *Service) findLost(id string, f *snapshot.File) (bool, error) {
	if !s.dirLost(id) {
		return false, nil
	}
	known, err := s.index.Known(id), error(nil)
	if !known {
		known, err = home.Published(s.dirs.home, id)
	}
	if err != nil || !known {
		return false, err
	}
	if s.stored != nil {
		return false, errStale // the store has it
	}
	s.setLost(id, &lostQueue{from: f.At})
	s.reportLost(id)
	return true, nil
}

// doubt counts listed queues without a directory as lost until the journal was replayed, if
// the index does not know them: it may have been lost, too. Then only records in the journal
// tell such a queue from one that was never made.
func (s *Service) doubt(fresh []string) {
	for _, id := range fresh {
		if !s.index.Has(id) {
			s.setLost(id, &lostQueue{})
		}
	}
}

// settleDoubt ends doubt, and returns the queues to be made.
func (s *Service) settleDoubt(fresh []string) []string {
	return slices.DeleteFunc(fresh, func(id string) bool {
		lost := s.known.lost[id]
		if lost != nil && lost.keep == 0 {
			delete(s.known.lost, id) // the home is not served yet
		} else if lost != nil {
			s.reportLost(id)
		}
		return lost != nil && lost.keep != 0
	})
}

func (s *Service) setLost(id string, lost *lostQueue) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.lost == nil {
		s.known.lost = map[string]*lostQueue{}
	}
	s.known.lost[id] = lost
}

func (s *Service) reportLost(id string) {
	s.report(home.QueuesDir+"/"+id, "directory lost; the queue is not served: put it back and start again, or remove the queue for good with cutie rmqueue --lost "+id)
}

// dirLost reports whether the directory of a queue is missing, or has nothing of a queue.
func (s *Service) dirLost(id string) bool {
	dir := s.layout.Cache.Dir(s.dirs.queues, id, false)
	defer dir.Close()
	if _, err := dir.Stat(home.QueueInfoName); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if _, err := s.dirs.queues.Stat(id); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	empty := true
	err := dir.Names(func(name string) { empty = empty && name == home.LostFound })
	return empty && err == nil
}

// keepForLost returns from where on the journal is kept: from keep on, or earlier for a
// lost queue.
func (s *Service) keepForLost(keep journal.LSN) journal.LSN {
	s.known.mu.RLock()
	defer s.known.mu.RUnlock()
	for _, lost := range s.known.lost {
		if lost.keep != 0 {
			keep = min(keep, lost.keep)
		}
	}
	return keep
}

// RemoveLost removes a lost queue for good, with its published documents; its last numbers
// stay known. The error is [ErrNotLost] if the directory is there, and [ledger.ErrNoQueue] if
// there is no such queue.
func (s *Service) RemoveLost(ctx context.Context, name string) error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.properties.Lock()
	defer s.properties.Unlock()
	_, err := s.Queue(name)
	lost, is := errors.AsType[*content.LostError](err)
	switch {
	case err == nil:
		return fmt.Errorf("%w; without lost a queue without jobs is removed", ErrNotLost)
	case !is:
		return err
	case lost.Back:
		return fmt.Errorf("%w: it is there again; start the daemon again to serve the queue, or move the directory away", ErrNotLost)
	}
	id := lost.Queue
	if err := s.strikeOut(id, func() error { return nil }); err != nil {
		return err
	}
	s.leftBehind(id, errors.Join(s.forgetLost(id), s.index.Table.SettleCallback(id, ""), s.forgetMirror(id)))
	return nil
}

// forgetLost lets go of a lost queue that is not listed any more. upkeep and properties
// are held.
func (s *Service) forgetLost(id string) error {
	if err := s.forget(id); err != nil {
		return err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	delete(s.known.lost, id)
	return nil
}
