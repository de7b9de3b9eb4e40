package rdm

import (
	"cmp"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// retrieve answers rd-request and rd-request-deleted.
func (x *exchange) retrieve() error {
	since, err := parseSince(x.scope)
	if err != nil {
		return err
	}
	if err := x.open(web.Read); err != nil {
		return err
	}
	st := x.catalog.State()
	x.w.Header().Set("Last-Modified", httpDate(st.LastEvent))
	n, err := x.h.names(x.catalog)
	if err != nil {
		return err
	}
	f := &finder{q: x.catalog, names: n, since: since, until: st.LastEvent, deleted: x.typ == RDRequestDeleted}
	if f.deleted && x.view.attributes == nil {
		x.view.attributes = []string{"Status", changedField}
	}
	found, hits := f.all(), int64(0)
	if len(x.view.order) > 0 {
		list, err := x.sorted(f)
		if err != nil {
			return err
		}
		found, hits = slices.Values(list), int64(len(list))
	} else {
		for range found {
			if hits++; hits == x.view.last {
				break
			}
		}
	}
	hits = x.view.hits(hits)
	head := Header{Catalog: x.answered(), Interpret: fmt.Sprintf("%d %s objects", hits, documentObject)}
	if hits == 0 {
		head.Interpret, head.Error = "", "0 results"
	}
	if err := x.answer(&head, nil); err != nil || hits == 0 {
		return cmp.Or(err, f.err)
	}
	var buf []byte
	hit := int64(0)
	held := x.memory.Held()
	for s := range found {
		if hit++; x.view.past(hit) || x.started && x.r.Method == http.MethodHead {
			break
		}
		if !x.view.wants(hit) {
			continue
		}
		x.memory.Return(held) // of the last one
		o, ok, err := x.describe(&s)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		x.view.keep(&o)
		buf = o.Append(buf[:0])
		if _, err := x.out.Write(buf); err != nil {
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
	q       *queuefs.Queue
	names   *names
	since   time.Time // nothing changed before
	until   time.Time // nothing changed after: this is left to the next answer
	deleted bool
	err     error
}

// all yields the jobs, in the order of the queue, then the culled jobs. It
// keeps one page of the index in memory.
func (f *finder) all() iter.Seq[resource] {
	return func(yield func(resource) bool) {
		var entries []queuefs.Entry
		for n := range f.q.Pages() {
			if _, at, _, total := f.q.PageVersion(n); total == 0 || at.Before(f.since) {
				continue
			}
			entries, _, _ = f.q.Page(n, entries[:0])
			for j := range entries {
				e := &entries[j]
				if f.within(e.File.Modified) && f.names.wanted(e, f.deleted) &&
					!yield(resource{id: e.Job, status: e.Status, changed: e.File.Modified}) {
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
			if t := &stones[i]; f.within(t.Culled) && !yield(resource{id: t.Job, status: queuefs.Deleted, changed: t.Culled, culled: true}) {
				return
			}
		}
		if len(stones) < many {
			return
		}
		after = stones[len(stones)-1].Culled
	}
}

// A ranked resource has a place in an order.
type ranked struct {
	resource
	keys []rank
}

// rankedBytes are those of a ranked resource with one key, in a list that grows.
const rankedBytes = 256

// A rank is a value for comparison: number for dates and integers, else the
// text in lower case. Missing values come first.
type rank struct {
	number int64
	text   string
}

// sorted returns the first hits of a finder in the order of the view.
func (x *exchange) sorted(f *finder) ([]resource, error) {
	most := x.h.o.MaxOrdered
	partly := x.view.last > 0 && x.view.last <= int64(most)
	if partly {
		most = int(x.view.last)
	}
	var list []ranked
	first := func() { // the order of the queue decides between equals
		slices.SortStableFunc(list, x.view.compare)
		clear(list[min(most, len(list)):])
		list = list[:min(most, len(list))]
	}
	held := x.memory.Held()
	for s := range f.all() {
		o, ok, err := x.describe(&s)
		if err != nil {
			return nil, err
		}
		r, size := ranked{resource: s}, rankedBytes
		for _, k := range x.view.order {
			key := rankOf(k.name, strings.Join(o.Values(k.name), "\n"))
			r.keys, size = append(r.keys, key), size+len(key.text)
		}
		x.memory.Return(held) // of the description
		if !ok {
			continue
		}
		if err := cmp.Or(x.memory.Take(size), x.r.Context().Err()); err != nil {
			return nil, err
		}
		held = x.memory.Held()
		list = append(list, r)
		switch {
		case len(list) > most && !partly:
			return nil, badRequest("more than %d descriptions are not put in order; %s asks for the first of them", most, nameViewHits)
		case len(list) >= 2*most:
			first()
		}
	}
	first()
	all := make([]resource, len(list))
	for i := range list {
		all[i] = list[i].resource
	}
	return all, f.err
}

func rankOf(name, value string) (k rank) {
	typ := ""
	if i := slices.IndexFunc(fields[:], func(f field) bool { return strings.EqualFold(f.name, name) }); i >= 0 {
		typ = fields[i].typ
	}
	switch typ {
	case "date":
		if t, err := http.ParseTime(value); err == nil {
			k.number = t.Unix()
		}
	case "int":
		k.number, _ = strconv.ParseInt(value, 10, 64)
	default:
		k.text = strings.ToLower(value)
	}
	return k
}

// compare puts ranked resources in the order of the view.
func (v *view) compare(a, b ranked) int {
	for i, k := range v.order {
		c := cmp.Or(cmp.Compare(a.keys[i].number, b.keys[i].number), strings.Compare(a.keys[i].text, b.keys[i].text))
		if k.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
