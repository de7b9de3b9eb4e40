package queuefs

import (
	"errors"
	"io/fs"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/indexfile"

	"golang.org/x/sys/unix"
)

// A damaged queues.txt keeps no queue from being served that it still names. The
// directories of others are told; check adds them to the list.

// known are the queues of a home when it is opened.
type known struct {
	listed   []string
	unlisted []string // with jobs; to be read after a crash, since the journal may have events of them
	fresh    []string // listed by other hands, without a directory yet
}

// readList reads queues.txt and finds the queues that are not in it.
func (s *Service) readList(c indexfile.Checkpoint) (k known, err error) {
	list, err := home.ReadList(s.dirs.home)
	switch {
	case errors.Is(err, durable.ErrTooLong):
		s.report(home.ListName, err.Error())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return k, err
	}
	var bad []error
	k.listed, bad = list.Legible()
	for _, err := range bad {
		s.report(home.ListName, err.Error()+"; the line is passed over")
	}
	names, err := home.Unlisted(s.dirs.queues, k.listed)
	if err != nil {
		return k, err
	}
	for _, id := range names {
		if !home.Used(s.dirs.queues, id) {
			continue // it never came to be, was removed, or was let go of
		}
		s.report(home.ListName, "queue "+id+" is not listed, and not served")
		if !c.Clean || s.opts.Look {
			k.unlisted = append(k.unlisted, id)
		}
	}
	return k, nil
}

// openKnown opens a queue when the home is opened; nil if it cannot be served.
func (s *Service) openKnown(id string, k *known) (*Queue, error) {
	q, err := s.openQueue(id, (*Queue).knownSettings)
	if err == nil || content.Transient(err) || content.Exhausted(err) {
		return q, err
	}
	path := home.QueuesDir + "/" + id
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		s.report(path, bare(err).Error()+"; the queue is not served")
		return nil, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	switch had, err := s.index.Has(id); {
	case err != nil:
		return nil, err
	case had:
		s.report(path, "directory lost; the queue is not served: bring it back, or take its line out of "+home.ListName)
	default:
		k.fresh = append(k.fresh, id)
	}
	return nil, nil
}

// takeInKnown makes the queues listed by other hands. Those that are not listed are
// brought up to the journal, which will be released, and are not served. After a loss
// of journal its numbers go on from here.
func (s *Service) takeInKnown(k *known, lost bool) error {
	for _, id := range k.fresh {
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return e
			}
			s.report(home.QueuesDir+"/"+id, err.Error()+"; not served")
		}
	}
	if len(k.unlisted) == 0 && !lost {
		return nil
	}
	if err := s.checkpoint(false); err != nil {
		return err
	}
	for _, id := range k.unlisted {
		if q := s.open(id); q != nil {
			s.drop(q)
		}
	}
	return nil
}
