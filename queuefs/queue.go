package queuefs

import (
	"context"
	"sync"
	"sync/atomic"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/far"
	"cutie/queuefs/filing"
	"cutie/queuefs/index"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/properties"
	"cutie/queuefs/replay"
	"cutie/queuefs/retention"
	"cutie/queuefs/submission"
	"cutie/queuefs/transition"
	"cutie/queuefs/tree"
)

// A Queue is a first-in-first-out set of jobs (Cutie 0.3, 3.2). Its methods are
// safe for concurrent use. Changes are on stable storage when a method returns,
// and before any method shows them.
type Queue struct {
	svc        *Service
	ledger     *ledger.Ledger // what is known of the jobs
	tree       *tree.Tree     // their directory
	content    *content.Reader
	filer      *filing.Filer
	tombstones *filing.Tombstones
	properties properties.Queue // by Service.properties
	asked      atomic.Bool      // since Reload looked at the properties
	retention  retention.Retention
	culling    sync.Mutex // see culling.Culler
	intake     submission.Intake
	desk       transition.Desk
	original   replay.Original
}

// newQueue opens the directories of a queue. Its settings must follow.
func (s *Service) newQueue(id string) (*Queue, error) {
	t, err := tree.Open(s.dirs.queues, id, &s.each.trees)
	if err != nil {
		return nil, err
	}
	l := ledger.New(id, s.shared)
	p := packs.New(func() (*durable.Dir, error) { return s.index.Queue(id) })
	q := &Queue{svc: s, ledger: l, tree: t,
		content:    &content.Reader{Ledger: l, Tree: t, Packs: p, Verified: &s.verified, Report: s.each.trees.Report},
		filer:      &filing.Filer{Ledger: l, Tree: t, Packs: p, InDoubt: s.each.inDoubt},
		tombstones: filing.NewTombstones(l, s.index),
	}
	if s.stored != nil {
		q.content.Far = &far.Files{Ledger: l, Tree: t, Store: s.stored, Report: s.report}
	}
	q.retention.Reader = q.content
	q.original.Ledger, q.original.Files = l, &s.properties.mirrors
	q.original.Load(s.known.mirrors[id])
	q.intake = submission.Intake{Reader: q.content, Shared: s.shared, Original: &q.original, Temp: s.dirs.temp, Spool: s.spool, Keep: s.stored.Keep, Commit: q.commit,
		Admit: func(ctx context.Context, n int, bytes int64) error { return s.admit(ctx, q, n, bytes) }}
	q.desk = transition.Desk{Ledger: l, Tree: t, Content: q.content, Shared: s.shared, Original: &q.original, Claims: &q.intake.Claims, Reports: s.reports,
		Temp: s.dirs.temp, Spool: s.spool, Keep: s.stored.Keep, Fit: s.makeFit, Commit: q.commit,
		CatchUp: func(ctx context.Context, n int) error { return s.catchUp(ctx, q, n) }, Assist: func(n int) { s.assist(q, n) }}
	q.properties = properties.Queue{Home: &s.each.properties, File: s.each.properties.Files(t.Root(), id), Ledger: l, Commit: q.commit}
	return q, nil
}

// close lets go of the queue.
func (q *Queue) close() {
	q.ledger.Free()
	q.tree.Close()
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.ledger.ID() }

// Names are the identifier as it was given, and the name.
func (q *Queue) Names() [2]string { return q.ledger.Settings().Names() }

// Info returns the properties of the queue.
func (q *Queue) Info() QueueInfo { return q.ledger.Settings().Info() }

// Callback returns the URL to be told of changes, "" if there is none, or of a mirror: its
// original tells. Info has scheme and host of it: the rest is a secret.
func (q *Queue) Callback() (string, error) {
	if q.Mirror().Live() {
		return "", nil
	}
	return q.svc.properties.callbacks.Of(q.ID(), q.info().Callback)
}

// info is Info without names and time.
func (q *Queue) info() QueueInfo { return q.ledger.Settings().Rules() }

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, Facts) {
	s := q.ledger.Settings()
	return s.Text, s.Facts()
}

// look is [ledger.Ledger.Look].
func (q *Queue) look(do func(x *index.Index)) { q.ledger.Look(do) }

// Jobs on their way into a queue; see package submission.
type (
	Submission = submission.Submission
	Upload     = submission.Upload
	Assembly   = submission.Assembly
	Admission  = submission.Admission
)

// Begin is as [submission.Intake.Begin].
func (q *Queue) Begin() *Submission { return q.intake.Begin() }

// Assemble is as [submission.Intake.Assemble].
func (q *Queue) Assemble(n int) *Assembly { return q.intake.Assemble(n) }
