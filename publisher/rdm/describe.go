package rdm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
)

// A field is an attribute that every description may have, and its entry in the schema.
type field struct {
	name  string
	about string
	typ   string                  // Data-Type
	flag  string                  // of the schema; "" for none
	value func(j *job.Job) string // "" if the job lacks it
}

// fields are in the order of the default view; their places are the numbers in the schema.
var fields = [...]field{
	{"Title", "Job file name", "varchar", "", func(j *job.Job) string { return j.Filename }},
	{"Identifier", "Job identifier, unique in its queue", "varchar", "Enforce-Uniqueness",
		func(j *job.Job) string { return j.ID.String() }},
	{"Queue", "Queue identifier", "varchar", "Is-Internal", func(j *job.Job) string { return j.Queue }},
	{"Status", "pending, consumed or deleted", "varchar", "", func(j *job.Job) string { return j.Status.String() }},
	{"Classification", "Taxonomy node queue:status", "varchar", "",
		func(j *job.Job) string { return j.Queue + ":" + j.Status.String() }},
	{"Submitter", "Submitting user agent", "varchar", "", func(j *job.Job) string { return j.Submitter }},
	{"Size", "Payload size in octets", "int", "", func(j *job.Job) string {
		if j.Submitted.IsZero() { // culled
			return ""
		}
		return strconv.FormatInt(j.Size, 10)
	}},
	{"Submitted", "Submission date", "date", "", func(j *job.Job) string { return httpDate(j.Submitted) }},
	{"Consumed", "Consumption date", "date", "", func(j *job.Job) string { return httpDate(j.Consumed) }},
	{"Deleted", "Deletion date", "date", "", func(j *job.Job) string { return httpDate(j.Deleted) }},
	{"Sidecar", "Opaque sidecar data", "blob", "", func(j *job.Job) string { return j.Sidecar }},
	{"Digest-Type", "Payload message digest type", "varchar", "", func(j *job.Job) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Type.String()
	}},
	{"Digest-Value", "Payload message digest in hexadecimal", "varchar", "", func(j *job.Job) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Hex
	}},
	{changedField, "Date of the last change of the job", "date", "", nil}, // of the index
}

const changedField = "RD-Last-Modified"

// A resource is a job to be described.
type resource struct {
	id      job.ID
	status  job.Status
	changed time.Time
	culled  bool // nothing but its number is known
}

// describe returns the description of a job, and false if the job has changed since. The
// description that was submitted is the payload: its attributes come first, and those of
// the job that it lacks follow.
func (x *exchange) describe(r resource) (o soif.Object, ok bool, err error) {
	q := x.catalog
	j := job.Job{ID: r.id, Queue: q.ID(), Status: r.status}
	o = soif.Object{Type: documentObject, URL: x.base.JobRef("state", q.ID(), r.id)}
	if !r.culled {
		j, err = q.Job(r.id)
		if status, changed := q.Status(r.id); errors.Is(err, ledger.ErrNoJob) || err == nil &&
			(status != r.status || !changed.Equal(r.changed)) {
			return o, false, nil
		}
		if err != nil {
			return o, false, err
		}
		o.URL = cmp.Or(j.Extra.Value(elemURL), o.URL)
		if err := x.submitted(&j, &o); err != nil {
			return o, false, err
		}
	}
	for i := range fields {
		f := &fields[i]
		if _, given := o.Lookup(f.name); given {
			continue
		}
		if f.value == nil {
			add(&o, f.name, httpDate(r.changed))
		} else {
			add(&o, f.name, f.value(&j))
		}
	}
	return o, true, nil
}

