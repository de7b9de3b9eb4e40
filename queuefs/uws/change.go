package uws

import (
	"io"
	"net/http"
	"slices"
)

// change does what a POST to a job, or to a part of it, asks for (UWS 1.1,
// 2.2.3), and leads to the job.
func (h *Handler) change(w http.ResponseWriter, r *request) error {
	s := h.shelf(r.q)
	f, err := h.fill(w, r, s, false)
	if err != nil {
		return err
	}
	c, params, err := takeControl(f.params, true)
	if err != nil {
		return err
	}
	if c.runID != nil {
		return forbidden("RUNID is said when a job is made")
	}
	if len(r.path) == 3 {
		if err := c.only(r.path[2], params); err != nil {
			return err
		}
	}
	if c == (control{}) && len(params) == 0 {
		return bad("nothing is asked for: PHASE, DESTRUCTION, EXECUTIONDURATION, ACTION or a parameter")
	}
	defer s.lock(r.path[1])()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	if c.delete {
		return h.destroyLocked(w, r, j)
	}
	if len(params) > 0 {
		if err := j.setParams(params); err != nil {
			return err
		}
	}
	if j.rec == nil {
		j.rec = &record{id: j.id, created: j.created(), duration: -1, job: j.cut.ID}
	}
	h.limit(j.rec, r.set, c)
	if c.destruction != nil || c.duration != nil || len(params) > 0 {
		put := s.keep
		if j.cut == nil {
			put = s.stage
		}
		if err := put(j.rec); err != nil {
			return err
		}
		h.limits.forget(j)
	}
	switch {
	case c.run:
		err = h.run(r, j)
	case c.abort:
		err = h.abort(r.Context(), j)
	}
	if err != nil {
		return err
	}
	return see(w, h.ref(r.q, "async", j.id))
}

// only refuses what a part of a job has nothing to do with.
func (c *control) only(part string, params []pair) error {
	fine := map[string]bool{
		"phase":             c.destruction == nil && c.duration == nil && !c.delete && len(params) == 0,
		"executionduration": c.destruction == nil && !c.run && !c.abort && !c.delete && len(params) == 0,
		"destruction":       c.duration == nil && !c.run && !c.abort && !c.delete && len(params) == 0,
		"parameters":        *c == control{},
	}
	if !fine[part] {
		return bad("only %s can be set here", part)
	}
	return nil
}

// run starts a job. One that is queued was started already, perhaps by the
// same client, which did not hear of it.
func (h *Handler) run(r *request, j *job) error {
	switch p := j.phase(); p {
	case pending:
		return h.start(r.Context(), r.q, r.set, j.rec)
	case queued:
		return nil
	case held:
		return forbidden("an operator holds the job: %s", j.cut.HeldFor)
	default:
		return forbidden("the job is %s and cannot be started", p)
	}
}

// setParams gives parameters of a job that was not started new values. Version
// 1.1 makes none that were not there (UWS 1.1, 2.2.3.5).
func (j *job) setParams(params []pair) error {
	if p := j.phase(); p != pending {
		return forbidden("the job is %s and its parameters cannot be changed", p)
	}
	if j.set.opaque {
		return forbidden("the job has one opaque parameter, which cannot be changed")
	}
	size := 0
	for _, p := range params {
		at := slices.IndexFunc(j.rec.params, func(q pair) bool { return q.name == p.name })
		switch {
		case at >= 0:
			j.rec.params[at] = p
		case !j.set.old:
			return forbidden("the job has no parameter %.40q to change", p.name)
		default:
			j.rec.params = append(j.rec.params, p)
		}
	}
	for _, p := range j.rec.params {
		size += len(p.name) + len(p.value)
	}
	if size > maxParams || len(j.rec.params) > maxPairs {
		return &httpError{http.StatusRequestEntityTooLarge, "parameters are too many or too long"}
	}
	return nil
}

// putParameter gives one parameter a new value.
func (h *Handler) putParameter(w http.ResponseWriter, r *request) error {
	value, err := io.ReadAll(io.LimitReader(h.body(w, r), maxParams+1))
	if err != nil {
		return err
	}
	p := pair{r.path[3], string(value)}
	if err := checkPair(p); err != nil {
		return bad("%v", err)
	}
	s := h.shelf(r.q)
	defer s.lock(r.path[1])()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	if err := j.setParams([]pair{p}); err != nil {
		return err
	}
	if err := s.stage(j.rec); err != nil {
		return err
	}
	return see(w, h.ref(r.q, "async", j.id))
}

// destroyed is DELETE of a job.
func (h *Handler) destroyed(w http.ResponseWriter, r *request) error {
	defer h.shelf(r.q).lock(r.path[1])()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	return h.destroyLocked(w, r, j)
}

// destroyLocked leads to the list, of which the client need not see all.
func (h *Handler) destroyLocked(w http.ResponseWriter, r *request, j *job) error {
	if err := h.destroy(r.Context(), j, false); err != nil {
		return err
	}
	where := h.ref(r.q, "async")
	if !r.set.old {
		where += "?LAST=100"
	}
	return see(w, where)
}
