package rdm

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"

	"cutie/queuefs"
)

// Elements of the job file of a description that was submitted with a URL.
const (
	elemURL     = "rdm-url"
	elemRetired = "rdm-retired" // retiredDeleted or retiredReplaced: it is no longer in the catalog
)

const (
	retiredDeleted  = "deleted"
	retiredReplaced = "replaced" // by the description of the same URL in a later job
)

// names are the submitted descriptions of a catalog, by their URLs: some 80 bytes each. It
// reads the job files of the queue once, and then those that its events are about.
type names struct {
	q *queuefs.Queue

	mu    sync.Mutex // guards the rest
	begun bool
	seq   queuefs.Seq // last event that was looked at
	jobs  map[queuefs.JobID]named
	live  map[uint64]queuefs.JobID // by the sums of the URLs; the last job of each
}

// A named job has a URL, by its sum.
type named struct {
	url uint64
	is  standing
}

type standing uint8

const (
	unnamed  standing = iota // no description with a URL
	current                  // in the catalog
	deleted                  // no longer in the catalog
	replaced                 // there is a later one
)

var seed = maphash.MakeSeed()

func sumOf(url string) uint64 { return maphash.String(seed, url) }

// names returns the names in a catalog, up to its last event.
func (h *Handler) names(ctx context.Context, q *queuefs.Queue) (*names, error) {
	h.mu.Lock()
	n := h.catalogs[q.ID()]
	if n == nil || n.q != q {
		n = &names{q: q}
		h.catalogs[q.ID()] = n
	}
	h.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n, n.follow(ctx)
}

func (n *names) follow(ctx context.Context) error {
	for {
		if !n.begun {
			if err := n.begin(ctx); err != nil {
				return err
			}
		}
		events, err := n.q.Events(n.seq, 0)
		if errors.Is(err, queuefs.ErrGone) {
			n.begun = false
			continue
		}
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			e := &events[i]
			if _, known := n.jobs[e.Job]; known || e.Kind == queuefs.Submit {
				if err := n.look(e.Job); err != nil {
					return err
				}
			}
			n.seq = e.Seq
		}
	}
}

// begin looks at all jobs.
func (n *names) begin(ctx context.Context) error {
	n.seq = n.q.Seq()
	n.jobs, n.live = map[queuefs.JobID]named{}, map[uint64]queuefs.JobID{}
	var entries []queuefs.Entry
	for page := range n.q.Pages() {
		entries, _, _ = n.q.Page(page, entries[:0])
		for i := range entries {
			if err := errors.Join(ctx.Err(), n.look(entries[i].Job)); err != nil {
				return err
			}
		}
	}
	n.begun = true
	return nil
}

// look takes the URL of a job and its standing.
func (n *names) look(id queuefs.JobID) error {
	j, err := n.q.Job(id)
	if err != nil && !errors.Is(err, queuefs.ErrNoJob) {
		return err
	}
	url := j.Extra.Value(elemURL)
	if err != nil || url == "" {
		if was, known := n.jobs[id]; known && n.live[was.url] == id {
			delete(n.live, was.url)
		}
		delete(n.jobs, id)
		return nil
	}
	now := named{sumOf(url), current}
	switch {
	case j.Extra.Value(elemRetired) == retiredReplaced:
		now.is = replaced
	case j.Status == queuefs.Deleted || j.Extra.Value(elemRetired) != "":
		now.is = deleted
	}
	n.jobs[id] = now
	switch at, there := n.live[now.url]; {
	case now.is == current && (!there || at < id):
		n.live[now.url] = id
	case now.is != current && at == id:
		delete(n.live, now.url)
	}
	return nil
}

// of returns the standing of a job.
func (n *names) of(id queuefs.JobID) standing {
	n.mu.Lock()
	defer n.mu.Unlock()
	j := n.jobs[id]
	if at, there := n.live[j.url]; j.is != unnamed && there && at != id {
		return replaced
	}
	return j.is
}

// find returns the job of the description with a URL, zero if there is none.
func (x *exchange) find(url string) (queuefs.Job, error) {
	n, err := x.h.names(x.r.Context(), x.catalog)
	if err != nil {
		return queuefs.Job{}, err
	}
	n.mu.Lock()
	id := n.live[sumOf(url)]
	n.mu.Unlock()
	if id == 0 {
		return queuefs.Job{}, nil
	}
	j, err := x.catalog.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) || j.Extra.Value(elemURL) != url {
		return queuefs.Job{}, nil
	}
	return j, err
}
