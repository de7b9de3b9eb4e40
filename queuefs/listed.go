package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/content"
	"cutie/queuefs/home"
	"cutie/queuefs/properties"
	"cutie/queuefs/roster"

	"golang.org/x/sys/unix"
)

// A damaged queues.txt keeps no queue from being served that it still names. The
// directories of others are told; check adds them to the list.

// found are the queues of a home when it is opened.
type found struct {
	home.Known
	trust bool     // the home was closed in order
	fresh []string // listed by other hands, without a directory yet
}

// openAll opens the queues and loads what the index knows of them. Those with one sound
// entry in it depend on nothing else, and are opened side by side.
func (s *Service) openAll(k *found, load func(*Queue) (loaded, error)) (was map[*Queue]loaded, err error) {
	ids := slices.Concat(k.Listed, k.Unlisted)
	type result struct {
		q   *Queue
		was loaded
		err error
	}
	results := make([]result, len(ids))
	roster.SideBySide(len(ids), func(i int) bool { return s.index.Small(ids[i]) }, func(i int) {
		r := &results[i]
		if r.q, r.err = s.openKnown(ids[i], k); r.q != nil {
			r.was, r.err = load(r.q)
		}
	})
	was = make(map[*Queue]loaded, len(ids))
	for i := range results {
		r := &results[i]
		if r.q != nil {
			s.queues.Add(r.q)
			was[r.q] = r.was
		}
		if r.err != nil && err == nil {
			err = fmt.Errorf("queue %s: %w", ids[i], r.err)
		}
	}
	return was, err
}

// openKnown opens a queue when the home is opened; nil if it cannot be served.
func (s *Service) openKnown(id string, k *found) (*Queue, error) {
	q, err := s.openQueue(id, func(p *properties.Queue) (*home.Settings, error) { return p.Known(k.trust) })
	if err == nil || content.Transient(err) || content.Exhausted(err) {
		return q, err
	}
	path := home.QueuesDir + "/" + id
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		s.report(path, properties.Bare(err).Error()+"; the queue is not served")
		return nil, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if s.index.Has(id) {
		s.report(path, "directory lost; the queue is not served: bring it back, or take its line out of "+home.ListName)
	} else {
		k.fresh = append(k.fresh, id) // it has no entry, so nobody else does
	}
	return nil, nil
}

// weedOut reports queues with jobs that queues.txt does not list. Others without a line
// never came to be, were removed, or were let go of.
func (s *Service) weedOut(k *found) {
	k.Unlisted = slices.DeleteFunc(k.Unlisted, func(id string) bool {
		q := s.open(id)
		if q != nil && q.ledger.Bare() != nil {
			s.report(home.ListName, "queue "+id+" is not listed, and not served")
			return false
		}
		if q != nil {
			s.known.strays[id] = q.ledger.Numbers()
			s.drop(q)
		}
		return true
	})
}

// takeInKnown makes the queues listed by other hands. Those that are not listed are
// brought up to the journal, which will be released, and are not served. After a loss
// of journal its numbers go on from here.
func (s *Service) takeInKnown(k *found, lost bool) error {
	for _, id := range k.fresh {
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return e
			}
			s.report(home.QueuesDir+"/"+id, err.Error()+"; not served")
		}
	}
	if len(k.Unlisted) == 0 && !lost {
		return nil
	}
	if err := s.checkpoint(false); err != nil {
		return err
	}
	for _, id := range k.Unlisted {
		if q := s.open(id); q != nil {
			s.drop(q)
		}
	}
	return nil
}