// submitted takes the description that was submitted as the payload of a job. A payload
// that is no SOIF is no description.
func (x *exchange) submitted(j *job.Job, o *soif.Object) error {
	if j.MediaType != soifType || j.Size > soif.DefaultLimit {
		return nil
	}
	in, err := x.catalog.Payload(j.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	r := soif.NewReader(in)
	r.Memory = x.memory.Grow
	given, err := r.Read()
	if _, bad := errors.AsType[*soif.ParseError](err); bad || err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	o.Type = given.Type
	for _, a := range given.Attributes {
		if !strings.EqualFold(a.Name, changedField) { // ours is what since is about
			o.Attributes = append(o.Attributes, a)
		}
	}
	return nil
}

// retrieve answers rd-request and rd-request-deleted. The answer is streamed; what is kept
// in memory is one page of the index, and with View-Order what is sorted.
func (x *exchange) retrieve() error {
	since, err := parseSince(x.said(nameScope))
	if err != nil {
		return err
	}
	if err := x.open(web.Read); err != nil {
		return err
	}
	until := x.catalog.State().LastEvent
	x.w.Header().Set("Last-Modified", httpDate(until))
	if x.kind.deleted() && x.view.attributes == nil {
		x.view.attributes = []string{"Status", changedField}
	}
	found := x.find(since, until)
	if len(x.view.order) > 0 {
		if found, err = x.sorted(found); err != nil {
			return err
		}
	}
	hit, hits := int64(0), int64(0)
	for _, err := range found {
		if hit++; err != nil {
			return err
		}
		if x.view.past(hit) {
			break
		}
		if x.view.wants(hit) {
			hits++
		}
	}
	if hits == 0 {
		return x.answer("", "0 results")
	}
	if err := x.answer(fmt.Sprintf("%d %s objects", hits, documentObject), ""); err != nil {
		return err
	}
	hit = 0
	held := x.memory.Held()
	for r, err := range found {
		if hit++; err != nil || x.view.past(hit) || x.started && x.r.Method == http.MethodHead {
			return err
		}
		if !x.view.wants(hit) {
			continue
		}
		x.memory.Return(held) // of the last one
		o, ok, err := x.describe(r)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		x.view.keep(&o)
		if err := cmp.Or(o.Write(x.out), x.r.Context().Err()); err != nil {
			return err
		}
	}
	return nil
}

// find goes through the catalog as it was at an instant: the jobs in the order of the
// queue, then the culled jobs. Nothing changed before since, and what changed after until
// is left to the next answer. It keeps one page of the index in memory.
func (x *exchange) find(since, until time.Time) iter.Seq2[resource, error] {
	within := func(t time.Time) bool { return !t.Before(since) && !t.After(until) }
	return func(yield func(resource, error) bool) {
		names, err := x.h.names(x.catalog)
		if err != nil {
			yield(resource{}, err)
			return
		}
		var entries []ledger.Entry
		for n := range x.catalog.Pages() {
			if _, at, _, total := x.catalog.PageVersion(n); total == 0 || at.Before(since) {
				continue
			}
			entries, _, _ = x.catalog.Page(n, entries[:0])
			for j := range entries {
				e := &entries[j]
				if within(e.File.Modified) && names.wanted(e, x.kind.deleted()) &&
					!yield(resource{id: e.Job, status: e.Status, changed: e.File.Modified}, nil) {
					return
				}
			}
		}
		if !x.kind.deleted() {
			return
		}
		const many = 10_000
		// The index gives jobs after an instant; those of the instant belong to
		// them here.
		for after := since.Add(-time.Microsecond); ; {
			stones, err := x.catalog.Tombstones(after, many)
			if err != nil {
				yield(resource{}, err)
				return
			}
			for i := range stones {
				t := &stones[i]
				r := resource{id: t.Job, status: job.Deleted, changed: t.Culled, culled: true}
				if within(t.Culled) && !yield(r, nil) {
					return
				}
			}
			if len(stones) < many {
				return
			}
			after = stones[len(stones)-1].Culled
		}
	}
}

// A ranked resource has keys that put it in the order of a view.
type ranked struct {
	resource
	keys []string
}

// rankedBytes are those of a ranked resource with one key, in a list that grows.
const rankedBytes = 256

// sorted returns the first hits in the order of the view.
func (x *exchange) sorted(found iter.Seq2[resource, error]) (iter.Seq2[resource, error], error) {
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
	for s, err := range found {
		if err != nil {
			return nil, err
		}
		o, ok, err := x.describe(s)
		if err != nil {
			return nil, err
		}
		r, size := ranked{resource: s}, rankedBytes
		for _, k := range x.view.order {
			key := rankOf(k.name, strings.Join(o.Values(k.name), "\n"))
			r.keys, size = append(r.keys, key), size+len(key)
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
			return nil, badRequest("more than %d descriptions are not put in order; %s asks for the first of them",
				most, nameViewHits)
		case len(list) >= 2*most:
			first()
		}
	}
	first()
	return func(yield func(resource, error) bool) {
		for i := range list {
			if !yield(list[i].resource, nil) {
				return
			}
		}
	}, nil
}

// rankOf returns a value as text that is in order: dates and integers as numbers of the
// same length, the rest without case. Missing values come first.
func rankOf(name, value string) string {
	typ := ""
	for i := range fields {
		if strings.EqualFold(fields[i].name, name) {
			typ = fields[i].typ
		}
	}
	number := int64(0)
	switch typ {
	case "date":
		if t, err := http.ParseTime(value); err == nil {
			number = t.Unix()
		}
	case "int":
		number, _ = strconv.ParseInt(value, 10, 64)
	default:
		return strings.ToLower(value)
	}
	return fmt.Sprintf("%020d", uint64(number)+1<<63) // numbers below zero are before zero
}

// compare puts ranked resources in the order of the view.
func (v *view) compare(a, b ranked) int {
	for i, k := range v.order {
		c := strings.Compare(a.keys[i], b.keys[i])
		if k.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
