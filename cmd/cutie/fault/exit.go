package fault

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/objects"
	"cutie/queuefs/stored"
	"cutie/queuefs/web"
)

// Exit codes; [ExitTexts] explains them.
const (
	ExitDone = iota
	ExitError
	ExitUsage
	ExitNotFound
	ExitEmpty
	ExitConflict
	ExitRefused
	ExitDigest
	ExitDifferent
)

// ExitTexts explain the exit codes.
var ExitTexts = [...]string{
	ExitDone:      "done",
	ExitError:     "error: input, output, or the service failed",
	ExitUsage:     "usage: the request makes no sense",
	ExitNotFound:  "queue, job or result not found",
	ExitEmpty:     "queue empty: an answer, not a failure, so silent without -v",
	ExitConflict:  "conflict: not in this state",
	ExitRefused:   "refused: not allowed",
	ExitDigest:    "digest verification failed",
	ExitDifferent: "a copy differs from its Source, or a Source or a store is faulty",
}

// exitCodes are the exit codes of errors that no status gives.
var exitCodes = []struct {
	err  error
	code int
}{
	{context.Canceled, ExitError},
	{queuefs.ErrEmpty, ExitEmpty},
	{queuefs.ErrLease, ExitConflict},
	{queuefs.ErrQueueExists, ExitConflict},
	{queuefs.ErrKeyUsed, ExitConflict},
	{queuefs.ErrFenced, ExitConflict},
	{queuefs.ErrStored, ExitConflict},
	{queuefs.ErrUnstored, ExitConflict},
	{queuefs.ErrThere, ExitConflict},
	{queuefs.ErrArrived, ExitConflict},
	{queuefs.ErrHere, ExitConflict},
	{queuefs.ErrDigest, ExitDigest},
	{digest.ErrMismatch, ExitDigest},
	{fs.ErrExist, ExitConflict},
	{access.ErrExists, ExitConflict},
	{access.ErrMissing, ExitNotFound},
	{ErrRefused, ExitRefused},
	{ErrDiffers, ExitDifferent},
	{ErrFaulty, ExitDifferent},
	{stored.ErrFaults, ExitDifferent},
	{objects.ErrNotExist, ExitNotFound},
}

// ExitCode returns the exit code for err.
func ExitCode(err error) int {
	var usage usageError
	var locked *queuefs.LockedError
	var owned *queuefs.OwnedError
	var moved *queuefs.MovedError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &locked), errors.As(err, &owned), errors.As(err, &moved):
		return ExitConflict
	}
	for _, e := range exitCodes {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	answer, _ := web.ErrorOf(err)
	switch answer.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return ExitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitRefused
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusConflict, http.StatusUnprocessableEntity: // another state, or a key that was used
		return ExitConflict
	}
	return ExitError
}
