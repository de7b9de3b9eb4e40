package rdm

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
)

// natural reports whether an order is the order of the queue, or its reverse.
// Culled jobs come last in it.
func (f *finder) natural(order []sortKey) bool {
	return !f.deleted && strings.EqualFold(order[0].name, "Identifier")
}

// A ranked resource has a place in an order. It is only a reference: there may be very
// many.
type ranked struct {
	job     queuefs.JobID
	status  queuefs.Status
	gone    bool
	changed time.Time
	keys    []rank
	n       int64 // place in the queue; decides between equals
}

// rankedBytes are those of a ranked resource with one key, in a list that grows.
const rankedBytes = 256

// A rank is a value for comparison: number for dates and integers, else the
// text in lower case. Missing values come first.
type rank struct {
	number int64
	text   string
}

// sorted returns the first hits of a finder in the order of the view. It keeps
// only the hits in the view, and reads job files only if the order has a field
// outside of the index.
func (x *exchange) sorted(f *finder) ([]ranked, error) {
	most := int64(x.h.o.MaxOrdered)
	if x.view.last > 0 {
		most = min(most, x.view.last)
	}
	var places []int
	var descending []bool
	index := true
	for _, k := range x.view.order {
		// Unknown fields order nothing.
		if i := fieldNamed(k.name); i >= 0 {
			places, descending = append(places, i), append(descending, k.descending)
			index = index && fields[i].index
		}
	}
	best := &ranking{descending: descending}
	n := int64(0)
	for s := range f.all() {
		if err := x.r.Context().Err(); err != nil {
			return nil, err
		}
		if !index && !s.gone {
			if ok, err := f.read(&s); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		n++
		r := ranked{job: s.job.ID, status: s.job.Status, gone: s.gone, changed: s.changed, keys: ranks(&s, places), n: n}
		switch {
		case int64(len(best.list)) < most:
			if err := x.memory.Take(r.bytes()); err != nil {
				return nil, err
			}
			heap.Push(best, r)
		case x.view.last == 0 || x.view.last > most:
			return nil, badRequest("more than %d descriptions are not put in order; %s asks for the first of them", most, nameViewHits)
		case best.compare(&r, &best.list[0]) < 0:
			if err := x.memory.Grow(r.bytes() - best.list[0].bytes()); err != nil {
				return nil, err
			}
			best.list[0] = r
			heap.Fix(best, 0)
		}
	}
	slices.SortFunc(best.list, func(a, b ranked) int { return best.compare(&a, &b) })
	return best.list, f.err
}

// bytes is the memory of a ranked resource.
func (r *ranked) bytes() int {
	n := rankedBytes
	for i := range r.keys {
		n += len(r.keys[i].text)
	}
	return n + len(r.keys)*16
}

// unranked goes through a list. Jobs that have changed since are left out.
func (f *finder) unranked(list []ranked) iter.Seq[resource] {
	return func(yield func(resource) bool) {
		for i := range list {
			r := &list[i]
			s := ofTombstone(f.q, &queuefs.Tombstone{Job: r.job, Culled: r.changed})
			if !r.gone {
				e, ok := f.q.Entry(r.job)
				if !ok || e.Status != r.status || !e.File.Modified.Equal(r.changed) {
					continue
				}
				s = ofEntry(f.q, &e)
			}
			if !yield(s) {
				return
			}
		}
	}
}

func ranks(s *resource, places []int) []rank {
	keys := make([]rank, len(places))
	for k, i := range places {
		switch fields[i].typ {
		case "date":
			if t := s.date(fields[i].name); !t.IsZero() {
				keys[k].number = t.UnixMicro()
			}
		case "int":
			keys[k].number = s.job.Size
		default:
			keys[k].text = strings.ToLower(s.value(i))
		}
	}
	return keys
}

// A ranking is a heap with the last hit at its top.
type ranking struct {
	list       []ranked
	descending []bool
}

func (r *ranking) compare(a, b *ranked) int {
	for i, down := range r.descending {
		c := cmp.Or(cmp.Compare(a.keys[i].number, b.keys[i].number), strings.Compare(a.keys[i].text, b.keys[i].text))
		if down {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.n, b.n)
}

func (r *ranking) Len() int           { return len(r.list) }
func (r *ranking) Less(i, j int) bool { return r.compare(&r.list[i], &r.list[j]) > 0 }
func (r *ranking) Swap(i, j int)      { r.list[i], r.list[j] = r.list[j], r.list[i] }
func (r *ranking) Push(e any)         { r.list = append(r.list, e.(ranked)) }
func (r *ranking) Pop() any {
	last := r.list[len(r.list)-1]
	r.list = r.list[:len(r.list)-1]
	return last
}
