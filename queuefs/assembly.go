package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// An Assembly is a batch with payloads at the same time and in any order: each is
// written as a [Submission] of its own and then joins the others. It needs no
// more memory than a Submission, and is committed as a whole, or discarded. Put
// is safe for concurrent use.
type Assembly struct {
	mu      sync.Mutex
	sub     *Submission
	uploads []*Upload // nil where nothing was put yet
}

// Assemble starts a batch of n jobs. Call Commit or Discard in the end.
func (q *Queue) Assemble(n int) *Assembly {
	s := &Assembly{sub: q.Begin(), uploads: make([]*Upload, n)}
	s.sub.Group()
	return s
}

// Put moves the one job of part, a submission to the same queue, to number i,
// from 0 on, and ends part. If the payload has not the digests it should have,
// the error is ErrDigest; after any error part is to be discarded.
func (s *Assembly) Put(i int, part *Submission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sub.done || part.done:
		return errOver
	case part.to != s.sub.to || len(part.uploads) != 1 || s.uploads[i] != nil:
		return fmt.Errorf("number %d is not for this submission", i)
	}
	d := part.uploads[0]
	if err := d.Verify(); err != nil {
		return err
	}
	said := s.sub.said + 1024 + len(d.meta.Sidecar)
	if said > s.sub.to.svc.shared.MaxAppend {
		return fmt.Errorf("%w: batch of %d jobs", job.ErrTooBig, len(s.uploads))
	}
	if err := d.up.Move(&s.sub.budget); err != nil {
		return ledger.StorageError(err)
	}
	s.sub.said = said
	d.sub, s.uploads[i] = s.sub, d
	part.uploads, part.done = nil, true
	return nil
}

// Key is [Submission.Key].
func (s *Assembly) Key(key string) { s.sub.Key(key) }

// Admit is [Submission.Admit].
func (s *Assembly) Admit(a Admission) { s.sub.Admit(a) }

// Again is [Submission.Again].
func (s *Assembly) Again() bool { return s.sub.Again() }

// Commit puts the jobs at the end of the queue in the order of their numbers;
// see [Submission.Commit]. All must have been put.
func (s *Assembly) Commit(ctx context.Context) ([]job.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.uploads, nil) {
		return nil, errors.New("batch is not complete")
	}
	s.sub.uploads = s.uploads
	return s.sub.Commit(ctx)
}

// Discard lets go of the batch. After Commit it does nothing.
func (s *Assembly) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub.done {
		return
	}
	s.sub.uploads = slices.DeleteFunc(s.uploads, func(d *Upload) bool { return d == nil })
	s.sub.Discard()
}
