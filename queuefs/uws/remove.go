package uws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A queue that is removed takes with it what was kept of its jobs. Their
// directory goes out of the way first, since a queue of the same name may come
// at once; it is removed when nobody uses it any more.

// queuesDir, or in homes of old queuesOld, has the directories of the queues,
// and removedPrefix begins the names of those of shelves whose queues were
// removed.
const (
	queuesDir     = "queues"
	queuesOld     = "queue"
	removedPrefix = durable.TempPrefix + "removed-"
)

// A removal is a directory below rootDir that is to be removed.
type removal struct {
	name string
	s    *shelf // perhaps still in use; nil: it is not
}

// MayRemove returns an error that wraps [queuefs.ErrNotEmpty] as long as the
// queue has jobs that are PENDING: they are no jobs of the queue, and would be
// lost with it. It is to be asked when nothing can come to the queue any more:
// a job that is made at the same time is either counted, or refused.
func (h *Handler) MayRemove(queue string) error {
	q, err := h.svc.Queue(queue)
	if err != nil {
		return err
	}
	s, err := h.shelf(q)
	if err != nil {
		return fmt.Errorf("%s: %w: whether it has PENDING jobs of UWS is not known: %v", q.ID(), queuefs.ErrNotEmpty, err)
	}
	defer s.leave()
	if n := s.pending(); n > 0 {
		return fmt.Errorf("%s: %w: it has %d PENDING jobs of UWS, to be started or destroyed first", q.ID(), queuefs.ErrNotEmpty, n)
	}
	return nil
}

// Removed is told that the queue is gone, by its identifier. Nothing is written
// for it any more, and what was kept of its jobs goes with the next Tick or
// Close; unless its directory is still there: then it was only taken from the
// list, and its jobs wait as its directory does.
func (h *Handler) Removed(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.shelves[queue]
	delete(h.shelves, queue)
	var err error
	if s != nil {
		err = s.close()
	}
	name, e := h.putAway(queue)
	if e == nil && name != "" {
		h.removals = append(h.removals, removal{name, s})
	}
	if err = errors.Join(err, e); err != nil {
		h.untold = append(h.untold, fmt.Errorf("%s/%s of a queue that was removed: %w", rootDir, queue, err))
	}
}

// putAway renames the directory of a queue whose own is no more; "" if there
// is nothing to be put away.
func (h *Handler) putAway(queue string) (name string, err error) {
	queues, err := h.home.Sub(queuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		queues, err = h.home.Sub(queuesOld)
	}
	if err != nil {
		return "", err
	}
	defer queues.Close()
	if _, err := queues.Stat(queue); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	root, err := h.home.Sub(rootDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	name = removedPrefix + newID()
	if err := root.Rename(queue, root, name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return name, root.Sync()
}

// sweep removes the directories that nobody uses any more. What is left is
// tried again.
func (h *Handler) sweep() error {
	h.mu.Lock()
	removals, errs := h.removals, errors.Join(h.untold...)
	h.removals, h.untold = nil, nil
	h.mu.Unlock()
	if len(removals) == 0 {
		return errs
	}
	var left []removal
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.removals = append(left, h.removals...)
	}()
	root, err := h.home.Sub(rootDir)
	if err != nil {
		left = removals
		return errors.Join(errs, err)
	}
	defer root.Close()
	for _, r := range removals {
		if r.s != nil && !r.s.idle() {
			left = append(left, r)
			continue
		}
		if err := root.RemoveTree(r.name); err != nil {
			left, errs = append(left, r), errors.Join(errs, fmt.Errorf("%s/%s: %w", rootDir, r.name, err))
		}
	}
	return errs
}

// findRemovals finds what a crash has left of removals.
func (h *Handler) findRemovals() error {
	root, err := h.home.Sub(rootDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Names(func(name string) {
		if strings.HasPrefix(name, removedPrefix) {
			h.removals = append(h.removals, removal{name: name})
		}
	})
}

// removing returns [queuefs.ErrNoQueue] for a queue that is being removed, or
// was. A job that was made before this is asked, and found no error, is seen by
// MayRemove.
func removing(q *queuefs.Queue) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // there is nothing to wait for
	if err := q.Wait(ctx, math.MaxUint64); errors.Is(err, queuefs.ErrNoQueue) {
		return err
	}
	return nil
}
