package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"cutie/queuefs/tree"
	"golang.org/x/sys/unix"
)

// sound returns the claimed jobs fit to be handed out. A job with a missing or
// truncated payload is put on hold, so that it is not consumed by nobody, and the
// queue goes on after it. With VerifyOnRead a job with an unreadable payload or a
// wrong digest is put on hold too.
func (q *Queue) sound(ctx context.Context, ids []JobID) ([]JobID, error) {
	q.mu.RLock()
	look := q.findPayload
	if q.set.info.VerifyOnRead {
		look = q.verifyPayload
	}
	q.mu.RUnlock()
	var why map[JobID]string
	for _, id := range ids {
		err := ctx.Err()
		if err == nil {
			if err = look(id); err == nil {
				continue
			}
		}
		if ctx.Err() != nil || exhausted(err) {
			q.release(ids...)
			return nil, err
		}
		if why == nil {
			why = map[JobID]string{}
		}
		why[id] = reason(id, err)
	}
	if why == nil {
		return ids, nil
	}
	var good, bad []JobID
	for _, id := range ids {
		if why[id] == "" {
			good = append(good, id)
			continue
		}
		bad = append(bad, id)
	}
	if _, err := q.transition(bad, Hold, Pending, func(j *Job, t time.Time) {
		j.Held, j.HeldFor = t, why[j.ID]
	}); err != nil {
		q.release(good...)
		return nil, err
	}
	for _, id := range bad {
		q.svc.report(Problem{Path: q.tree.Path(tree.Payloads, id.String()), Text: why[id] + "; the job is on hold"})
	}
	return good, nil
}

// reason returns the reason of a hold, without the path of the home: job files are
// public.
func reason(id JobID, err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return fmt.Sprintf("payload of %v: %v", id, p.Err)
	}
	return err.Error()
}

// findPayload looks, without reading, for the payload of a job in its original
// length. One in the journal or a pack is not looked for.
func (q *Queue) findPayload(id JobID) error {
	for range readTries {
		v, ok := q.view(id)
		if !ok {
			return q.noJob()
		}
		size := v.Size
		if v.Journaled.Payload != 0 {
			return nil
		}
		if c := q.packs.find(id); c != nil && c.matches(&v) {
			return nil
		}
		st, err := q.tree.StatPayload(id, v.temp)
		switch {
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
			return fmt.Errorf("payload of %v is not a regular file", id)
		case err == nil && st.Size != size:
			return fmt.Errorf("payload of %v has %d octets instead of %d", id, st.Size, size)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("payload of %v: %w", id, err)
		}
		if w, ok := q.view(id); ok && w == v {
			return fmt.Errorf("payload of %v: %w", id, err)
		}
	}
	return fmt.Errorf("payload of %v does not hold still", id)
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
	if [32]byte(h.Sum(nil)) != v.SHA256 {
		return fmt.Errorf("payload of %v has not its SHA-256 digest", id)
	}
	return nil
}

// exhausted reports whether err is about this process or service, not about the
// data.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, fs.ErrClosed, ErrClosed, ErrFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
