package uws

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
)

// create makes a job (UWS 1.1, 2.2.3.1), and starts it with PHASE=RUN.
func (h *Handler) create(w http.ResponseWriter, r *request) error {
	rec, err := h.made(w, r, false)
	if err != nil {
		return err
	}
	return see(w, h.ref(r.q, "async", rec.id))
}

// made makes a job of a request, and starts it if it says so, or run does.
// What is wrong with it is why it is rejected.
func (h *Handler) made(w http.ResponseWriter, r *request, run bool) (*record, error) {
	if r.q.Info().Closed {
		return nil, forbidden("the queue takes no jobs at present")
	}
	s := r.s
	if s.count() >= h.o.MaxStaged {
		return nil, forbidden("%d jobs of this queue were made and not started; start or destroy some", s.count())
	}
	f, err := h.fill(w, r, true)
	if err != nil {
		return nil, err
	}
	defer func() { f.discard(s) }()
	if field, ok := r.value(linesField); ok {
		if err := f.fromPage(field); err != nil {
			return nil, err
		}
	}
	c, params, err := takeControl(f.params, false)
	if e, ok := errors.AsType[*httpError](err); ok {
		return nil, forbidden("%s", e.text)
	}
	if c.abort {
		return nil, forbidden("PHASE is ABORT, and the job is only being made")
	}
	rec := &record{id: newID(), created: s.now(h.now()), owner: r.caller.Name, submitter: label(r.UserAgent()), duration: -1, params: params}
	if r.set.life > 0 {
		rec.destruction = rec.created.Add(r.set.life)
	}
	if c.runID != nil {
		rec.runID = *c.runID
	}
	h.limit(rec, r.set, c)
	if len(formatPairs(params)) > queuefs.MaxSidecar {
		return nil, &httpError{http.StatusRequestEntityTooLarge, "parameters are too long; upload a file"}
	}
	defer s.lock(rec.id)()
	err = s.telling(r.Context(), rec.id, pending, func() (told bool, err error) {
		// Stage syncs the directory behind it.
		if rec.uploads, err = f.place(s, rec.id); err != nil {
			return false, err
		}
		if c.run || run {
			return true, h.start(r.Context(), s, r.set, rec) // its submission is told
		}
		if err := s.stage(rec); err != nil {
			return false, err
		}
		return false, removing(r.q)
	})
	if err != nil && rec.job == 0 && h.svc.Err() == nil {
		err = errors.Join(err, s.unstage(rec.id)) // nobody knows of it
	}
	return rec, err
}

// firstAfter returns a number that no later job of the queue goes below.
func firstAfter(q *queuefs.Queue) queuefs.JobID {
	return queuefs.JobID(max(1, (q.Pages()-1)*queuefs.PageJobs))
}

// start submits a job (UWS 1.1, 2.1.3: PENDING to QUEUED). Its lock is held.
func (h *Handler) start(ctx context.Context, s *shelf, set settings, rec *record) error {
	// A client that has gone leaves the job whole, one way or the other.
	ctx = context.WithoutCancel(ctx)
	rec.from = firstAfter(s.q)
	if err := s.stage(rec); err != nil {
		return err
	}
	jobs, err := s.submit(ctx, set, rec)
	if err != nil {
		if h.svc.Err() == nil { // else nobody knows before the home is opened again
			rec.from = 0
			err = errors.Join(err, s.stage(rec))
		}
		return err
	}
	rec.job = jobs[0].ID
	if err := s.started(rec); err != nil {
		// The job is in the queue. Whoever was told otherwise would make
		// another one; its record is settled at a look.
		s.lookAt(rec.id, h.now())
		return nil
	}
	h.waits.wake(waitKey{q: s.q, id: rec.id})
	return nil
}

