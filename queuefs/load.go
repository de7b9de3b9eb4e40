package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
	"cutie/queuefs/record"
)

// load brings the memory of the service to the last acknowledged state: index,
// then journal. Where the index is missing or damaged the directories stand in
// for it.
func (s *Service) load() error {
	if err := errors.Join(s.home.Sweep(nil), s.ixdir.Sweep(nil)); err != nil {
		return err
	}
	c, indexed, err := s.readCheckpoint()
	if err != nil {
		return err
	}
	_, e := s.ixdir.Stat(indexfile.DoubtName)
	s.doubt.Store(!errors.Is(e, fs.ErrNotExist))
	data, err := s.home.ReadFile(queuesName, nil, 64<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ids, err := readQueues(data)
	if err != nil {
		return err
	}
	look := map[*Queue]bool{}  // to be compared with their directories
	fresh := map[*Queue]bool{} // known to the journal only
	for _, id := range ids {
		q, err := s.openQueue(id, (*Queue).knownSettings)
		if err != nil {
			return fmt.Errorf("queue %s: %w", id, err)
		}
		s.queues = append(s.queues, q)
		s.byID[id] = q
		was, err := q.loadIndex(c, indexed)
		if err != nil {
			return fmt.Errorf("queue %s: %w", id, err)
		}
		look[q], fresh[q] = was.scanned || was.changed && c.Clean, was.fresh
	}
	if err := s.replay(c); err != nil {
		return err
	}
	if err := s.sweepTemps(); err != nil {
		return err
	}
	for _, q := range s.queues {
		// The files of a fresh queue are compared after every crash: losses of
		// the journal are nowhere else.
		if look[q] || fresh[q] {
			if err := q.reconcile(fresh[q]); err != nil {
				return fmt.Errorf("queue %s: %w", q.id, err)
			}
		}
		if err := q.findLeases(); err != nil {
			return fmt.Errorf("queue %s: leases: %w", q.id, err)
		}
		if err := q.announce(); err != nil && !errors.Is(err, ErrNoSpace) {
			return fmt.Errorf("queue %s: %w", q.id, err)
		}
	}
	// After a crash before this, the next start takes in the rest of the
	// changes by hand.
	if c.Clean || c.Former || !indexed {
		if err := s.markOpen(c); err != nil {
			return err
		}
	}
	s.found.Store(s.dirty.Load())
	s.lastTime = s.opts.Now()
	s.seen.at = s.lastTime
	s.most = s.log.Stats().MaxAppend
	s.inline = min(inlineLimit, s.most/4)
	s.keepReserve()
	return nil
}

// readCheckpoint returns the zero value and false without a file that verifies.
func (s *Service) readCheckpoint() (c indexfile.Checkpoint, ok bool, err error) {
	var r anvl.Record
	data, err := indexfile.CheckpointIn(s.ixdir).Read()
	if err == nil {
		r, err = anvl.ParseRecord(data)
	} else if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	} else if !errors.Is(err, durable.ErrDamaged) {
		return c, false, err
	}
	if err != nil {
		s.report(Problem{Path: logDir + "/" + indexDir + "/" + indexfile.CheckpointName, Text: err.Error() + "; the index is made again from the directories"})
		return c, false, nil
	}
	c, err = indexfile.ParseCheckpoint(r)
	return c, err == nil, err
}

// markOpen records an open home, one that was not closed in order. The file
// does not grow, so a home on a full disk can be opened.
func (s *Service) markOpen(c indexfile.Checkpoint) error {
	c.Clean = false
	err := indexfile.CheckpointIn(s.ixdir).Write(c.Text())
	if errors.Is(storageError(err), ErrNoSpace) {
		return indexfile.CheckpointIn(s.ixdir).Rewrite(c.Text())
	}
	return err
}

// replay opens the journal and applies the records after the checkpoint, by the
// code of normal use.
func (s *Service) replay(c indexfile.Checkpoint) error {
	logs, err := s.home.Sub(logDir)
	if err != nil {
		return err
	}
	defer logs.Close()
	if s.jdir, err = logs.MakeSub(journalDir); err != nil {
		return err
	}
	log, err := segment.Open(s.jdir, segment.Options{From: c.From(), Batch: c.Batch, Size: s.opts.Segment, Spare: s.canSpare,
		Report: func(name, text string) {
			s.report(Problem{Path: logDir + "/" + journalDir + "/" + name, Text: text})
		}})
	if err != nil {
		return err
	}
	s.log = log
	s.past, s.keep = c.Past, c.From()
	if st := log.Stats(); s.keep == 0 && st.First < st.Next {
		s.keep = st.First // a follower without a checkpoint wants everything
	}
	s.strays = map[string]index.Numbers{} // of unlisted queues
	var r record.Record
	for rec, err := range log.Read(0) {
		if err == nil {
			err = r.Parse(rec.Data)
		}
		if err != nil {
			return err
		}
		s.replayed(&r, rec.LSN, len(rec.Data))
	}
	// A damaged list of former queues is found here, and not when one is made.
	if err := s.retireStrays(); !errors.Is(storageError(err), ErrNoSpace) {
		return err
	}
	return nil
}

