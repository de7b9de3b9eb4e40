package uws

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest/field"
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
		if err := j.amend(r.Context(), func(cut *queuejob.Job) error {
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
	if size > maxParams || len(list) > maxPairs || len(formatPairs(list)) > queuejob.MaxSidecar {
		return nil, tooLarge("parameters are too many or too long")
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
		return tooLarge("the value has more than %d octets", maxParams)
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

// create makes a job (UWS 1.1, 2.2.3.1), and starts it with PHASE=RUN.
func (h *Handler) create(w http.ResponseWriter, r *request) error {
	id, err := h.made(w, r, false)
	if err != nil {
		return err
	}
	return see(w, r.ref("async", id))
}

// made makes a job from a request, and returns its identifier. With PHASE=RUN
// or run the job starts at once, else it is on hold. A bad request is a
// rejected creation.
func (h *Handler) made(w http.ResponseWriter, r *request, run bool) (id string, err error) {
	if r.q.Info().Closed {
		return "", forbidden("the queue takes no jobs at present")
	}
	if n := r.q.State().Held; n >= maxPending {
		return "", forbidden("%d jobs of this queue were made and not started; start or destroy some", n)
	}
	f, err := h.fill(w, r, true)
	if err != nil {
		return "", err
	}
	defer f.discard()
	if field, ok := r.value(linesField); ok {
		if err := f.fromPage(field); err != nil {
			return "", err
		}
	}
	c, params, err := takeControl(f.params, "", false)
	if e, ok := errors.AsType[*web.Error](err); ok {
		return "", forbidden("%s", e.Message)
	}
	if c.abort {
		return "", forbidden("PHASE is ABORT, and the job is only being made")
	}
	if len(params) == 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return "", forbidden("there are no parameters; sync takes them in the query, or as a form by POST")
	}
	now := h.now()
	m := queuejob.Meta{Submitter: label(r.UserAgent()), Owner: r.caller.Name, MediaType: mediaForm, OnHold: !c.run && !run,
		Name: func(n queuejob.ID) anvl.Element { return anvl.Element{Name: elemID, Value: newID(n)} }}
	field.Trace(&m, textproto.MIMEHeader(r.Header))
	granted := r.set.within(r.limits)
	if granted.life > 0 {
		m.Destruction = now.Add(granted.life)
	}
	if granted.duration != r.set.duration { // the limit of the user stays with the job
		m.Extra.Add(elemDuration, strconv.FormatInt(granted.duration, 10))
	}
	c.apply(granted, &m.Extra, &m.Destruction, now, now)
	if !r.set.opaque || len(f.uploads) > 0 {
		m.Sidecar = formatPairs(params)
	}
	if len(m.Sidecar) > queuejob.MaxSidecar {
		return "", tooLarge("parameters are too long; upload a file")
	}
	if err := queuejob.CheckText(m.Sidecar); err != nil { // documents of UWS show parameters
		return "", err
	}
	ask := quota.Use{Active: 1, Upload: f.bytes(params)}
	if m.OnHold {
		ask.Pending, ask.Active = 1, 0
	}
	done, err := h.admit(r, m.Owner, ask)
	if err != nil {
		return "", err
	}
	defer done()
	cut, err := f.submit(r.Context(), m, params)
	if err != nil {
		return "", err
	}
	return cut.Extra.Value(elemID), nil
}

// submit puts a job into the queue. Its payload is the file, several files as
// parts of one, or the parameters as a form.
func (f *filled) submit(ctx context.Context, m queuejob.Meta, params []pair) (queuejob.Job, error) {
	// A client can leave now without effect on the job.
	ctx = context.WithoutCancel(ctx)
	if len(f.uploads) == 1 {
		u := f.uploads[0]
		m.MediaType, m.Filename = u.mediaType, u.filename
		m.Extra.Add(elemUpload, u.name)
		if err := u.draft.SetMeta(m); err != nil {
			return queuejob.Job{}, err
		}
		return commit(ctx, u.sub)
	}
	payload := io.Reader(strings.NewReader(formatForm(params)))
	if len(f.uploads) > 1 {
		var err error
		if payload, err = f.join(&m); err != nil {
			return queuejob.Job{}, err
		}
	}
	sub := f.begin()
	defer sub.Discard()
	if f.replaces != 0 {
		sub.Replace(f.replaces)
	}
	d, err := sub.Add(m)
	if err != nil {
		return queuejob.Job{}, err
	}
	if _, err := io.Copy(d, payload); err != nil {
		return queuejob.Job{}, err
	}
	return commit(ctx, sub)
}

// commit ends a submission of one job.
func commit(ctx context.Context, sub *queuefs.Submission) (queuejob.Job, error) {
	if err := web.Still(ctx); err != nil { // a long upload may outlive a token
		return queuejob.Job{}, err
	}
	jobs, err := sub.Commit(ctx)
	if err != nil {
		return queuejob.Job{}, err
	}
	return jobs[0], nil
}

// replace puts a job with other parameters in the place of a PENDING one, since
// a payload never changes.
func (j *job) replace(ctx context.Context, params []pair) error {
	m := queuejob.Meta{Submitter: j.cut.Submitter, Owner: j.cut.Owner, MediaType: mediaForm,
		Sidecar: formatPairs(params), Destruction: j.cut.Destruction,
		Extra: with(j.cut.Extra, elemCreated, formatTime(j.created())), OnHold: true}
	cut, err := (&filled{q: j.q, replaces: j.cut.ID}).submit(ctx, m, params)
	if err == nil {
		j.cut = cut
	}
	return err
}

// amend changes elements of UWS in the job file.
func (j *job) amend(ctx context.Context, edit func(cut *queuejob.Job) error) error {
	cut, err := j.q.Amend(context.WithoutCancel(ctx), j.cut.ID, edit)
	if err == nil {
		j.cut = cut
	}
	return err
}

// abortWhy is the message of a job after ABORT.
const abortWhy = "aborted by the client"

// stop takes a job out of work (UWS 1.1, 2.1.3). It leaves an ended job as it
// is.
func (j *job) stop(ctx context.Context, why string) error {
	if p := j.phase(); !p.active() && p != held {
		return nil
	}
	cut, err := j.q.Abort(context.WithoutCancel(ctx), j.cut.ID, why)
	if errors.Is(err, queuejob.ErrConflict) || errors.Is(err, ledger.ErrNoJob) {
		return nil
	}
	if err == nil {
		j.cut = cut
	}
	return err
}

// destroy ends a job, drops its results, and forgets it or archives it (UWS 1.1,
// 2.2.3.4). The work ends first: a crash then leaves the job ABORTED.
func (j *job) destroy(ctx context.Context, now time.Time, archive bool) error {
	if err := j.stop(ctx, "destroyed"); err != nil {
		return err
	}
	elem := elemDestroyed
	if archive {
		elem = elemArchived
	}
	return j.amend(ctx, func(cut *queuejob.Job) error {
		cut.Destruction = time.Time{}
		cut.Extra = with(cut.Extra, elem, formatTime(now))
		if cut.Lease.Ends.IsZero() { // else an operator has put it back just now
			cut.Results, cut.Lease.Key = nil, "" // late ones would come to nobody
		}
		return nil
	})
}
