package queuefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"cutie/queuefs/durable"
)

// load brings the memory of the service to the state that was acknowledged
// last: index, then journal. Where the index is missing or damaged the
// directories stand in for it.
func (s *Service) load() error {
	c, indexed, err := s.readCheckpoint()
	if err != nil {
		return err
	}
	data, err := s.home.ReadFile(queuesName, nil, 64<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ids, err := readQueues(data)
	if err != nil {
		return err
	}
	look := map[*Queue]bool{} // whose directories are compared with the index
	for _, id := range ids {
		q, err := s.openQueue(id)
		if err != nil {
			return fmt.Errorf("queue %s: %w", id, err)
		}
		s.queues = append(s.queues, q)
		s.byID[id] = q
		changed, err := q.loadIndex(indexed)
		if err != nil {
			return fmt.Errorf("queue %s: %w", id, err)
		}
		look[q] = changed && (c.clean || !indexed)
	}
	if err := s.replay(c); err != nil {
		return err
	}
	if err := s.sweepTemps(); err != nil {
		return err
	}
	if c.clean || !indexed {
		c.clean = false
		if err := s.ixdir.Replace(checkFile, c.file()); err != nil {
			return err
		}
	}
	for _, q := range s.queues {
		if look[q] {
			if err := q.reconcile(); err != nil {
				return fmt.Errorf("queue %s: %w", q.id, err)
			}
		}
	}
	s.lastTime = s.opts.Now()
	s.pace.at = s.lastTime
	s.inline = min(inlineLimit, s.log.MaxAppend()/4)
	return nil
}

// replay opens the journal and applies what stands behind the checkpoint, by
// the code that normal running uses.
func (s *Service) replay(c checkpointFile) error {
	logs, err := s.home.Sub(logDir)
	if err != nil {
		return err
	}
	defer logs.Close()
	dir, err := logs.MakeSub(journalDir)
	if err != nil {
		return err
	}
	from := c.past
	if c.keep.At != 0 && c.keep.At < from.At {
		from = c.keep
	}
	var r record
	var bad error
	strange := map[string]bool{}
	visit := func(recs []byte, at durable.Position) {
		for len(recs) >= 4 && bad == nil {
			n := int(binary.LittleEndian.Uint32(recs))
			if n < recFixed || n > len(recs) {
				bad = errRecord
				return
			}
			if err := r.get(recs[:n]); err != nil {
				bad = err
				return
			}
			switch q := s.byID[r.queue]; {
			case q == nil:
				if !strange[r.queue] {
					strange[r.queue] = true
					s.report(Problem{Path: logDir + "/" + journalDir, Text: fmt.Sprintf("events of queue %q, which %s does not list, passed over", r.queue, queuesName)})
				}
			case at < c.past.At:
				q.note(&r, at)
			default:
				q.apply(&r, at, true)
				s.lastMark.Store(-1)
			}
			recs, at = recs[n:], at.Add(n)
		}
	}
	s.log, err = durable.OpenLog(dir, from, durable.LogOptions{Segment: s.opts.Segment, Visit: visit,
		Report: func(name, text string) {
			s.report(Problem{Path: logDir + "/" + journalDir + "/" + name, Text: text})
		}})
	s.past, s.keep = c.past, from
	if err == nil {
		err = bad
	}
	return err
}

// sweepTemps removes payloads that never came to be jobs.
func (s *Service) sweepTemps() error {
	wanted := map[string]bool{}
	for _, q := range s.queues {
		for _, name := range q.temps {
			wanted[name] = true
		}
	}
	var gone []string
	err := s.temp.Names(func(name string) {
		if !wanted[name] && strings.HasPrefix(name, durable.TempPrefix) {
			gone = append(gone, name)
		}
	})
	for _, name := range gone {
		err = errors.Join(err, s.temp.Remove(name))
	}
	return err
}

// loadIndex reads the pages of a queue. It reports whether the directories
// have changed since the index was written, or were read in its place.
func (q *Queue) loadIndex(indexed bool) (changed bool, err error) {
	if !indexed {
		return true, q.scan(nil)
	}
	sub, err := q.svc.ixdir.MakeSub(queuesDir)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	dir, err := sub.MakeSub(q.id)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	data, err := dir.ReadFile(queueFile, nil, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return true, q.scan(nil) // a queue made since the last checkpoint, or restored
	}
	if err != nil {
		return false, err
	}
	x, err := parseQueueIndex(data)
	if err != nil {
		q.svc.report(Problem{Path: q.indexPath(queueFile), Text: err.Error() + "; the index is made again from the directories"})
		return true, q.scan(nil)
	}
	q.types = q.types[:0]
	for _, t := range x.types {
		q.typeNums[t] = uint16(len(q.types))
		q.types = append(q.types, t)
	}
	q.mint, q.seq, q.submitted, q.consumed = x.mint, x.seq, x.submitted, x.consumed
	q.seqTime = max(q.seqTime, x.seqTime)
	q.mint.time = max(q.mint.time, q.seqTime)
	if err := q.loadPages(dir); err != nil {
		return false, err
	}
	for i, d := range q.dirs.watched() {
		at, err := d.Changed()
		if err != nil {
			return false, err
		}
		changed = changed || at != x.dirs[i]
	}
	return changed, nil
}

func (q *Queue) loadPages(dir *durable.Dir) error {
	var numbers []int
	var stray []string
	if err := dir.Names(func(name string) {
		if n, ok := parsePageName(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasPrefix(name, durable.TempPrefix) {
			stray = append(stray, name)
		}
	}); err != nil {
		return err
	}
	for _, name := range stray {
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	damaged := map[int]bool{}
	var buf []byte
	for _, n := range numbers {
		var err error
		if buf, err = dir.ReadFile(pageName(n), buf[:0], 2*pageSize); err != nil {
			return err
		}
		p, err := parsePage(buf)
		if err == nil {
			for i := range PageJobs {
				if int(p.slot(i).mediaType()) >= len(q.types) {
					err = errPage
				}
			}
		}
		if err != nil {
			q.svc.report(Problem{Path: q.indexPath(pageName(n)), Text: err.Error() + "; made again from the directories"})
			damaged[n] = true
			continue
		}
		for n >= len(q.idx.pages) {
			q.idx.pages = append(q.idx.pages, nil)
		}
		q.idx.pages[n] = p
		q.idx.recount(p)
	}
	if len(damaged) > 0 {
		return q.scan(damaged)
	}
	return nil
}

func (q *Queue) indexPath(name string) string {
	return logDir + "/" + indexDir + "/" + queuesDir + "/" + q.id + "/" + name
}
