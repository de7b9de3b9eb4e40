package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Stage is a batch with payloads at the same time and in any order: each is
// written as a [Submission] of its own and then put into its place. It needs no
// more memory than a Submission, and is committed as a whole, or discarded. Put
// is safe for concurrent use.
type Stage struct {
	mu     sync.Mutex
	sub    *Submission
	drafts []*Draft // by place; nil where nothing was put yet
}

// Stage starts a batch of n jobs. Call Commit or Discard in the end.
func (q *Queue) Stage(n int) *Stage {
	s := &Stage{sub: q.Begin(), drafts: make([]*Draft, n)}
	s.sub.Group()
	return s
}

// Put moves the one job of part, a submission to the same queue, to a place
// from 0 on, and ends part. If the payload has not the digests it should have,
// the error is ErrDigest; after any error part is to be discarded.
func (s *Stage) Put(place int, part *Submission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sub.done || part.done:
		return errOver
	case part.q != s.sub.q || len(part.drafts) != 1 || s.drafts[place] != nil:
		return fmt.Errorf("place %d is not for this submission", place)
	}
	d := part.drafts[0]
	if err := d.Verify(); err != nil {
		return err
	}
	said := s.sub.said + 1024 + len(d.meta.Sidecar)
	if said > s.sub.q.svc.most {
		return fmt.Errorf("%w: batch of %d jobs", ErrTooBig, len(s.drafts))
	}
	if err := d.up.Move(&s.sub.budget); err != nil {
		return storageError(err)
	}
	s.sub.said = said
	d.sub, s.drafts[place] = s.sub, d
	part.drafts, part.done = nil, true
	return nil
}

// Commit puts the jobs at the end of the queue in the order of their places;
// see [Submission.Commit]. There must be one in every place.
func (s *Stage) Commit(ctx context.Context) ([]Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.drafts, nil) {
		return nil, errors.New("batch is not complete")
	}
	s.sub.drafts = s.drafts
	return s.sub.Commit(ctx)
}

// Discard lets go of the batch. After Commit it does nothing.
func (s *Stage) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub.done {
		return
	}
	s.sub.drafts = slices.DeleteFunc(s.drafts, func(d *Draft) bool { return d == nil })
	s.sub.Discard()
}
