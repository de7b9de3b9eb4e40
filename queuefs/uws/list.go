package uws

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// A filter selects jobs of a list (UWS 1.1, 2.2.2.1).
type filter struct {
	phases []phase
	after  time.Time
	last   int // 0: all
}

func (r *request) filter() (f filter, err error) {
	if r.set.old {
		return f, nil
	}
	for _, p := range r.query {
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

// maxListed is the most jobs of a list with LAST.
const maxListed = 100_000

// A ref is a job in a list.
type ref struct {
	id, runID, owner string
	phase            phase
	created          time.Time
}

func refOf(j *job) ref { return ref{j.id, j.runID(), j.owner(), j.phase(), j.created()} }

// jobs serves the job list. With LAST it is sorted and costs its own length;
// else it has all jobs, the last of the queue first.
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
	if f.last > 0 {
		refs, err := h.newest(r, f)
		if err != nil {
			return err
		}
		if page {
			return h.listPage(w, r, f, refs)
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
	w.Header().Set("Content-Type", mediaXML)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	d := &document{}
	d.open("jobs", !r.set.old)
	err = h.each(r, f, func(j *job) (bool, error) {
		d.ref(r, refOf(j))
		if d.buf.Len() < 64<<10 {
			return true, nil
		}
		_, err := d.buf.WriteTo(w)
		return true, err
	})
	if err != nil {
		// The client must notice the cut document.
		if h.o.Log != nil && r.Context().Err() == nil {
			h.o.Log(r.Request, err)
		}
		panic(http.ErrAbortHandler)
	}
	d.end("jobs")
	d.buf.WriteTo(w)
	return nil
}

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

// newest returns the last created jobs, the newest first. Creation is never
// later than submission, so the search ends at a job submitted before the
// creation of all found ones.
func (h *Handler) newest(r *request, f filter) (refs []ref, err error) {
	n := min(f.last, maxListed)
	byAge := func(a, b ref) int { return b.created.Compare(a.created) }
	err = h.each(r, f, func(j *job) (bool, error) {
		if len(refs) >= n && stamp(j.cut.Submitted).Before(refs[n-1].created) {
			return false, nil
		}
		one := refOf(j)
		at, _ := slices.BinarySearchFunc(refs, one, byAge)
		refs = slices.Insert(refs, at, one)
		refs = refs[:min(len(refs), n)]
		return true, nil
	})
	return refs, err
}
