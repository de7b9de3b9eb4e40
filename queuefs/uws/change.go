package uws

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/quota"
	"cutie/queuefs/web"
)

// change serves a POST to a job or to a part of it (UWS 1.1, 2.2.3), and leads
// to the job.
func (h *Handler) change(w http.ResponseWriter, r *request) error {
	f, err := h.fill(w, r, false)
	if err != nil {
		return err
	}
	c, params, err := takeControl(f.params, r.PathValue("part"), true)
	if err != nil {
		return err
	}
	if c == (control{}) && len(params) == 0 {
		return bad("nothing is asked for: PHASE, DESTRUCTION, EXECUTIONDURATION, ACTION or a parameter")
	}
	defer h.lock(r.q, r.PathValue("job"))()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	if c.delete {
		return h.destroyLocked(w, r, j)
	}
	var pairs []pair
	if len(params) > 0 {
		if pairs, err = j.changed(params); err != nil {
			return err
		}
	}
	p := j.phase()
	if c.runID != nil && p != pending {
		return forbidden("the job is %s and its run identifier cannot be changed", p)
	}
	if c.run {
		if err := j.mayRun(); err != nil {
			return err // before anything is changed
		}
		if p == pending {
			done, err := h.admit(r, j.owner(), quota.Use{Active: 1})
			if err != nil {
				return err
			}
			defer done()
		}
	}
	if len(params) > 0 {
		if err := j.setParams(r.Context(), pairs); err != nil {
			return err
		}
	}
	if c.destruction != nil || c.duration != nil || c.runID != nil {
		if err := j.amend(r.Context(), func(cut *queuefs.Job) error {
			c.apply(j.set.within(r.limits), &cut.Extra, &cut.Destruction, j.created(), h.now())
			return nil
		}); err != nil {
			return err
		}
	}
	switch {
	case c.run && p == pending: // else it is QUEUED already
		_, err = r.q.Release(context.WithoutCancel(r.Context()), j.cut.ID)
	case c.abort:
		err = j.stop(r.Context(), abortWhy)
	}
	if err != nil {
		return err
	}
	return see(w, r.ref("async", j.id))
}

// mayRun returns why a job cannot be started, nil if it can. A queued job was
// started before, perhaps by the same client after a lost answer.
func (j *job) mayRun() error {
	switch p := j.phase(); p {
	case pending, queued:
		return nil
	case held:
		return forbidden("an operator holds the job: %s", j.cut.HeldFor)
	default:
		return forbidden("the job is %s and cannot be started", p)
	}
}

// changed returns the parameters of a job with new values. Only a PENDING job
// takes them, and version 1.1 refuses new names (UWS 1.1, 2.2.3.5).
func (j *job) changed(params []pair) ([]pair, error) {
	if p := j.phase(); p != pending {
		return nil, forbidden("the job is %s and its parameters cannot be changed", p)
	}
	if j.set.opaque {
		return nil, forbidden("the job has one opaque parameter, which cannot be changed")
	}
	list := j.pairs()
	for i, p := range params {
		named := func(q pair) bool { return q.name == p.name }
		if slices.ContainsFunc(params[:i], named) {
			continue // done with the first of its name
		}
		at := slices.IndexFunc(list, named)
		switch {
		case at < 0 && slices.Contains(j.uploads(), p.name):
			return nil, forbidden("parameter %.40q is a file, which cannot be changed", p.name)
		case at < 0 && !j.set.old:
			return nil, forbidden("the job has no parameter %.40q to change", p.name)
		case at < 0:
			at = len(list)
		}
		// All values of the name are replaced together.
		list = slices.DeleteFunc(list, named)
		now := slices.DeleteFunc(slices.Clone(params), func(q pair) bool { return q.name != p.name })
		list = slices.Insert(list, min(at, len(list)), now...)
	}
	size := 0
	for _, p := range list {
		size += len(p.name) + len(p.value)
	}
	if size > maxParams || len(list) > maxPairs || len(formatPairs(list)) > queuefs.MaxSidecar {
		return nil, web.Errorf(http.StatusRequestEntityTooLarge, "parameters are too many or too long")
	}
	return list, nil
}

// setParams gives a PENDING job its parameters. A job with files has them in
// the sidecar alone, others also in the payload.
func (j *job) setParams(ctx context.Context, pairs []pair) error {
	if len(j.uploads()) == 0 {
		return j.replace(ctx, pairs)
	}
	sidecar := formatPairs(pairs)
	cut, err := j.q.Describe(context.WithoutCancel(ctx), j.cut.ID, queuefs.Description{Sidecar: &sidecar})
	if err == nil {
		j.cut = cut
	}
	return err
}

