package queuefs

import (
	"errors"

	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"

	"cutie/queuefs/ledger"
	"cutie/queuefs/objects"
	"cutie/queuefs/properties"
	"cutie/queuefs/replay"
	"cutie/queuefs/stored"
)

// Errors for callers to branch on. Every error of this package with one of these
// meanings wraps it.
var (
	ErrNoQueue       = ledger.ErrNoQueue
	ErrQueueExists   = errors.New("queue exists already")
	ErrNotEmpty      = ledger.ErrNotEmpty
	ErrRefusing      = errors.New("queue refuses submissions")
	ErrNotLost       = errors.New("the directory of the queue is not lost")
	ErrNoJob         = ledger.ErrNoJob
	ErrEmpty         = ledger.ErrEmpty
	ErrNotPending    = job.ErrNotPending
	ErrConflict      = job.ErrConflict
	ErrLease         = errors.New("lease is gone")
	ErrNoResult      = content.ErrNoResult
	ErrResultDamaged = content.ErrResultDamaged
	ErrResultExists  = errors.New("result exists already")
	ErrBadName       = job.ErrBadName
	ErrDigest        = digest.ErrMismatch
	ErrSidecar       = job.ErrSidecar
	ErrKeyUsed       = errors.New("key was used before")
	ErrKeyBusy       = errors.New("another request with this key is on its way")
	ErrTooBig        = job.ErrTooBig
	ErrGone          = ledger.ErrGone
	ErrNoSpace       = ledger.ErrNoSpace
	ErrUnread        = content.ErrUnread
	ErrFailed        = ledger.ErrFailed
	ErrMirror        = replay.ErrMirror
	ErrDiverged      = replay.ErrDiverged
	ErrJournalLost   = errors.New(lostJournal)
	ErrInfo          = properties.ErrInfo
	ErrNoHome        = home.ErrNoHome
	ErrMaking        = home.ErrMaking
	ErrClosed        = ledger.ErrClosed
	ErrFenced        = journal.ErrFenced
	ErrStored        = stored.ErrStored
	ErrUnstored      = stored.ErrUnstored
	ErrThere         = stored.ErrThere
	ErrArrived       = stored.ErrArrived
	ErrHere          = stored.ErrHere
	ErrAway          = objects.ErrAway
	ErrBack          = bucket.ErrBack
	ErrDenied        = objects.ErrDenied
	ErrStandby       = journal.ErrFollowing
	ErrAlive         = errors.New("the home has an owner that is alive")
	ErrBehind        = errors.New("the standby has fallen behind the beginning of the journal")
)

// lostJournal is damage that nothing can make good.
const lostJournal = "the home was not closed, and its journal is lost or ends before the last checkpoint, so acknowledged changes are missing"

// errStale: the directory of a home in a store lacks changes of the journal. It is made
// again.
var errStale = errors.New("the directory is older than the journal")

var errUnstored = errors.New("the home is in no object store")

// errImage: an image has what its maker had.
var errImage = errors.New("the index in the image was damaged when the image was made; the directory of its owner, or the image before, may have it whole")

// errLook is the error of changes in a home opened with [Options.Look].
var errLook = errors.New("home opened for reading")

// A LockedError is the error for a home held by another process.
type LockedError = home.LockedError

// An OwnedError is the error for a home in a store that another process owns.
type OwnedError = stored.OwnedError

// A MovedError is the error for a home in a directory, asked for in a store.
type MovedError = stored.MovedError

// A Problem is damage, found and set aside, never deleted.
type Problem = home.Problem
