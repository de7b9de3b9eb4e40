package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// verified returns those of the claimed jobs that may be handed out. On a
// queue that verifies on reading, a job whose payload cannot be read or has
// not the digest that it had when it came is put on hold, so that the queue
// goes on behind it.
func (q *Queue) verified(ctx context.Context, ids []JobID) ([]JobID, error) {
	q.mu.RLock()
	verify := q.info.VerifyOnRead
	q.mu.RUnlock()
	if !verify {
		return ids, nil
	}
	var sound, bad []JobID
	why := map[JobID]string{}
	for _, id := range ids {
		err := ctx.Err()
		if err == nil {
			err = q.verifyPayload(id)
			if err == nil {
				sound = append(sound, id)
				continue
			}
		}
		if ctx.Err() != nil || exhausted(err) {
			q.release(ids...)
			return nil, err
		}
		bad, why[id] = append(bad, id), err.Error()
	}
	if len(bad) == 0 {
		return sound, nil
	}
	for _, id := range bad {
		q.svc.report(Problem{Path: q.path(payloadDir, id.String()), Text: why[id] + "; the job is on hold"})
	}
	if _, err := q.transition(bad, Hold, Pending, func(j *Job, t time.Time) {
		j.Held, j.HeldFor = t, why[j.ID]
	}); err != nil {
		q.release(sound...)
		return nil, err
	}
	return sound, nil
}

// verifyPayload reads the payload of a job and compares it with the digest in
// the index.
func (q *Queue) verifyPayload(id JobID) error {
	v, ok := q.view(id)
	if !ok {
		return ErrNoJob
	}
	p, err := q.Payload(id)
	if err != nil {
		return err
	}
	defer p.Close()
	h := sha256.New()
	// Through the page cache: the consumer reads it again at once.
	if _, err := io.Copy(h, struct{ io.Reader }{p}); err != nil {
		return fmt.Errorf("payload of %v: %w", id, err)
	}
	if [32]byte(h.Sum(nil)) != [32]byte(v.s().sha()) {
		return fmt.Errorf("payload of %v has not its SHA-256 digest", id)
	}
	return nil
}

// exhausted tells whether err says something of this process or service rather
// than of what was read.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, ErrClosed, ErrFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
