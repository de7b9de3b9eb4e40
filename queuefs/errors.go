package queuefs

import (
	"errors"

	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// Errors for callers to branch on. Every error of this package with one of these
// meanings wraps it.
var (
	ErrNoQueue      = errors.New("queue not found")
	ErrQueueExists  = errors.New("queue exists already")
	ErrNotEmpty     = errors.New("queue not empty")
	ErrRefusing     = errors.New("queue refuses submissions")
	ErrNoJob        = errors.New("job not found")
	ErrEmpty        = errors.New("queue empty")
	ErrNotPending   = errors.New("job not pending")
	ErrConflict     = errors.New("job not in a state for that")
	ErrLease        = errors.New("lease is gone")
	ErrNoResult     = errors.New("result not found")
	ErrResultExists = errors.New("result exists already")
	ErrBadName      = job.ErrBadName
	ErrDigest       = digest.ErrMismatch
	ErrSidecar      = job.ErrSidecar
	ErrTooBig       = job.ErrTooBig
	ErrGone         = errors.New("events no longer in the journal")
	ErrNoSpace      = errors.New("no space left for the queue")
	ErrFailed       = errors.New("storage failed, open the home again")
	ErrNoHome       = home.ErrNoHome
	ErrClosed       = errors.New("service closed")
)

// A LockedError is the error for a home held by another process.
type LockedError = home.LockedError

// A Problem is damage, found and set aside, never deleted.
type Problem = home.Problem
