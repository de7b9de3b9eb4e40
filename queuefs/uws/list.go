package uws

import (
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/wellknown"
)

// A filter selects jobs of a list (UWS 1.1, 2.2.2.1).
type filter struct {
	phases []phase
	after  time.Time
	last   int           // 0: all
	before queuefs.JobID // only earlier ones of the queue; 0: all
}

func (r *request) filter() (f filter, err error) {
	for _, p := range r.query {
		if r.set.old && !strings.EqualFold(p.name, beforeField) {
			continue
		}
		if p.value == "" && r.page() {
			continue // an empty field of a page
		}
		switch strings.ToUpper(p.name) {
		case "PHASE":
			one, err := parsePhase(p.value)
			if err != nil {
				return f, bad("PHASE: %v", err)
			}
			f.phases = append(f.phases, one)
		case "AFTER":
			if f.after, err = parseTime(p.value); err != nil {
				return f, bad("AFTER: %v", err)
			}
		case "LAST":
			if f.last, err = strconv.Atoi(p.value); err != nil || f.last < 1 {
				return f, bad("LAST is %.40q, not a number above 0", p.value)
			}
		case beforeField:
			if f.before, err = queuefs.ParseJobID(p.value); err != nil {
				return f, bad("%s is %.40q, no job of the queue", beforeField, p.value)
			}
		}
	}
	return f, nil
}

// wants reports whether a job is in the list. Archived jobs are only in lists
// of archived ones.
func (f *filter) wants(j *job) bool {
	p := j.phase()
	if len(f.phases) == 0 && p == archived || len(f.phases) > 0 && !slices.Contains(f.phases, p) {
		return false
	}
	return f.after.IsZero() || j.created().After(f.after)
}

// mayWant reports whether a job of the status can be in the list.
func (f *filter) mayWant(st queuefs.Status) bool {
	return len(f.phases) == 0 || slices.ContainsFunc(f.phases, func(p phase) bool { return slices.Contains(phasesOf[st], p) })
}

var phasesOf = map[queuefs.Status][]phase{
	queuefs.Pending:  {pending, queued, held, archived, unknown},
	queuefs.Consumed: {executing, completed, failed, aborted, archived, unknown},
	queuefs.Deleted:  {aborted, archived, unknown},
}

// sees reports whether jobs of an owner are in the lists of the caller.
func (r *request) sees(owner string) bool {
	c := r.caller
	return c.Admin || owner != "" && owner == c.Name || owner == "" && c.Delete && !c.Own
}

// beforeField is the parameter for the rest of a long list. Its name is not of UWS.
const beforeField = "BEFORE"

// A ref is a job in a list.
type ref struct {
	id, runID, owner string
	phase            phase
	created          time.Time
}

func refOf(j *job) ref { return ref{j.id, j.runID(), j.owner(), j.phase(), j.created()} }

// jobs serves the job list. With LAST it is sorted; else it is in the order of the
// queue, the last first. A list of a long queue ends after Options.MaxListed jobs that
// were looked at, with a link to the next part.
func (h *Handler) jobs(w http.ResponseWriter, r *request) error {
	f, err := r.filter()
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	page := r.page()
	if page && f.last == 0 {
		f.last = 100
	}
	refs, next, err := h.newest(r, f)
	if err != nil {
		return err
	}
	if next != 0 {
		query := url.Values{}
		for _, p := range r.query {
			query.Add(p.name, p.value)
		}
		for name := range query {
			if strings.EqualFold(name, beforeField) {
				query.Del(name)
			}
		}
		query.Set(beforeField, next.String())
		w.Header().Set("Link", wellknown.Link(r.ref("async")+"?"+query.Encode(), "next"))
	}
	if page {
		return h.listPage(w, r, f, refs)
	}
	if err := buffers.Of(r.Context()).Take(len(refs) * refBytes); err != nil {
		return err
	}
	d := &document{}
	d.open("jobs", !r.set.old)
	for _, ref := range refs {
		d.ref(r, ref)
	}
	d.end("jobs")
	sendXML(w, d)
	return nil
}

// refBytes is about what a job in a list takes in memory.
const refBytes = 1 << 10