func (s *shelf) submit(ctx context.Context, set settings, rec *record) ([]queuefs.Job, error) {
	m := queuefs.Meta{Submitter: rec.submitter, Owner: rec.owner, MediaType: mediaForm,
		Extra: anvl.Record{{Name: elemID, Value: rec.id}, {Name: elemCreated, Value: formatTime(rec.created)}}}
	if rec.runID != "" {
		m.Extra.Add(elemRunID, rec.runID)
	}
	if !set.opaque || len(rec.uploads) > 0 {
		m.Sidecar = formatPairs(rec.params)
	}
	var in io.Reader = strings.NewReader(formatForm(rec.params))
	if n := len(rec.uploads); n > 0 {
		var parts []io.Reader
		dir := s.there().staged
		for i := range rec.uploads {
			f, err := dir.Open(uploadName(rec.id, i))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			parts = append(parts, f)
		}
		if in = parts[0]; n == 1 {
			m.MediaType, m.Filename = rec.uploads[0].mediaType, rec.uploads[0].filename
			m.Extra.Add(elemUpload, rec.uploads[0].name)
		} else {
			in = rec.join(&m, parts)
		}
	}
	sub := s.q.Begin()
	defer sub.Discard()
	d, err := sub.Add(m)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(d, in); err != nil {
		return nil, err
	}
	return sub.Commit(ctx)
}

// abortWhy is the message of a job that its client has aborted.
const abortWhy = "aborted by the client"

// abort ends a job (UWS 1.1, 2.1.3). One that has ended is left as it is.
func (h *Handler) abort(ctx context.Context, j *job) error {
	switch j.phase() {
	case pending:
		defer h.waits.wake(waitKey{q: j.s.q, id: j.id})
		j.rec.aborted = h.now()
		return j.s.telling(ctx, j.id, aborted, func() (bool, error) { return false, j.s.stage(j.rec) })
	case queued, held, executing:
		return h.stop(ctx, j, abortWhy)
	}
	return nil
}

// stop takes a job out of work, unless it has ended.
func (h *Handler) stop(ctx context.Context, j *job, why string) error {
	_, err := j.s.q.Abort(ctx, j.cut.ID, why)
	if errors.Is(err, queuefs.ErrConflict) || errors.Is(err, queuefs.ErrNoJob) {
		return nil
	}
	return err
}

// destroy ends a job and forgets it, or archives it, with its results (UWS
// 1.1, 2.2.3.4). Its lock is held. The work ends first; from the record on
// nobody sees the job, and its results go, or go at the next look after a
// crash.
func (h *Handler) destroy(ctx context.Context, j *job, archive bool) error {
	s := j.s
	if j.cut == nil {
		defer h.waits.wake(waitKey{q: j.s.q, id: j.id})
		return s.telling(ctx, j.id, gone, func() (bool, error) {
			err := s.unstage(j.id)
			if err == nil {
				s.lookAt(j.id, time.Time{})
			}
			return false, err
		})
	}
	ctx = context.WithoutCancel(ctx)
	if err := h.stop(ctx, j, "destroyed"); err != nil {
		return err
	}
	j.record(s)
	to := gone
	if archive {
		to, j.rec.archived = archived, h.now()
	} else {
		j.rec.destroyed = h.now()
	}
	if err := s.telling(ctx, j.id, to, func() (bool, error) {
		if err := s.there().staged.Sync(); err != nil { // the note is there
			return false, err
		}
		return false, s.keep(j.rec)
	}); err != nil {
		return err
	}
	h.waits.wake(keyOf(j))
	return h.clear(ctx, j)
}

// clear drops the results of a job that was destroyed. What an operator has
// put back into the queue since then is none of ours.
func (h *Handler) clear(ctx context.Context, j *job) error {
	gone := j.rec.destroyed
	if gone.IsZero() {
		gone = j.rec.archived
	}
	if j.cut.Requeued.After(gone) {
		return nil
	}
	_, err := j.s.q.DropResults(ctx, j.cut.ID)
	if errors.Is(err, queuefs.ErrNoJob) || errors.Is(err, queuefs.ErrConflict) {
		return nil
	}
	return err
}
