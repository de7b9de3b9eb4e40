package rdm

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
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

	mu    sync.Mutex  // guards the rest
	seq   queuefs.Seq // last event that was looked at
	pages int         // of the index, looked at; then events are
	begun bool        // all pages were
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
		maps.DeleteFunc(h.catalogs, func(id string, n *names) bool { // of queues that were removed
			now, err := h.svc.Queue(id)
			return err == nil && now != n.q || errors.Is(err, queuefs.ErrNoQueue)
		})
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
		if errors.Is(err, queuefs.ErrGone) { // too many since then
			n.begun, n.jobs = false, nil
			continue
		}
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			e := &events[i]
			if _, known := n.jobs[e.Job]; known || e.Kind == queuefs.Submit {
				n.look(e.Job)
			}
			n.seq = e.Seq
		}
	}
}

// begin looks at all jobs. If ctx ends, the next call goes on there.
func (n *names) begin(ctx context.Context) error {
	if n.jobs == nil {
		n.seq, n.pages = n.q.Seq(), 0
		n.jobs, n.live = map[queuefs.JobID]named{}, map[uint64]queuefs.JobID{}
	}
	var entries []queuefs.Entry
	for ; n.pages < n.q.Pages(); n.pages++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, _, _ = n.q.Page(n.pages, entries[:0])
		for i := range entries {
			n.look(entries[i].Job)
		}
	}
	n.begun = true
	return nil
}

// look takes the URL of a job and its standing. A job that cannot be read has no URL: who
// asks for its description gets the error.
func (n *names) look(id queuefs.JobID) {
	j, err := n.q.Job(id)
	url := j.Extra.Value(elemURL)
	if err != nil || url == "" {
		if was, known := n.jobs[id]; known && n.live[was.url] == id {
			delete(n.live, was.url)
		}
		delete(n.jobs, id)
		return
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
