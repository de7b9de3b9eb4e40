package uws

import (
	"errors"
	"iter"
	"slices"

	"cutie/queuefs"
)

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
		j := r.list.jobOf(r.set, &cut)
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
