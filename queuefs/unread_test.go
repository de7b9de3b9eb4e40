package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
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
				wantErr(t, call(), queuefs.ErrUnread, "%s", name)
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
				submitN(t, q, 20, queuefs.Meta{Sidecar: "s"}, "payload")
				must(t, s.Maintain(ctx))
				last := q.Seq()

				disk.fail(syscall.EIO, always)
				wantErr(t, errOf(q.Take(ctx, queuefs.Take{Max: 20})), queuefs.ErrUnread, "")
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
				should(t, errOf(q.Hold(ctx, 2, "")))
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

// TestWhatIsNotThereIsNotHandedOut serves a queue that verifies nothing: jobs
// whose payloads are not there, or have another length, are put on hold, with
// what they were, and those behind them are handed out.
func TestWhatIsNotThereIsNotHandedOut(t *testing.T) {
	for _, size := range []int{100, 200 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := fastDir(t)
			var told []string
			o := queuefs.Options{Now: clock(), Report: func(p queuefs.Problem) { told = append(told, p.String()) }}
			s, q := openHome(t, dir, o)
			submitN(t, q, 6, queuefs.Meta{}, strings.Repeat("x", size))
			must(t, s.Maintain(ctx))
			for i, how := range []string{"cut", "gone", "grown", "", "gone"} {
				spoil(t, dir, queuefs.JobID(i+1), how)
			}
			for _, want := range []queuefs.JobID{4, 6} {
				taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: home.DefaultLease})
				if err != nil || !slices.Equal(idsOfTaken(taken), []queuefs.JobID{want}) {
					t.Fatalf("got %v, %v, want %v", idsOfTaken(taken), err, want)
				}
				if got := payload(t, q, want); len(got) != size {
					t.Errorf("payload of %v has %d octets", want, len(got))
				}
			}
			wantErr(t, errOf(q.Next(ctx, "w")), queuefs.ErrEmpty, "")
			if got := q.IDs(queuefs.ListOptions{Held: true}); !slices.Equal(got, []queuefs.JobID{1, 2, 3, 5}) {
				t.Errorf("held: got %v", got)
			}
			j, err := q.Job(1)
			if want := fmt.Sprintf("payload of j000000000001 has 3 octets instead of %d", size); err != nil ||
				j.HeldFor != want || j.Attempts != 0 || j.Consumer != "" {
				t.Errorf("got %+v, %v", j, err)
			}
			// Job files are published: they do not tell where the home is.
			if j, err := q.Job(2); err != nil || j.HeldFor != "payload of j000000000002: no such file or directory" {
				t.Errorf("got %+v, %v", j, err)
			}
			if len(told) != 4 || !strings.Contains(told[1], "payload/j000000000002") || !strings.HasSuffix(told[1], "; the job is on hold") {
				t.Errorf("told %q", told)
			}
			// One that was mended is handed out.
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/payload", j.ID.String()), []byte(strings.Repeat("x", size)), 0o666))
			must(t, errOf(q.Release(ctx, j.ID)))
			if j, err := q.Next(ctx, "w"); err != nil || j.ID != 1 {
				t.Errorf("got %v, %v", j.ID, err)
			}
			counted(t, q)
			closeHome(t, s)
		})
	}
}

// The length of a payload is what the index says, whatever other hands wrote
// into the job file.
func TestLengthIsNotWhatOtherHandsWrote(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	submit(t, q, queuefs.Meta{}, "payload")
	must(t, s.Maintain(ctx))
	path := filepath.Join(dir, "queues/jobs/pending/j000000000001")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "size: 7", "size: 9", 1)), 0o666))
	j, err := q.Next(ctx, "w")
	if err != nil || j.Size != 7 {
		t.Fatalf("got %d octets, %v", j.Size, err)
	}
	if got := payload(t, q, 1); got != "payload" {
		t.Errorf("got %q", got)
	}
}

// TestFilesNobodyMissesAreNotWritten counts the changes of directories for jobs that pass
// through before their files are due.
func TestFilesNobodyMissesAreNotWritten(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
		mu.Lock()
		steps = append(steps, step)
		mu.Unlock()
		return do()
	}})
	count := func(want string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, step := range steps {
			if step == want {
				n++
			}
		}
		return n
	}
	submitN(t, q, 3, queuefs.Meta{}, "small")
	must(t, errOf(q.NextN(ctx, "w", 2)))
	if got := culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 1}}); len(got) != 1 || got[0].Job != 1 {
		t.Fatalf("culled %v", got)
	}
	if got := s.Behind(); got != 2 {
		t.Errorf("%d jobs are behind after one of three was culled", got)
	}
	crashed := copyHome(t, dir)
	must(t, s.Checkpoint(ctx))
	// Of jobs 2 and 3 alone, and their last states.
	for step, want := range map[string]int{"put payload": 2, "put pending": 1, "put consumed": 1, "put deleted": 0, "rewrite pending": 0,
		"remove payload": 0, "remove pending": 0, "remove consumed": 0, "remove deleted": 0} {
		if got := count(step); got != want {
			t.Errorf("%s: %d times, want %d", step, got, want)
		}
	}
	want := observe(t, s)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		s, q := openHome(t, dir, queuefs.Options{})
		want.expect(t, s)
		must(t, s.Checkpoint(ctx))
		if ids := q.IDs(queuefs.ListOptions{}); !slices.Equal(ids, []queuefs.JobID{2, 3}) {
			t.Errorf("got %v", ids)
		}
		if got := tree(t, dir); strings.Contains(got, "j000000000001") {
			t.Errorf("files: got\n%s", got)
		}
		closeHome(t, s)
	}
}

// TestACulledJobWithFilesLosesThem culls a job whose files were written, and one whose
// payload waits in a temporary file.
func TestACulledJobWithFilesLosesThem(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "filed")
	must(t, s.Checkpoint(ctx))
	submit(t, q, queuefs.Meta{}, strings.Repeat("large", 50_000))
	must(t, errOf(q.NextN(ctx, "w", 2)))
	if got := cullQueue(t, s, "jobs"); len(got) != 2 {
		t.Fatalf("culled %v", got)
	}
	if got := s.Behind(); got != 2 {
		t.Errorf("%d jobs are behind, want both: they have files", got)
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	s, _ = openHome(t, crashed, queuefs.Options{})
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		if got := tree(t, dir); got != "jobs/queue-info.txt" {
			t.Errorf("files: got\n%s", got)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "cutie-tmp")); err != nil || len(left) > 0 {
			t.Errorf("temporary files: %v, %v", left, err)
		}
	}
}
