package rest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// consume is Get-next-job (Cutie 5.6).
func (h *Handler) consume(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	if err := h.fields(w, r); err != nil {
		return err
	}
	t := queuefs.Take{Max: r.number("max", 1, 1, queuefs.MaxTake), Keep: true}
	wait := r.seconds("wait", h.o.MaxWait)
	t.Lease = r.leaseTime("lease")
	t.User = UserOf(r.Context())
	t.Still = func() error { return web.Still(r.Context()) }
	t.Key, err = field.Key(r.Header)
	r.wrong(err)
	_, _, err = r.wrapped()
	r.wrong(err)
	if t.By = r.agent(); r.bad != nil {
		return r.bad
	}
	taken, err := take(r.Context(), q, t, wait)
	defer func() { q.Given(taken) }()
	again := len(taken) > 0 && taken[0].Again
	if h.o.Taken != nil && !again {
		for i := range taken {
			h.o.Taken(&taken[i].Job)
		}
	}
	if !r.query.Has("max") && isForm(r.Header.Get("Content-Type")) && (err == nil || errors.Is(err, ledger.ErrEmpty)) {
		if form, bad := r.form(); bad == nil && r.fromPage(form) {
			return h.takenByPage(w, r, form, q, taken)
		}
	}
	if err != nil && !errors.Is(err, ledger.ErrEmpty) {
		return keyBusy(w, err)
	}
	replayed(w, again, http.StatusOK)
	header := w.Header()
	header["Cache-Control"] = noStore
	delete(header, "Vary") // it is for caches
	if err != nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	// From here the jobs are consumed, whatever becomes of the answer: without
	// a lease the protocol hands out a job at most once. Jobs with unreadable
	// payloads were not handed out, and go back.
	if r.query.Has("max") {
		return h.deliverSeveral(w, r, q, taken)
	}
	return h.deliver(w, r, q, &taken[0], taken)
}

var noStore = []string{"no-store"}

