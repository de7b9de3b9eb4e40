package uws

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// A filter is what a list is asked for (UWS 1.1, 2.2.2.1).
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

// wants tells whether a job is in the list. What is archived is there only for
// those who ask for it.
func (f *filter) wants(j *job) bool {
	p := j.phase()
	if len(f.phases) == 0 && p == archived || len(f.phases) > 0 && !slices.Contains(f.phases, p) {
		return false
	}
	return f.after.IsZero() || j.created().After(f.after)
}

// mayWant tells from where a job of the queue stands whether it may be in the
// list.
func (f *filter) mayWant(st queuefs.Status) bool {
	of := map[queuefs.Status][]phase{
		queuefs.Pending:  {queued, held, archived},
		queuefs.Consumed: {executing, completed, failed, aborted, archived},
		queuefs.Deleted:  {aborted, archived},
	}[st]
	return len(of) > 0 && (len(f.phases) == 0 || slices.ContainsFunc(f.phases, func(p phase) bool { return slices.Contains(of, p) }))
}

// sees tells whether a job is in the lists of the caller.
func (r *request) sees(owner string) bool {
	c := r.caller
	return c.Admin || owner != "" && owner == c.Name || owner == "" && c.Delete
}

// maxListed is how many jobs a page, or LAST, has at most.
const maxListed = 10_000

// list answers with the job list. With LAST it is sorted, and costs what it
// shows; otherwise it has all jobs, the newest ones of the queue first.
func (h *Handler) list(w http.ResponseWriter, r *request) error {
	f, err := r.filter()
	if err != nil {
		return err
	}
	page := r.page()
	if page && f.last == 0 {
		f.last = 100
	}
	if f.last > 0 {
		jobs, err := h.newest(r, f)
		if err != nil {
			return err
		}
		if page {
			return h.listPage(w, r, jobs)
		}
		d := &document{}
		d.open("jobs", !r.set.old)
		for _, j := range jobs {
			h.writeRef(d, j)
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
		h.writeRef(d, j)
		if d.buf.Len() < 64<<10 {
			return true, nil
		}
		_, err := d.buf.WriteTo(w)
		return true, err
	})
	if err != nil {
		// What was written is no whole document, and is to be seen as that.
		if h.o.Log != nil && r.Context().Err() == nil {
			h.o.Log(r.Request, err)
		}
		panic(http.ErrAbortHandler)
	}
	d.end("jobs")
	d.buf.WriteTo(w)
	return nil
}

func (h *Handler) writeRef(d *document, j *job) {
	d.buf.WriteString("<uws:jobref")
	d.attr("id", j.id)
	d.attr("xlink:type", "simple")
	d.attr("xlink:href", h.ref(j.q, "async", j.id))
	d.buf.WriteString(">")
	d.element("phase", string(j.phase()))
	if !j.set.old {
		if id := j.runID(); id != "" {
			d.element("runId", id)
		}
		d.nillable("ownerId", j.owner())
		d.element("creationTime", formatTime(j.created()))
	}
	d.end("jobref")
}

// newest returns the last jobs that were created, the newest first. A job is
// never created after it was submitted, so that those submitted before all
// that were found need not be looked at.
func (h *Handler) newest(r *request, f filter) (jobs []*job, err error) {
	n := min(f.last, maxListed)
	byAge := func(a, b *job) int { return b.created().Compare(a.created()) }
	err = h.each(r, f, func(j *job) (bool, error) {
		if len(jobs) >= n && j.cut != nil && stamp(j.cut.Submitted).Before(jobs[n-1].created()) {
			return false, nil
		}
		at, _ := slices.BinarySearchFunc(jobs, j, byAge)
		jobs = slices.Insert(jobs, at, j)
		jobs = jobs[:min(len(jobs), n)]
		return true, nil
	})
	return jobs, err
}

// each visits the jobs that the caller sees and f wants until visit returns
// false: those that were not started, then those of the queue, the last one
// first. A job that is started meanwhile may be seen twice, as both.
func (h *Handler) each(r *request, f filter, visit func(*job) (bool, error)) error {
	seen := map[string]bool{}
	for id, st := range h.shelf(r.q).list() {
		if !r.sees(st.owner) {
			continue
		}
		j, err := h.find(r.q, r.set, id)
		if errors.Is(err, errNoJob) {
			continue
		}
		if err != nil {
			return err
		}
		seen[id] = true
		if f.wants(j) {
			if more, err := visit(j); err != nil || !more {
				return err
			}
		}
	}
	var entries []queuefs.Entry
	for n := r.q.Pages() - 1; n >= 0; n-- {
		entries, _, _ = r.q.Page(n, entries[:0])
		for i := len(entries) - 1; i >= 0; i-- {
			e := &entries[i]
			if !f.after.IsZero() && !e.Payload.Modified.After(f.after) {
				return nil // older ones were created before, too
			}
			if !f.mayWant(e.Status) {
				continue
			}
			if err := r.Context().Err(); err != nil {
				return err
			}
			cut, err := r.q.Job(e.Job)
			if errors.Is(err, queuefs.ErrNoJob) {
				continue
			}
			if err != nil {
				return err
			}
			if !r.sees(cut.Owner) {
				continue
			}
			j := h.jobOf(r.q, r.set, h.shelf(r.q), &cut)
			if j == nil || seen[j.id] || !f.wants(j) {
				continue
			}
			if more, err := visit(j); err != nil || !more {
				return err
			}
		}
	}
	return nil
}
