package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// A daemon that was asleep, or cut off from the store, may not know yet that another one owns
// the home, and what it knows of jobs and queues may be old. Changes find that out by their
// batch. A refusal writes none, and a client believes it for good: so it is given only when a
// look at the store has shown that this daemon still was the owner.

// proofTime is how long a refusal waits for its proof.
const proofTime = 2 * time.Second

// errUnproven is the answer in the place of a refusal without a proof.
var errUnproven = &web.Error{Status: http.StatusServiceUnavailable, Message: "this daemon may no longer own the home, send the request again in a moment"}

// proveRefusals has rows give refusals that depend on the state of queues and jobs with a
// proof, and 503 without. A standby reads what it knows.
func proveRefusals(svc *queuefs.Service, rows []web.Route) []web.Route {
	if _, stored := svc.Standing(); !stored {
		return rows
	}
	for i := range rows {
		row := rows[i]
		if row.Serve == nil {
			continue
		}
		rows[i].Serve = func(w http.ResponseWriter, r *http.Request) error {
			err := row.Serve(w, r)
			switch { // the change was not made
			case errors.Is(err, queuefs.ErrFenced):
				return unproven(w)
			case errors.Is(err, queuefs.ErrStandby):
				w.Header().Set("Retry-After", "1")
				return err
			case errors.Is(err, queuefs.ErrAway):
				w.Header().Set("Retry-After", "5")
				return err
			}
			reads := !changesHome(r, &row)
			if err == nil || !ofState(err) || reads && (svc.Standby() || !strings.Contains(row.Path, "{queue}")) {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), proofTime)
			defer cancel()
			if svc.Owns(ctx) != nil {
				return unproven(w)
			}
			return err
		}
	}
	return rows
}

func unproven(w http.ResponseWriter) error {
	w.Header().Set("Retry-After", "1")
	return errUnproven
}

// ofState reports whether an error refuses a request for the state of a queue or a job.
func ofState(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false // nobody is there to read the answer
	}
	switch e, _ := web.ErrorOf(err); e.Status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