func take(ctx context.Context, q *queuefs.Queue, t queuefs.Take, wait time.Duration) ([]queuefs.Taken, error) {
	if wait == 0 {
		return q.Take(ctx, t)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	web.Waiting(ctx)
	taken, err := q.TakeWait(waiting, t)
	if errors.Is(err, journal.ErrFollowing) {
		err = ledger.ErrEmpty // the home has just gone to another daemon, where the consumer waits next
	}
	if err != nil && ctx.Err() != nil {
		if gone := web.Still(ctx); gone != nil {
			return nil, gone
		}
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = ledger.ErrEmpty // the time was over while a job was being taken
	}
	return taken, err
}

// peek is Peek-at-job (Cutie 5.7). A job in the path may have any status.
func (h *Handler) peek(w http.ResponseWriter, r *request) error {
	var (
		q  *queuefs.Queue
		j  job.Job
		id job.ID
	)
	_, _, err := r.wrapped()
	if err != nil {
		return err
	}
	if r.PathValue("job") == "" {
		if q, err = h.queue(r); err != nil {
			return err
		}
		j, err = q.Peek()
	} else {
		if q, id, err = h.job(r); err != nil {
			return err
		}
		j, err = q.Job(id)
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	switch {
	case errors.Is(err, ledger.ErrEmpty):
		w.WriteHeader(http.StatusNoContent)
		return nil
	case err != nil:
		return notFound(err, ledger.ErrNoJob, r.PathValue("job"))
	}
	switch part := r.text("part"); {
	case r.bad != nil:
		return r.bad
	case part == "sidecar":
		return sendSidecar(w, &j)
	case part != "":
		return web.BadRequest("part is %.40q, not sidecar", part)
	}
	if err := q.Sound(j.ID); err != nil {
		h.log(r.Request, err)
		return web.Errorf(http.StatusInternalServerError, "payload of %s is damaged or cannot be read", j.ID)
	}
	return h.deliver(w, r, q, &queuefs.Taken{Job: j}, nil)
}

// A wrapping is how a job is handed out.
type wrapping uint8

const (
	formData wrapping = iota // as Cutie 5.6 shows it
	mixed
	bare
)

// wrapped returns the wrapping in the parameter t, and whether there is one. t
// may also name a form of state, for errors.
func (r *request) wrapped() (kind wrapping, ok bool, err error) {
	t, _, err := r.param("t")
	switch {
	case err != nil || t == "":
		return 0, false, err
	case strings.EqualFold(t, "multipart") || strings.EqualFold(t, "multipart/form-data"):
		return formData, true, nil
	case strings.EqualFold(t, "multipart/mixed"):
		return mixed, true, nil
	case strings.EqualFold(t, job.DefaultMediaType):
		return bare, true, nil
	}
	_, err = state.ParseForm(t)
	return 0, false, err
}

// wrap returns the wrapping that Accept prefers for a payload of the given
// type. Without any of ours the payload is sent bare: there is no status for
// this case, and the job may be consumed already.
func wrap(accept, mediaType string) wrapping {
	switch accept {
	case "", "*/*":
		return formData
	case job.DefaultMediaType:
		return bare
	}
	a := state.ParseAccept(accept)
	own, _, _ := strings.Cut(mediaType, ";")
	best, most := bare, 0.0
	for i, q := range [...]float64{
		formData: a.Quality("multipart/form-data"),
		mixed:    a.Quality("multipart/mixed"),
		bare:     max(a.Quality(job.DefaultMediaType), a.Quality(own)),
	} {
		if q > most {
			best, most = wrapping(i), q
		}
	}
	return best
}

// putBack makes taken jobs pending again, when nothing of them was sent because
// the payload of bad cannot be read. They get their places again and count as
// requeued. A payload that will stay unreadable is put on hold, and so is one
// the queue finds missing, so that it does not stand at the head for ever; the
// next consumer would do the same. One that cannot be read now is passed over for a
// while. Jobs put back or taken by others meanwhile
// stay as they are, and are not mentioned. The error says what became of the
// others, also to the caller; cause is not shown and goes to the log with it.
func (h *Handler) putBack(r *request, q *queuefs.Queue, taken []queuefs.Taken, bad job.ID, cause error) error {
	// The jobs are to go back even if the client has gone.
	ctx := context.WithoutCancel(r.Context())
	var back, held, lost []job.ID
	why := cause
	give := func(t *queuefs.Taken) (as job.Job, ok bool) {
		var err error
		if t.Token == "" {
			as, err = q.RequeueAt(ctx, t.ID, t.Seq)
		} else {
			as, err = q.Return(ctx, t.ID, t.Token, "")
		}
		switch {
		case errors.Is(err, job.ErrConflict), errors.Is(err, queuefs.ErrLease): // somebody else has seen to it
		case err != nil:
			lost, why = append(lost, t.ID), errors.Join(why, fmt.Errorf("%v: %w", t.ID, err))
		}
		return as, err == nil
	}
	e := &web.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("the payload of %v cannot be read now", bad)}
	last := -1 // the bad one, if it is to be held: a moment after the others
	for i := range taken {
		if t := &taken[i]; t.ID == bad && !scarce(cause) {
			last = i
		} else if _, ok := give(t); ok {
			back = append(back, t.ID)
		}
	}
	if errors.Is(cause, content.ErrUnread) {
		if err := q.Rest(ctx, bad, cause); err != nil {
			why = errors.Join(why, err)
		}
	}
	then := "; try again later"
	if last >= 0 {
		e = &web.Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("the payload of %v cannot be read", bad)}
		then = "; try again for the next"
		if as, ok := give(&taken[last]); ok {
			if _, err := q.HoldAt(ctx, bad, as.Seq, unreadable(bad, cause)); err == nil {
				held = append(held, bad)
			} else {
				back, why = append(back, bad), errors.Join(why, err)
			}
		}
	}
	if len(held) > 0 {
		e.Message += "; on hold: " + idRanges(held)
	}
	if len(back) > 0 {
		e.Message += "; pending again: " + idRanges(back)
	}
	if len(lost) > 0 {
		e.Message += fmt.Sprintf("; consumed, though not handed out: %s", idRanges(lost))
		then = fmt.Sprintf("; POST /requeue/%s/JOB puts one back", q.ID())
	}
	if h.o.Log != nil { // even if the client has gone
		h.o.Log(r.Request, fmt.Errorf("%s: %w", e.Message, why))
	}
	e.Message += then
	return e
}

// scarce reports whether err is about this process or the service, not about
// the payload.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, syscall.EINTR, content.ErrUnread, ledger.ErrClosed, ledger.ErrFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// unreadable is why a job is on hold. It does not say where the home is: job
// files are published.
func unreadable(id job.ID, err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Sprintf("payload of %v: %v", id, p.Err)
	}
	return err.Error()
}

// idRanges sorts jobs and names them: neighbours as "j000000000001 to j000000000003".
func idRanges(ids []job.ID) string {
	slices.Sort(ids)
	var b strings.Builder
	for i := 0; i < len(ids); {
		end := i + 1
		for end < len(ids) && ids[end] == ids[end-1]+1 {
			end++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(ids[i].String())
		if end-i > 1 {
			b.WriteString(" to " + ids[end-1].String())
		}
		i = end
	}
	return b.String()
}
