// Package transition changes jobs in a queue: it hands them out, takes the reports of
// their consumers, and holds, moves and describes them.
//
// A change claims its jobs, so that no other one is busy with them, reads them, and then
// appends a record of each to the journal with one commit. An edit of a job runs within
// the commit, at the time of its event. Claims end with the commit.
//
//	Take, Expire ─▶ claim ─▶ read ─▶ edit ─▶ commit ─▶ applied to the index
//	Hold, Conclude …               (again, if the journal had no space)
package transition

import (
	"cmp"
	"context"
	"errors"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/keys"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/submission"
	"cutie/queuefs/tree"
)

// Errors for callers to branch on.
var (
	ErrLease        = errors.New("lease is gone")
	ErrResultExists = errors.New("result exists already")
)

// A Desk is the end of a queue where consumers and operators change jobs. Its methods are
// safe for concurrent use. Changes are on stable storage when a method returns.
type Desk struct {
	Ledger   *ledger.Ledger
	Tree     *tree.Tree
	Content  *content.Reader
	Shared   *ledger.Shared
	Original *replay.Original // refuses changes of a mirror
	Claims   *keys.Claims     // of requests with keys
	Reports  *home.Reports
	Temp     *durable.Dir // uploads
	Spool    func() (*durable.Spool, error)
	Keep     submission.Keep                           // before a record names an upload
	Fit      func(jobs int, bytes int64) error         // fails without free space for these
	CatchUp  func(ctx context.Context, jobs int) error // waits while the files are too far behind
	Assist   func(jobs int)                            // writes files of so many jobs if many are behind
	Commit   func(build func(b *ledger.Batch) error) error

	takes keys.Takes
}

// changeable returns the error of ctx, or [replay.ErrMirror].
func (q *Desk) changeable(ctx context.Context) error {
	return cmp.Or(ctx.Err(), q.Original.Refuse())
}

// rules are the properties of the queue without names and time.
func (q *Desk) rules() home.QueueInfo { return q.Ledger.Settings().Rules() }

// report reports damage of a file below the home.
func (q *Desk) report(path, text string) { q.Reports.Add(home.Problem{Path: path, Text: text}) }
