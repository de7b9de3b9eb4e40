package uws

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/web"
)

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
	m := queuefs.Meta{Submitter: label(r.UserAgent()), Owner: r.caller.Name, MediaType: mediaForm, OnHold: !c.run && !run,
		Name: func(n queuefs.JobID) anvl.Element { return anvl.Element{Name: elemID, Value: newID(n)} }}
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
	if len(m.Sidecar) > queuefs.MaxSidecar {
		return "", errLong
	}
	if err := queuefs.CheckText(m.Sidecar); err != nil { // documents of UWS show parameters
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

var errLong = web.Errorf(http.StatusRequestEntityTooLarge, "parameters are too long; upload a file")

// submit puts a job into the queue. Its payload is the file, several files as
// parts of one, or the parameters as a form.
func (f *filled) submit(ctx context.Context, m queuefs.Meta, params []pair) (queuefs.Job, error) {
	// A client can leave now without effect on the job.
	ctx = context.WithoutCancel(ctx)
	if len(f.uploads) == 1 {
		u := f.uploads[0]
		m.MediaType, m.Filename = u.mediaType, u.filename
		m.Extra.Add(elemUpload, u.name)
		if err := u.draft.SetMeta(m); err != nil {
			return queuefs.Job{}, err
		}
		return commit(ctx, u.sub)
	}
	payload := io.Reader(strings.NewReader(formatForm(params)))
	if len(f.uploads) > 1 {
		var err error
		if payload, err = f.join(&m); err != nil {
			return queuefs.Job{}, err
		}
	}
	sub := f.begin()
	defer sub.Discard()
	if f.replaces != 0 {
		sub.Replace(f.replaces)
	}
	d, err := sub.Add(m)
	if err != nil {
		return queuefs.Job{}, err
	}
	if _, err := io.Copy(d, payload); err != nil {
		return queuefs.Job{}, err
	}
	return commit(ctx, sub)
}

// commit ends a submission of one job.
func commit(ctx context.Context, sub *queuefs.Submission) (queuefs.Job, error) {
	if err := web.Still(ctx); err != nil { // a long upload may outlive a token
		return queuefs.Job{}, err
	}
	jobs, err := sub.Commit(ctx)
	if err != nil {
		return queuefs.Job{}, err
	}
	return jobs[0], nil
}

// replace puts a job with other parameters in the place of a PENDING one, since
// a payload never changes.
func (j *job) replace(ctx context.Context, params []pair) error {
	m := queuefs.Meta{Submitter: j.cut.Submitter, Owner: j.cut.Owner, MediaType: mediaForm, Sidecar: formatPairs(params), Destruction: j.cut.Destruction,
		Extra: with(j.cut.Extra, elemCreated, formatTime(j.created())), OnHold: true}
	cut, err := (&filled{q: j.q, replaces: j.cut.ID}).submit(ctx, m, params)
	if err == nil {
		j.cut = cut
	}
	return err
}

// amend changes elements of UWS in the job file.
func (j *job) amend(ctx context.Context, edit func(cut *queuefs.Job) error) error {
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
	if errors.Is(err, queuefs.ErrConflict) || errors.Is(err, queuefs.ErrNoJob) {
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
	return j.amend(ctx, func(cut *queuefs.Job) error {
		cut.Destruction = time.Time{}
		cut.Extra = with(cut.Extra, elem, formatTime(now))
		if cut.Lease.Ends.IsZero() { // else an operator has put it back just now
			cut.Results, cut.Lease.Key = nil, "" // late ones would come to nobody
		}
		return nil
	})
}
