package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// TestUnreadJobsRest takes jobs whose files cannot be read for half a second: none is put
// on hold, and all are handed out in their order later.
func TestUnreadJobsRest(t *testing.T) {
	for _, part := range []string{"job file", "payload"} {
		for _, verify := range []bool{false, true} {
			t.Run(fmt.Sprint(part, verify), func(t *testing.T) {
				disk, late := &badDisk{part: part}, time.Duration(0)
				now := clock()
				o := queuefs.Options{Reads: disk.step, Now: func() time.Time { return now().Add(late) }}
				s, q := openWith(t, fastDir(t), o, func(i *queuefs.QueueInfo) { i.VerifyOnRead = verify })
				for range 20 {
					submit(t, q, queuefs.Meta{Sidecar: "s"}, "payload")
				}
				must(t, s.Maintain(ctx))
				last := q.Seq()

				disk.fail(syscall.EIO, always)
				if _, err := q.Take(ctx, queuefs.Take{Max: 20}); !errors.Is(err, queuefs.ErrUnread) {
					t.Errorf("got %v", err)
				}
				if s.Unread() == 0 || q.Seq() != last {
					t.Errorf("%d jobs cannot be read, and there are events up to %d after %d", s.Unread(), q.Seq(), last)
				}
				// The first few fail, and the consumer gets the next one.
				late = time.Hour
				must(t, s.Expire(ctx))
				if n := s.Unread(); n != 0 {
					t.Errorf("%d jobs cannot be read", n)
				}
				disk.fail(syscall.EIO, 3)
				j, err := q.Take(ctx, queuefs.Take{})
				if err != nil || j[0].ID != 4 {
					t.Errorf("got %v, %v", j, err)
				}
				// Others may do with a job that rests what they like.
				if _, err := q.Hold(ctx, 2, ""); err != nil {
					t.Error(err)
				}
				if n := s.Unread(); n != 2 {
					t.Errorf("%d jobs cannot be read", n)
				}
				late += time.Minute
				must(t, s.Expire(ctx))
				got, err := q.Take(ctx, queuefs.Take{Max: 20})
				if err != nil || len(got) != 18 || got[0].ID != 1 || got[1].ID != 3 || got[0].Sidecar != "s" {
					t.Errorf("got %v, %v", idsOfTaken(got), err)
				}
				if n := s.Unread(); n != 0 {
					t.Errorf("%d jobs cannot be read", n)
				}
				counted(t, q)
				closeHome(t, s)
			})
		}
	}
}

// TestWaiterIsServedWhenJobsCanBeRead waits for a job that cannot be read at first.
func TestWaiterIsServedWhenJobsCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &badDisk{part: "job file"}
		s, q := openHome(t, t.TempDir(), queuefs.Options{Reads: disk.step})
		submit(t, q, queuefs.Meta{}, "payload")
		must(t, s.Checkpoint(ctx))
		disk.fail(syscall.EIO, 1)
		back := make(chan taking, 1)
		wait(ctx, q, 0, 1, back)
		if s.Unread() != 1 {
			t.Errorf("%d jobs cannot be read", s.Unread())
		}
		time.Sleep(time.Second)
		must(t, s.Expire(ctx))
		expect(t, back, taking{jobs: []queuefs.JobID{1}})
		closeHome(t, s)
	})
}

// TestCullingAfterAFailureIsRefused culls when storage has failed, even if no job is due.
func TestCullingAfterAFailureIsRefused(t *testing.T) {
	var broken atomic.Bool
	s, q := openHome(t, fastDir(t), queuefs.Options{Fault: func(step string, do func() error) error {
		if broken.Load() && step == "journal sync" {
			return syscall.EIO
		}
		return do()
	}})
	j := submit(t, q, queuefs.Meta{}, "x")
	broken.Store(true)
	if _, err := q.Hold(ctx, j.ID, ""); !errors.Is(err, queuefs.ErrFailed) {
		t.Fatalf("got %v", err)
	}
	var got error
	for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
		got = err
	}
	if !errors.Is(got, queuefs.ErrFailed) {
		t.Errorf("got %v", got)
	}
	s.Close()
}
