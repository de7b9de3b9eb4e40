package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs"
)

// A badDisk fails reads with an error while it has one.
type badDisk struct {
	err  atomic.Pointer[syscall.Errno]
	part string // "job file" or "payload"
	only atomic.Int64
}

func (d *badDisk) step(step string, do func() error) error {
	if err := d.err.Load(); err != nil && step == d.part && d.only.Add(-1) >= 0 {
		return &os.PathError{Op: "read", Path: "x", Err: *err}
	}
	return do()
}

// fail makes the next n reads fail.
func (d *badDisk) fail(err syscall.Errno, n int64) {
	d.only.Store(n)
	d.err.Store(&err)
}

const always = 1 << 40

// unreadErrors are errors that say nothing of the file.
var unreadErrors = []syscall.Errno{syscall.EIO, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENODATA, syscall.ETIMEDOUT,
	syscall.EREMOTEIO, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EINVAL, syscall.EACCES, syscall.ENOKEY}

// TestUnreadJobFileIsNotLost changes jobs whose files cannot be read for a while: the
// change is refused, and the file stays as it is.
func TestUnreadJobFileIsNotLost(t *testing.T) {
	for _, errno := range unreadErrors {
		t.Run(errno.Error(), func(t *testing.T) {
			dir, disk := fastDir(t), &badDisk{part: "job file"}
			s, q := openHome(t, dir, queuefs.Options{Now: clock(), Reads: disk.step})
			meta := queuefs.Meta{Filename: "f", Submitter: "s", Sidecar: "a sidecar"}
			submit(t, q, meta, "payload")
			must(t, s.Maintain(ctx))
			path := filepath.Join(dir, "queues/jobs/pending/j000000000001")
			before, err := os.ReadFile(path)
			must(t, err)

			disk.fail(errno, always)
			calls := map[string]func() error{
				"hold":   func() error { _, err := q.Hold(ctx, 1, ""); return err },
				"delete": func() error { _, err := q.Delete(ctx, 1); return err },
				"job":    func() error { _, err := q.Job(1); return err },
				"take":   func() error { _, err := q.Take(ctx, queuefs.Take{}); return err },
			}
			for name, call := range calls {
				if err := call(); !errors.Is(err, queuefs.ErrUnread) {
					t.Errorf("%s: got %v", name, err)
				}
			}
			must(t, s.Maintain(ctx))
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file has changed to %q, %v", after, err)
			}
			disk.fail(errno, 0)
			j, err := q.Hold(ctx, 1, "")
			if err != nil || j.Sidecar != meta.Sidecar || j.Filename != meta.Filename || j.Submitter != meta.Submitter {
				t.Errorf("got %+v, %v", j, err)
			}
			closeHome(t, s)
		})
	}
}
