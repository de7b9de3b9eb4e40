package rdm

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// find finds the catalog of the message, for a caller with the right (Catalog
// Service IDs). The default is the one in cutie-info.txt, or the first queue.
func (x *exchange) find(right web.Right) error {
	name := x.h.svc.Info().DefaultCatalog
	if x.csid == "" && name == "" {
		queues := x.h.svc.Queues()
		if len(queues) == 0 {
			return notFound("there is none")
		}
		x.catalog = queues[0]
		if err := x.allow(right, x.catalog.ID()); err != nil {
			return err
		}
		return x.catalog.Shut()
	}
	if x.csid != "" {
		var err error
		if name, err = catalogName(x.csid); err != nil {
			return badRequest("%v", err)
		}
	}
	q, err := x.h.svc.Ask(name)
	if err != nil {
		// The names of queues are for those with the right to see all.
		if err := x.allow(right, ""); err != nil {
			return err
		}
		if errors.Is(err, queuefs.ErrNoQueue) || errors.Is(err, queuefs.ErrBadName) {
			return notFound(name)
		}
		return err
	}
	x.catalog = q
	return x.allow(right, q.ID())
}

func notFound(name string) error {
	return fmt.Errorf("%w", web.Errorf(404, "catalog not found: %.200s", name))
}

// may is allow for parts of an answer that can be left out.
func (x *exchange) may(right web.Right, queue string) bool {
	return x.h.o.Allow == nil || x.h.o.Allow(http.Header{}, x.r, right, queue) == nil
}

func (x *exchange) allow(right web.Right, queue string) error {
	if x.h.o.Allow == nil {
		return nil
	}
	return x.h.o.Allow(x.w.Header(), x.r, right, queue)
}

// answered is the Catalog-Service-ID of the answer: the catalog's, or the one
// in the request.
func (x *exchange) answered() string {
	if x.catalog != nil {
		return catalogID(x.base, x.catalog.ID())
	}
	return x.csid
}

// retrieve answers rd-request and rd-request-deleted.
func (x *exchange) retrieve() error {
	since, err := parseSince(x.scope)
	if err != nil {
		return err
	}
	if err := x.find(web.Read); err != nil {
		return err
	}
	q := x.catalog
	st := q.State()
	x.w.Header().Set("Last-Modified", httpDate(st.LastEvent))
	f := &finder{q: q, since: since, until: st.LastEvent, deleted: x.typ == RDRequestDeleted}
	var only []string
	if f.deleted {
		only = ofDeleted
	}
	places, index := x.view.selection(only)

	found, n := f.all(), st.Pending+st.Consumed
	switch order := x.view.order; {
	case len(order) > 0 && !f.natural(order):
		list, err := x.sorted(f)
		if err != nil {
			return err
		}
		found, n = f.unranked(list), int64(len(list))
	case f.deleted || !since.IsZero():
		n = f.count(x.view.last)
		fallthrough
	default:
		f.backwards = len(order) > 0 && order[0].descending
	}
	f.whole = !index && !f.deleted
	n = x.view.hits(n)
	head := Header{Type: x.typ.reply(), Catalog: x.answered(), Interpret: number(n) + " " + documentObject + " objects"}
	if n == 0 {
		head.Interpret, head.Error = "", "0 results"
	}
	buf := head.append(nil)
	if err := x.out.write(buf); err != nil || n == 0 {
		return err
	}
	hit := int64(0)
	for s := range found {
		if hit++; x.view.past(hit) {
			break
		}
		if !x.view.wants(hit) {
			continue
		}
		if f.whole {
			if ok, err := f.read(&s); err != nil {
				return err
			} else if !ok {
				continue
			}
		}
		buf = x.appendDescription(buf[:0], &s, places)
		if err := x.out.write(buf); err != nil {
			return err
		}
		if err := x.r.Context().Err(); err != nil {
			return err
		}
	}
	return f.err
}

// A finder goes through a queue as it was at an instant.
type finder struct {
	q         *queuefs.Queue
	whole     bool      // with the fields outside of the index
	since     time.Time // nothing changed before
	until     time.Time // nothing changed after: this is left to the next answer
	deleted   bool
	backwards bool // the last job first
	err       error
}

// all yields the jobs, in the order of the queue, then the culled jobs. It
// keeps one page of the index in memory.
func (f *finder) all() iter.Seq[resource] {
	return func(yield func(resource) bool) {
		var entries []queuefs.Entry
		pages := f.q.Pages()
		for i := range pages {
			n := i
			if f.backwards {
				n = pages - 1 - i
			}
			if _, at, _, total := f.q.PageVersion(n); total == 0 || at.Before(f.since) {
				continue
			}
			entries, _, _ = f.q.Page(n, entries[:0])
			for j := range entries {
				e := &entries[j]
				if f.backwards {
					e = &entries[len(entries)-1-j]
				}
				if (e.Status == queuefs.Deleted) != f.deleted || !f.within(e.File.Modified) {
					continue
				}
				if !yield(ofEntry(f.q, e)) {
					return
				}
			}
		}
		if f.deleted {
			f.culled(yield)
		}
	}
}

func (f *finder) within(t time.Time) bool { return !t.Before(f.since) && !t.After(f.until) }

// culled goes through the tombstones.
func (f *finder) culled(yield func(resource) bool) {
	const many = 10_000
	// The index gives jobs after an instant; those of the instant belong to
	// them here.
	for after := f.since.Add(-time.Microsecond); ; {
		stones, err := f.q.Tombstones(after, many)
		if err != nil {
			f.err = err
			return
		}
		for i := range stones {
			if t := &stones[i]; f.within(t.Culled) && !yield(ofTombstone(f.q, t)) {
				return
			}
		}
		if len(stones) < many {
			return
		}
		after = stones[len(stones)-1].Culled
	}
}

// count counts the hits, up to enough unless enough is 0.
func (f *finder) count(enough int64) (n int64) {
	for range f.all() {
		if n++; n == enough {
			break
		}
	}
	return n
}

// read completes the facts of a job. It returns false if the job has changed
// since.
func (f *finder) read(s *resource) (bool, error) {
	if s.whole {
		return true, nil
	}
	j, err := f.q.Job(s.job.ID)
	if errors.Is(err, queuefs.ErrNoJob) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if status, changed := f.q.Status(j.ID); status != s.job.Status || !changed.Equal(s.changed) {
		return false, nil
	}
	s.job, s.whole = j, true
	return true, nil
}