// replayed takes in a record of size bytes. Those before the checkpoint are kept for
// followers.
func (s *Service) replayed(r *record.Record, at journal.LSN, size int) {
	q := s.byID[r.Queue]
	if q == nil {
		s.strays[r.Queue] = s.strays[r.Queue].Max(index.Numbers{Job: r.Job, Seq: r.Seq})
	}
	switch {
	case q != nil && at < q.life.since:
		// Of a removed queue of the name.
	case q == nil && at < s.past:
		// Of a removed queue.
	case q == nil:
		s.report(Problem{Path: logDir + "/" + journalDir, Text: fmt.Sprintf("events of queue %q, which %s does not list, passed over", r.Queue, queuesName)})
	case at < s.past:
		q.note(r, at)
	default:
		q.apply(r, at, true)
		s.lastMark.Add(-int64(size))
	}
}

// sweepTemps removes payloads without jobs.
func (s *Service) sweepTemps() error {
	wanted := map[string]bool{}
	for _, q := range s.queues {
		for _, name := range q.backlog.temps {
			wanted[name] = true
		}
		for _, w := range q.backlog.results {
			for _, p := range w.Placed() {
				wanted[p.Temp] = true
			}
		}
	}
	return s.temp.Sweep(func(name string) bool { return wanted[name] })
}

// loaded is the result of loading the index of a queue.
type loaded struct {
	scanned bool // the directories were read in the place of pages
	changed bool // they have changed since the index was written
	fresh   bool // there are no pages yet: the journal has all jobs
}

// loadIndex reads the pages of a queue.
func (q *Queue) loadIndex(c indexfile.Checkpoint, indexed bool) (was loaded, err error) {
	dir, err := q.indexDir()
	if err != nil {
		return was, err
	}
	defer dir.Close()
	if err := errors.Join(q.tree.Root().Sweep(nil), dir.Sweep(nil)); err != nil {
		return was, err
	}
	if err := q.loadTombstones(dir); err != nil {
		return was, err
	}
	x, ok, err := q.readQueueIndex(dir)
	if err != nil {
		return was, err
	}
	if ok {
		// The numbers never go back, whatever becomes of the pages.
		q.idx.SetMediaTypes(x.Types)
		q.idx.Reach(x.Last)
		q.idx.LastSubmit, q.idx.LastConsume = x.Submitted, x.Consumed
		q.life.since, q.life.before, q.set.announced = x.Since, x.Before, x.Info
	} else if err := q.recount(); err != nil {
		return was, err
	}
	if !indexed || !ok || x.Bare {
		if err := dropPages(dir); err != nil {
			return was, err
		}
		if was.fresh = indexed && ok && x.Empty; was.fresh {
			return was, nil
		}
		was.scanned = true
		return was, q.scan(nil)
	}
	// After a crash between this file and its checkpoint, pages may be older
	// than the file.
	if was.scanned, err = q.loadPages(dir, x.Pages, x.At <= c.Past); err != nil {
		return was, err
	}
	if err := q.findPacks(dir); err != nil {
		return was, err
	}
	at, err := q.tree.Changed()
	was.changed = at != x.Dirs
	return was, err
}

// recount takes the numbers of a queue without a queue file from the rest of
// the index. Jobs in the directories and the journal may have later ones.
func (q *Queue) recount() error {
	last, err := q.svc.former(q.id)
	if err != nil {
		return err
	}
	q.idx.Reach(last)
	return nil
}

// readQueueIndex returns false without a queue file that verifies: the queue
// was made or brought since the last checkpoint, or the file is damaged.
func (q *Queue) readQueueIndex(dir *durable.Dir) (x indexfile.Queue, ok bool, err error) {
	x, err = indexfile.ReadQueue(dir, q.id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return x, false, nil
	case errors.Is(err, durable.ErrDamaged):
		q.svc.report(Problem{Path: q.indexPath(indexfile.QueueName), Text: err.Error() + "; the index is made again from the directories"})
		return x, false, nil
	}
	return x, err == nil, err
}

// dropPages removes pages, so that they are not taken for those of the next
// checkpoint.
func dropPages(dir *durable.Dir) error {
	numbers, err := pageNumbers(dir)
	for _, n := range numbers {
		err = errors.Join(err, dir.Remove(index.PageName(n)))
	}
	return err
}

func pageNumbers(dir *durable.Dir) (numbers []int, err error) {
	err = dir.Names(func(name string) {
		if n, ok := indexfile.ParsePageName(name); ok {
			numbers = append(numbers, n)
		}
	})
	return numbers, err
}

// loadPages reads the pages; there should be want of them. For damaged and
// missing pages it reads the directories.
func (q *Queue) loadPages(dir *durable.Dir, want int, whole bool) (scanned bool, err error) {
	numbers, err := pageNumbers(dir)
	if err != nil {
		return false, err
	}
	again := func(n int, why string) {
		if whole {
			q.svc.report(Problem{Path: q.indexPath(index.PageName(n)), Text: why + "; made again from the directories"})
		}
	}
	damaged := map[int]bool{}
	if len(numbers) < want {
		for n := range int(q.idx.Last().Job/PageJobs) + 1 {
			if !slices.Contains(numbers, n) {
				again(n, "index page missing")
				damaged[n] = true
			}
		}
	}
	var buf []byte
	for _, n := range numbers {
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil {
			return false, err
		}
		if err := q.idx.LoadPage(buf, n); err != nil {
			again(n, err.Error())
			damaged[n] = true
		}
	}
	if len(damaged) == 0 {
		return false, nil
	}
	return true, q.scan(damaged)
}

func (q *Queue) indexPath(name string) string {
	return logDir + "/" + indexDir + "/" + queuesDir + "/" + q.id + "/" + name
}
