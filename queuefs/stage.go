package queuefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	if said > s.sub.q.svc.log.Stats().MaxAppend {
		return fmt.Errorf("%w: batch of %d jobs", ErrTooBig, len(s.drafts))
	}
	if d.file == nil && len(d.buf) > s.sub.budget {
		if d.err = d.spill(); d.err != nil {
			return d.err
		}
	}
	if d.file != nil {
		if err := d.file.Park(); err != nil {
			return storageError(err)
		}
		d.buf = nil
	} else {
		d.buf = slices.Clone(d.buf)
		s.sub.budget -= len(d.buf)
	}
	d.sum.buf = nil // it has room for more than is in it, and stays for long
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

// Verify compares the complete payload with the digests from the submitter.
// Commit does so too; the error is ErrDigest.
func (d *Draft) Verify() error {
	if d.err != nil {
		return d.err
	}
	_, err := d.digests()
	return err
}

// Reader returns a reader of the payload so far, for use before the end of the
// submission.
func (d *Draft) Reader() (io.Reader, error) {
	switch {
	case d.sub.done:
		return nil, errOver
	case d.err != nil:
		return nil, d.err
	case d.file == nil:
		return bytes.NewReader(d.buf), nil
	}
	f, err := d.file.File()
	if err != nil {
		return nil, storageError(err)
	}
	return io.NewSectionReader(f, 0, d.size), nil
}