func (d *document) ref(r *request, j ref) {
	d.buf.WriteString("<uws:jobref")
	d.attr("id", j.id)
	d.attr("xlink:type", "simple")
	d.attr("xlink:href", r.ref("async", j.id))
	d.buf.WriteString(">")
	d.element("phase", string(j.phase))
	if !r.set.old {
		if j.runID != "" {
			d.element("runId", j.runID)
		}
		d.nillable("ownerId", j.owner)
		d.element("creationTime", formatTime(j.created))
	}
	d.end("jobref")
}

// newest returns the jobs of a list; with LAST the newest first. Creation is never later
// than submission, so the search for these ends at a job submitted before the creation
// of all found ones. next is where another list goes on, 0 for nowhere.
func (h *Handler) newest(r *request, f filter) (refs []ref, next queuefs.JobID, err error) {
	byAge := func(a, b ref) int { return b.created.Compare(a.created) }
	next, err = h.each(r, f, func(j *job) (bool, error) {
		if f.last == 0 {
			refs = append(refs, refOf(j))
			return true, nil
		}
		if len(refs) >= f.last && stamp(j.cut.Submitted).Before(refs[f.last-1].created) {
			return false, nil
		}
		one := refOf(j)
		at, _ := slices.BinarySearchFunc(refs, one, byAge)
		refs = slices.Insert(refs, at, one)
		refs = refs[:min(len(refs), f.last)]
		return true, nil
	})
	return refs, next, err
}

// each visits the jobs of a list for the caller, the last of the queue first,
// until visit returns false, or until it has looked at the most jobs for a request.
// Then next is the last of them; it is 0 if the list is whole.
func (h *Handler) each(r *request, f filter, visit func(*job) (bool, error)) (next queuefs.JobID, err error) {
	looked := 0
	for id := range candidates(r.q, f) {
		if f.before != 0 && id >= f.before {
			continue
		}
		if err := r.Context().Err(); err != nil {
			return 0, err
		}
		if looked++; looked > h.o.MaxListed {
			return next, nil
		}
		next = id
		cut, err := r.q.Job(id)
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !f.after.IsZero() && !cut.Submitted.After(f.after) {
			return 0, nil // older ones were created before, too
		}
		if !r.sees(cut.Owner) {
			continue
		}
		j := r.listed(&cut)
		if j == nil || !f.wants(j) {
			continue
		}
		if more, err := visit(j); err != nil || !more {
			return 0, err
		}
	}
	return 0, nil
}

// candidates are the possible jobs of a list, the last one first, from memory.
// For rare phases it is not the whole queue.
func candidates(q *queuefs.Queue, f filter) iter.Seq[queuefs.JobID] {
	if few, ok := few(q, f.phases); ok {
		return slices.Values(few)
	}
	return func(yield func(queuefs.JobID) bool) {
		var entries []queuefs.Entry
		for n := q.Pages() - 1; n >= 0; n-- {
			entries, _, _ = q.Page(n, entries[:0])
			for i := len(entries) - 1; i >= 0; i-- {
				if f.mayWant(entries[i].Status) && !yield(entries[i].Job) {
					return
				}
			}
		}
	}
}

// few returns the jobs in phases known to the index, the last one first; false
// for other phases.
func few(q *queuefs.Queue, phases []phase) (ids []queuefs.JobID, ok bool) {
	state := q.State()
	all := func(many int64, o queuefs.ListOptions) {
		if o.Limit = 1 << 40; many > 0 {
			ids = append(ids, q.IDs(o)...)
		}
	}
	for _, p := range phases {
		switch p {
		case held, pending:
			all(state.Held, queuefs.ListOptions{Status: queuefs.Pending, Held: true})
		case executing:
			ids = append(ids, q.Leased()...)
		case failed:
			all(state.Failed, queuefs.ListOptions{Status: queuefs.Consumed, Outcome: queuefs.Failed})
		case aborted:
			all(state.Consumed, queuefs.ListOptions{Status: queuefs.Consumed, Outcome: queuefs.Aborted})
			all(state.Deleted, queuefs.ListOptions{Status: queuefs.Deleted})
		case "SUSPENDED":
		default:
			return nil, false
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return slices.Compact(ids), len(phases) > 0
}
