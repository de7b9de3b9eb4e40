package ledger

import (
	"errors"
	"io/fs"
	"syscall"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// Errors for callers to branch on.
var (
	ErrNoQueue  = errors.New("queue not found")
	ErrNotEmpty = errors.New("queue not empty")
	ErrNoJob    = errors.New("job not found")
	ErrEmpty    = errors.New("queue empty")
	ErrGone     = errors.New("events no longer in the journal")
	ErrNoSpace  = errors.New("no space left for the queue")
	ErrFailed   = errors.New("storage failed, open the home again")
	ErrClosed   = errors.New("service closed")
)

// A ReserveError is the error of [Ledger.Commit] when the journal found no storage
// for the records. Nothing has happened; Commit may be called again.
type ReserveError struct{ Err error }

func (e *ReserveError) Error() string { return e.Err.Error() }
func (e *ReserveError) Unwrap() error { return e.Err }

// StorageError gives the error of a failed step its meaning for callers: it joins
// ErrFailed, ErrNoSpace, [job.ErrTooBig] or ErrClosed to it.
func StorageError(err error) error {
	switch {
	case errors.Is(err, journal.ErrFailed), errors.Is(err, journal.ErrFenced):
		return errors.Join(ErrFailed, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errors.Join(ErrNoSpace, err)
	case errors.Is(err, journal.ErrTooLarge):
		return errors.Join(job.ErrTooBig, err)
	case errors.Is(err, fs.ErrClosed), errors.Is(err, journal.ErrClosed):
		return errors.Join(ErrClosed, err)
	}
	return err
}
