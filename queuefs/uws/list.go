package uws

import (
	"errors"
	"math"
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

// beforeField is the parameter for the rest of a long list. Its name is not of UWS.
const beforeField = "BEFORE"

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

// within are the jobs of the index that can be in a phase. Jobs in other phases
// can be anywhere.
var within = map[phase][]queuefs.ListOptions{
	pending:   {{Status: queuefs.Pending, Held: true}},
	held:      {{Status: queuefs.Pending, Held: true}},
	queued:    {{Status: queuefs.Pending}},
	completed: {{Status: queuefs.Consumed}},
	failed:    {{Status: queuefs.Consumed, Outcome: queuefs.Failed}},
	aborted:   {{Status: queuefs.Consumed, Outcome: queuefs.Aborted}, {Status: queuefs.Deleted}},
	suspended: nil,
}

// candidates are up to most of the possible jobs of a list, the last one first,
// by the index alone.
func (f *filter) candidates(q *queuefs.Queue, most int) (ids []queuefs.JobID) {
	var sets []queuefs.ListOptions
	for _, p := range f.phases {
		some, known := within[p]
		switch {
		case p == executing:
			ids = append(ids, q.Leased()...)
		case !known:
			some = []queuefs.ListOptions{{}}
		}
		sets = append(sets, some...)
	}
	if len(f.phases) == 0 {
		sets = []queuefs.ListOptions{{}}
	}
	for _, o := range sets {
		o.Limit = most
		some, _ := q.Latest(o, f.before, math.MaxInt)
		ids = append(ids, some...)
	}
	ids = slices.DeleteFunc(ids, func(id queuefs.JobID) bool { return f.before != 0 && id >= f.before })
	slices.Sort(ids)
	slices.Reverse(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), most)]
}

// each visits the jobs of a list for the caller, the last of the queue first,
// until visit returns false, or until it has read the most jobs for a request.
// Then next is the last of them; it is 0 if the list is whole.
func (h *Handler) each(r *request, f filter, visit func(*job) bool) (next queuefs.JobID, err error) {
	ids := f.candidates(r.q, h.o.MaxListed+1)
	for i, id := range ids {
		if i == h.o.MaxListed {
			return ids[i-1], nil
		}
		if err := r.Context().Err(); err != nil {
			return 0, err
		}
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
		if j := r.listed(&cut); j != nil && r.sees(cut.Owner) && f.wants(j) && !visit(j) {
			return 0, nil
		}
	}
	return 0, nil
}

// sees reports whether jobs of an owner are in the lists of the caller.
func (r *request) sees(owner string) bool {
	c := r.caller
	return c.Admin || owner != "" && owner == c.Name || owner == "" && c.Delete && !c.Own
}

// newest returns the jobs of a list; with LAST the newest first. Creation is never later
// than submission, so the search for these ends at a job submitted before the creation
// of all found ones. next is where another list goes on, 0 for nowhere.
func (h *Handler) newest(r *request, f filter) (list []*job, next queuefs.JobID, err error) {
	next, err = h.each(r, f, func(j *job) bool {
		at := len(list)
		if f.last > 0 {
			if at >= f.last && stamp(j.cut.Submitted).Before(list[f.last-1].created()) {
				return false
			}
			at, _ = slices.BinarySearchFunc(list, j, func(a, b *job) int { return b.created().Compare(a.created()) })
		}
		list = slices.Insert(list, at, j)
		if f.last > 0 {
			list = list[:min(len(list), f.last)]
		}
		return true
	})
	return list, next, err
}

// listedBytes is about what a job in a list takes in memory.
const listedBytes = 2 << 10

// jobs serves the job list. With LAST it is sorted; else it is in the order of the
// queue, the last first. A list of a long queue ends after Options.MaxListed jobs that
// were read, with a link to the next part.
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
	list, next, err := h.newest(r, f)
	if err != nil {
		return err
	}
	if next != 0 {
		query := url.Values{}
		for _, p := range r.query {
			if !strings.EqualFold(p.name, beforeField) {
				query.Add(p.name, p.value)
			}
		}
		query.Set(beforeField, next.String())
		w.Header().Set("Link", wellknown.Link(r.ref("async")+"?"+query.Encode(), "next"))
	}
	if page {
		return h.listPage(w, r, f, list)
	}
	if err := buffers.Of(r.Context()).Take(len(list) * listedBytes); err != nil {
		return err
	}
	d := &document{}
	d.open("jobs", !r.set.old)
	for _, j := range list {
		d.begin("jobref", "id", j.id, "xlink:type", "simple", "xlink:href", r.ref("async", j.id))
		d.element("phase", string(j.phase()))
		if !r.set.old {
			if id := j.runID(); id != "" {
				d.element("runId", id)
			}
			d.nillable("ownerId", j.owner())
			d.element("creationTime", formatTime(j.created()))
		}
		d.end("jobref")
	}
	d.end("jobs")
	sendXML(w, d)
	return nil
}
