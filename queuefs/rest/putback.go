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

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// putBack makes taken jobs pending again, when nothing of them was sent because
// the payload of bad cannot be read. They get their places again and count as
// requeued. A payload that will stay unreadable is put on hold, and so is one
// the queue finds missing, so that it does not stand at the head for ever; the
// next consumer would do the same. One that cannot be read now is passed over for a
// while. Jobs put back or taken by others meanwhile
// stay as they are, and are not mentioned. The error says what became of the
// others, also to the caller; cause is not shown and goes to the log with it.
func (h *Handler) putBack(r *request, q *queuefs.Queue, taken []queuefs.Taken, bad queuefs.JobID, cause error) error {
	// The jobs are to go back even if the client has gone.
	ctx := context.WithoutCancel(r.Context())
	var back, held, lost []queuefs.JobID
	why := cause
	give := func(t *queuefs.Taken) (as queuefs.Job, ok bool) {
		var err error
		if t.Token == "" {
			as, err = q.RequeueAt(ctx, t.ID, t.Seq)
		} else {
			as, err = q.Return(ctx, t.ID, t.Token, "")
		}
		switch {
		case errors.Is(err, queuefs.ErrConflict), errors.Is(err, queuefs.ErrLease): // somebody else has seen to it
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
	if errors.Is(cause, queuefs.ErrUnread) {
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
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, syscall.EINTR, queuefs.ErrUnread, queuefs.ErrClosed, queuefs.ErrFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// unreadable is why a job is on hold. It does not say where the home is: job
// files are published.
func unreadable(id queuefs.JobID, err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Sprintf("payload of %v: %v", id, p.Err)
	}
	return err.Error()
}

// idRanges sorts jobs and names them: neighbours as "j000000000001 to j000000000003".
func idRanges(ids []queuefs.JobID) string {
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