// putParameter gives one parameter a new value.
func (h *Handler) putParameter(w http.ResponseWriter, r *request) error {
	in, err := h.body(w, r)
	if err != nil {
		return err
	}
	value, err := web.ReadAll(r.Context(), io.LimitReader(in, maxParams+1))
	if err != nil {
		return err
	}
	p := pair{r.PathValue("name"), string(value)}
	if len(value) > maxParams {
		return &web.Error{Status: http.StatusRequestEntityTooLarge, Message: "the value has more than " + strconv.Itoa(maxParams) + " octets"}
	}
	if err := cmp.Or(checkText(p), checkName(p.name)); err != nil {
		return bad("%v", err)
	}
	if isControl(p.name) {
		return bad("%.40q is no parameter of the job", p.name)
	}
	defer h.lock(r.q, r.PathValue("job"))()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	pairs, err := j.changed([]pair{p})
	if err != nil {
		return err
	}
	if err := j.setParams(r.Context(), pairs); err != nil {
		return err
	}
	return see(w, r.ref("async", j.id))
}

// destroyed is DELETE of a job.
func (h *Handler) destroyed(w http.ResponseWriter, r *request) error {
	defer h.lock(r.q, r.PathValue("job"))()
	j, err := h.found(r, true)
	if err != nil {
		return err
	}
	return h.destroyLocked(w, r, j)
}

// destroyLocked leads to the list, shortened for programs. A browser sees the
// page of the list.
func (h *Handler) destroyLocked(w http.ResponseWriter, r *request, j *job) error {
	if err := j.destroy(r.Context(), h.now(), false); err != nil {
		return err
	}
	where := r.ref("async")
	if !r.set.old {
		where += "?LAST=100"
	}
	return see(w, where)
}

// A control is a request about the job itself (UWS 1.1, 2.2.3), apart from its
// parameters.
type control struct {
	run, abort, delete bool
	runID              *string
	duration           *int64
	destruction        *time.Time
}

// takeControl takes the control parameters out of params, which were sent to a part
// of the job, or "" for the whole of it. ACTION is one only for a job that exists.
func takeControl(params []pair, part string, exists bool) (c control, rest []pair, err error) {
	for _, p := range params {
		name, value := strings.ToUpper(p.name), strings.TrimSpace(p.value)
		here := part == "" || strings.ToUpper(part) == name || part == "parameters" && (name == "RUNID" || !isControl(name))
		switch {
		case !here:
			return c, nil, bad("only %s can be set here", part)
		case name == "PHASE" && strings.EqualFold(value, "RUN"):
			c.run = true
		case name == "PHASE" && strings.EqualFold(value, "ABORT"):
			c.abort = true
		case name == "PHASE":
			return c, nil, bad("PHASE is %.40q, neither RUN nor ABORT", value)
		case name == "ACTION" && exists:
			if !strings.EqualFold(value, "DELETE") {
				return c, nil, bad("ACTION is %.40q, not DELETE", value)
			}
			c.delete = true
		case name == "RUNID":
			if len(p.value) > maxLabel {
				return c, nil, bad("RUNID has more than %d octets", maxLabel)
			}
			c.runID = &p.value
		case name == "EXECUTIONDURATION":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return c, nil, bad("EXECUTIONDURATION is %.40q, not a number of seconds", value)
			}
			c.duration = &n
		case name == "DESTRUCTION":
			t, err := parseTime(value)
			if err != nil {
				return c, nil, bad("DESTRUCTION: %v", err)
			}
			c.destruction = &t
		default:
			if err := checkName(p.name); err != nil {
				return c, nil, bad("%v", err)
			}
			rest = append(rest, p)
		}
	}
	if c.run && c.abort {
		return c, nil, bad("PHASE is both RUN and ABORT")
	}
	return c, rest, nil
}

// apply puts run identifier, duration and destruction into a job file, as far as they
// are granted.
func (c *control) apply(granted settings, extra *anvl.Record, destruction *time.Time, created, now time.Time) {
	if c.runID != nil {
		*extra = with(*extra, elemRunID, *c.runID)
	}
	if c.duration != nil {
		*extra = with(*extra, elemDuration, strconv.FormatInt(granted.clampDuration(*c.duration), 10))
	}
	if c.destruction != nil {
		*destruction = granted.clampDestruction(*c.destruction, created, now)
	}
}

// isControl reports whether name is a control parameter.
func isControl(name string) bool {
	switch strings.ToUpper(name) {
	case "PHASE", "ACTION", "RUNID", "EXECUTIONDURATION", "DESTRUCTION":
		return true
	}
	return false
}
