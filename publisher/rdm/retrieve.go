package rdm

import (
	"cmp"
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
	n, err := x.h.names(x.r.Context(), x.catalog)
	if err != nil {
		return err
	}
	f := &finder{q: x.catalog, names: n, since: since, until: st.LastEvent, deleted: x.typ == RDRequestDeleted}
	if f.deleted && x.view.attributes == nil {
		x.view.attributes = ofDeleted
	}
	found, hits := f.all(), int64(0)
	switch order := x.view.order; {
	case len(order) > 0 && (f.deleted || !strings.EqualFold(order[0].name, "Identifier")):
		list, err := x.sorted(f)
		if err != nil {
			return err
		}
		found, hits = slices.Values(list), int64(len(list))
	default: // the order of the queue, or its reverse
		f.backwards = len(order) > 0 && order[0].descending
		for range found {
			if hits++; hits == x.view.last {
				break
			}
		}
	}
	hits = x.view.hits(hits)
	head := Header{Type: x.typ.reply(), Catalog: x.answered(), Interpret: number(hits) + " " + documentObject + " objects"}
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
		if hit++; x.view.past(hit) {
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
	names     *names
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
			if f.backwards {
				slices.Reverse(entries)
			}
			for j := range entries {
				e := &entries[j]
				if f.within(e.File.Modified) && f.wanted(e) && !yield(resource{id: e.Job, status: e.Status, changed: e.File.Modified}) {
					return
				}
			}
		}
		if f.deleted {
			f.culled(yield)
		}
	}
}

// wanted reports whether a job is in the catalog, or was, if that is what is wanted.
func (f *finder) wanted(e *queuefs.Entry) bool {
	switch f.names.of(e.Job) {
	case replaced:
		return false
	case deleted:
		return f.deleted
	}
	return (e.Status == queuefs.Deleted) == f.deleted
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
		x.memory.Return(held) // of the last description
		o, ok, err := x.describe(&s)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		r := ranked{resource: s}
		size := rankedBytes
		for _, k := range x.view.order {
			key := rankOf(k.name, strings.Join(o.Values(k.name), "\n"))
			r.keys, size = append(r.keys, key), size+len(key.text)
		}
		x.memory.Return(held)
		if err := x.memory.Take(size); err != nil {
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
		if err := x.r.Context().Err(); err != nil {
			return nil, err
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
	if i := fieldNamed(name); i >= 0 {
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

// fieldNamed returns the place of a field, -1 if there is none of the name.
func fieldNamed(name string) int {
	return slices.IndexFunc(fields[:], func(f field) bool { return strings.EqualFold(f.name, name) })
}
