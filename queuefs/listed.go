package queuefs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/properties"

	"cutie/queuefs/snapshot"

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
// entry in it depend on nothing else, and are opened side by side; numbers of a queue whose
// index is damaged go on above those of all queues opened before it.
func (s *Service) openAll(k *found, load func(*Queue, *snapshot.File) (loaded, error)) (map[*Queue]loaded, error) {
	ids := slices.Concat(k.Listed, k.Unlisted)
	queues, states, errs := make([]*Queue, len(ids)), make([]loaded, len(ids)), make([]error, len(ids))
	open := func(i int) {
		f := s.index.File(ids[i])
		if queues[i], errs[i] = s.openKnown(ids[i], f, k); queues[i] != nil {
			states[i], errs[i] = load(queues[i], f)
		}
	}
	add := func(i int) error {
		if queues[i] != nil {
			s.queues.Add(queues[i])
		}
		if errs[i] != nil {
			return fmt.Errorf("queue %s: %w", ids[i], errs[i])
		}
		return nil
	}
	rest := sideBySide(len(ids), func(i int) bool { return s.index.Small(ids[i]) }, open)
	var first error
	for i := range ids {
		if _, later := slices.BinarySearch(rest, i); !later {
			first = cmp.Or(first, add(i))
		}
	}
	for _, i := range rest {
		if first == nil {
			open(i)
			first = add(i)
		}
	}
	if first != nil {
		return nil, first
	}
	if 0 < len(rest) && len(rest) < len(ids) {
		s.queues.Order(ids)
	}
	was := make(map[*Queue]loaded, len(ids))
	for i, q := range queues {
		was[q] = states[i]
	}
	return was, nil
}

// openKnown opens a queue when the home is opened; nil if it cannot be served.
func (s *Service) openKnown(id string, f *snapshot.File, k *found) (*Queue, error) {
	if lost, err := s.findLost(id, f); lost || err != nil {
		return nil, err
	}
	q, err := s.openQueue(id, func(p *properties.Queue) (*home.Settings, error) { return p.Known(f, k.trust) })
	if err == nil || content.Transient(err) || content.Exhausted(err) {
		return q, err
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		s.report(home.QueuesDir+"/"+id, durable.Bare(err).Error()+"; the queue is not served")
		return nil, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	k.fresh = append(k.fresh, id) // it has no entry, so nobody else does
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
	if err := s.checkpoint(allFiles); err != nil {
		return err
	}
	for _, id := range k.Unlisted {
		if q := s.open(id); q != nil {
			s.drop(q)
		}
	}
	return nil
}

// takeIn serves a queue listed by other hands. The error is a [*LostError] if it was here
// before and its directory is missing.
func (s *Service) takeIn(id string) error {
	if _, err := s.findLost(id, s.index.File(id)); err != nil {
		return err
	}
	if err := s.lostError(id); err != nil {
		return err
	}
	root, err := s.dirs.queues.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, job.Instant(s.now()))
		q, err := s.makeQueue(id, info.Text(), 0, s.shared.Journal.Stats().Next)
		if err != nil {
			return err
		}
		if err = s.syncAll(); err == nil {
			err = s.noteMade(q)
		}
		if err != nil {
			q.close()
			return err
		}
		s.add(q)
		return nil
	}
	if err != nil {
		return err
	}
	if s.stored != nil {
		root.Close()
		return fmt.Errorf("a directory by other hands: %w", ErrStored)
	}
	if _, err = root.Stat(home.QueueInfoName); errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, job.Instant(s.now()))
		err = root.Replace(home.QueueInfoName, info.Text())
	}
	root.Close()
	if err != nil {
		return err
	}
	q, err := s.openBare(id)
	if err != nil {
		return err
	}
	s.add(q)
	return nil
}
