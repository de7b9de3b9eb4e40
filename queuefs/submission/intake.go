// Package submission takes jobs into a queue: one job, or a group of jobs as a whole.
//
// The payload of each job is an [Upload], hashed on its way. Commit asks for the limits of
// the user, puts large payloads on stable storage, asks for space, and then appends the
// records of all jobs to the journal at once. A [Submission] is written one job after the
// other, an [Assembly] in any order and side by side. A request with a key may come again:
// jobs that are in the queue by their keys are returned in the place of new ones.
package submission

import (
	"context"
	"errors"
	"fmt"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/keys"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/upload"
)

// Errors for callers to branch on.
var (
	ErrRefusing = errors.New("queue refuses submissions")
	ErrKeyUsed  = errors.New("key was used before")
)

var errOver = errors.New("submission is over")

// An Intake is the end of a queue where jobs come in. Its methods are safe for concurrent
// use.
type Intake struct {
	Reader   *content.Reader
	Shared   *ledger.Shared
	Original *replay.Original // refuses jobs for a mirror
	Claims   keys.Claims      // of requests with keys
	Temp     *durable.Dir     // uploads
	Spool    func() (*durable.Spool, error)
	Keep     Keep                                                   // before a record names an upload
	Admit    func(ctx context.Context, jobs int, bytes int64) error // waits while the files are too far behind
	Commit   func(build func(b *ledger.Batch) error) error
}

// A Keep puts a temporary file with a digest where the home is, and returns its name then,
// after an error too.
type Keep func(ctx context.Context, temp string, sum [32]byte) (string, error)

// keep is Keep of an upload.
func (in *Intake) keep(ctx context.Context, d *Upload) error {
	name, err := in.Keep(ctx, d.up.Temp(), d.up.SHA256())
	d.up.Named(name)
	d.rec.Temp = name
	return err
}

// Begin starts a submission. Call Commit or Discard in the end.
func (in *Intake) Begin() *Submission {
	rules := in.Reader.Ledger.Settings().Rules()
	return &Submission{to: in, digests: rules.Digests, verify: rules.VerifyOnWrite,
		budget: upload.Budget{Inline: in.Shared.Inline, Free: in.Shared.MaxAppend / 2, Spool: in.Spool}}
}

// id returns the identifier of the queue.
func (in *Intake) id() string { return in.Reader.Ledger.ID() }

// drop removes a temporary file. After a failed commit the journal may speak of it all
// the same; opening the home settles it.
func (in *Intake) drop(temp string) {
	if temp != "" && in.Shared.Gate.Err() == nil {
		in.Temp.Remove(temp)
	}
}

// mint gives out the next job number.
func (in *Intake) mint(b *ledger.Batch) (job.ID, error) {
	number, ok := b.Index().MintJob()
	if !ok {
		return 0, fmt.Errorf("%w: queue %s has given out all job identifiers", ledger.ErrNoSpace, in.id())
	}
	return number, nil
}
