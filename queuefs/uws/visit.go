package uws

import (
	"errors"
	"iter"
	"slices"

	"cutie/queuefs"
)

// each visits the jobs that the caller sees and f wants until visit returns
// false: those that were not started, then those of the queue, the last one
// first. A record that cannot be understood is passed over.
func (h *Handler) each(r *request, f filter, visit func(*job) (bool, error)) error {
	seen, more := map[string]bool{}, true
	if err := h.eachStaged(r, f, seen, func(j *job) (_ bool, err error) {
		more, err = visit(j)
		return more, err
	}); err != nil || !more {
		return err
	}
	return h.eachQueued(r, f, seen, visit)
}

// stagedAtOnce is how many staged jobs are looked up at a time.
const stagedAtOnce = 256

// eachStaged visits the jobs that were not started, the newest first. They are
// noted in seen: one may be started meanwhile, and is in the queue then.
func (h *Handler) eachStaged(r *request, f filter, seen map[string]bool, visit func(*job) (bool, error)) error {
	s := r.s
	if len(f.phases) > 0 && !slices.Contains(f.phases, pending) && !slices.Contains(f.phases, aborted) {
		return nil
	}
	last := stagedRef{}
	for {
		refs, owners := s.stagedBefore(last, stagedAtOnce)
		if len(refs) == 0 {
			return nil
		}
		last = refs[len(refs)-1]
		for i, ref := range refs {
			if !f.after.IsZero() && !ref.created.After(f.after) {
				return nil
			}
			if !r.sees(owners[i]) {
				continue
			}
			if err := r.Context().Err(); err != nil {
				return err
			}
			j, err := s.find(r.set, ref.id)
			if strange := (*strangeError)(nil); errors.Is(err, errNoJob) || errors.As(err, &strange) {
				continue
			}
			if err != nil {
				return err
			}
			seen[ref.id] = true
			if f.wants(j) {
				if more, err := visit(j); err != nil || !more {
					return err
				}
			}
		}
	}
}

// eachQueued visits the jobs of the queue that were not seen, the last one
// first.
func (h *Handler) eachQueued(r *request, f filter, seen map[string]bool, visit func(*job) (bool, error)) error {
	s := r.s
	for id := range h.candidates(s, f) {
		if err := r.Context().Err(); err != nil {
			return err
		}
		cut, err := r.q.Job(id)
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return err
		}
		if !f.after.IsZero() && !cut.Submitted.After(f.after) {
			return nil // older ones were created before, too
		}
		if !r.sees(cut.Owner) {
			continue
		}
		j := s.jobOf(r.set, &cut)
		if j == nil || seen[j.id] || !f.wants(j) {
			continue
		}
		if more, err := visit(j); err != nil || !more {
			return err
		}
	}
	return nil
}

// candidates are the jobs of the queue that may be wanted, the last one first,
// from memory. Those in phases that few jobs are in are not looked for among
// all of them.
func (h *Handler) candidates(s *shelf, f filter) iter.Seq[queuefs.JobID] {
	if few, ok := s.few(f.phases); ok {
		return slices.Values(few)
	}
	return func(yield func(queuefs.JobID) bool) {
		var entries []queuefs.Entry
		for n := s.q.Pages() - 1; n >= 0; n-- {
			entries, _, _ = s.q.Page(n, entries[:0])
			for i := len(entries) - 1; i >= 0; i-- {
				if f.mayWant(entries[i].Status) && !yield(entries[i].Job) {
					return
				}
			}
		}
	}
}

// few returns the jobs in phases that the index knows of, the last one first;
// false if it does not know of one of them.
func (s *shelf) few(phases []phase) (ids []queuefs.JobID, ok bool) {
	state := s.q.State()
	all := func(many int64, o queuefs.ListOptions) {
		if o.Limit = 1 << 40; many > 0 {
			ids = append(ids, s.q.IDs(o)...)
		}
	}
	for _, p := range phases {
		switch p {
		case held:
			all(state.Held, queuefs.ListOptions{Status: queuefs.Pending, Held: true})
		case executing:
			ids = append(ids, s.q.Leased()...)
		case failed:
			all(state.Failed, queuefs.ListOptions{Status: queuefs.Consumed, Outcome: queuefs.Failed})
		case aborted:
			all(state.Consumed, queuefs.ListOptions{Status: queuefs.Consumed, Outcome: queuefs.Aborted})
			all(state.Deleted, queuefs.ListOptions{Status: queuefs.Deleted})
		case archived:
			if !s.complete() {
				return nil, false
			}
			s.mu.Lock()
			for _, id := range s.archived {
				ids = append(ids, id)
			}
			s.mu.Unlock()
		case pending, "SUSPENDED", "UNKNOWN":
		default:
			return nil, false
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return slices.Compact(ids), len(phases) > 0
}
