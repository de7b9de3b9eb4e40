package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
)

// TestUnreadPropertiesAreNotLost opens a home while the queue-info.txt of one queue cannot
// be read: the queue is shut, the others are served, and nothing is written over. Once
// the file can be read, the queue opens by itself.
func TestUnreadPropertiesAreNotLost(t *testing.T) {
	for i, errno := range unreadErrors {
		for _, how := range []string{"stopped", "killed", "without index"} {
			if how != "stopped" && i > 1 {
				continue
			}
			t.Run(errno.Error()+" "+how, func(t *testing.T) {
				dir, disk := homeToShut(t, how), &badDisk{part: "properties"}
				file := filepath.Join(dir, "queues/jobs/queue-info.txt")
				before, err := os.ReadFile(file)
				must(t, err)
				var problems []string
				late := time.Duration(0)
				o := queuefs.Options{Reads: disk.step, Report: func(p queuefs.Problem) { problems = append(problems, p.String()) },
					Now: func() time.Time { return time.Now().Add(late) }}

				disk.fail(errno, 1) // the one of jobs, which is read first
				s := openBare(t, dir, o)
				q, err := s.Queue("jobs")
				must(t, err)
				last := q.Seq()
				refusesAll(t, s, errno)
				if st := q.State(); !st.Shut || !strings.Contains(st.Damage, errno.Error()) || s.Shut() != 1 {
					t.Errorf("state %+v", st)
				}
				told := slices.DeleteFunc(slices.Clone(problems), func(p string) bool {
					return !strings.HasPrefix(p, "queues/jobs/queue-info.txt: ") || !strings.Contains(p, "shut")
				})
				if len(told) != 1 {
					t.Errorf("reported %q", problems)
				}
				other, err := s.Ask("other")
				must(t, err)
				submit(t, other, queuefs.Meta{}, "payload")
				if _, err := other.Next(ctx, "c"); err != nil {
					t.Error(err)
				}

				late = time.Hour // leases are over, and jobs old enough to be culled
				must(t, s.Expire(ctx))
				for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
					must(t, err)
				}
				must(t, s.Checkpoint(ctx))
				disk.fail(errno, always)
				if came, err := s.Reload(ctx); err != nil || slices.Contains(came, "jobs") || q.Shut() == nil {
					t.Errorf("reload: got %v, %v", came, err)
				}
				if q.Seq() != last {
					t.Errorf("%d events of a queue that is shut", q.Seq()-last)
				}

				disk.fail(errno, 0)
				came, err := s.Reload(ctx)
				if err != nil || !slices.Contains(came, "jobs") {
					t.Errorf("reload: got %v, %v", came, err)
				}
				q, err = s.Ask("jobs")
				must(t, err)
				if info := q.Info(); info.Closed || !info.Paused.IsZero() || info.MaxAttempts != 3 || info.Name != "Jöbs" || q.Seq() != last {
					t.Errorf("got %+v, %d events", info, q.Seq()-last)
				}
				if named, err := s.Ask("Jöbs"); err != nil || named != q {
					t.Errorf("by its name: got %v, %v", named, err)
				}
				if st := q.State(); st.Damage != "" || st.Shut || st.Pending != 1 || st.Leased != 1 || st.Deleted != 1 {
					t.Errorf("got %+v", st)
				}
				must(t, s.Expire(ctx))
				if st := q.State(); st.Leased != 0 {
					t.Errorf("the lease goes on: %+v", st)
				}
				closeHome(t, s)
				after, err := os.ReadFile(file)
				if err != nil || string(after) != string(before) {
					t.Errorf("the file has changed to %q, %v", after, err)
				}
				openBareAgain(t, dir)
			})
		}
	}
}

// homeToShut makes a home with a queue jobs, one of its jobs waiting and one on lease, and
// a queue other.
func homeToShut(t *testing.T, how string) string {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	s, q := openWith(t, dir, queuefs.Options{}, func(i *queuefs.QueueInfo) { i.Name, i.CullingSize, i.CullingAge = "Jöbs", 0, 0 })
	_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	must(t, err)
	submit(t, q, queuefs.Meta{}, "first")
	submit(t, q, queuefs.Meta{}, "second")
	submit(t, q, queuefs.Meta{}, "third")
	_, err = q.Delete(ctx, 3)
	must(t, err)
	must(t, s.Checkpoint(ctx))
	_, err = s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.MaxAttempts = 3 }))
	must(t, err)
	_, err = q.Take(ctx, queuefs.Take{Lease: time.Minute})
	must(t, err)
	if how == "killed" {
		must(t, s.Maintain(ctx))
		killed := copyHome(t, dir)
		closeHome(t, s)
		return killed
	}
	closeHome(t, s)
	touch(t, filepath.Join(dir, "queues/jobs/queue-info.txt")) // or nobody reads it
	if how == "without index" {
		must(t, os.RemoveAll(filepath.Join(dir, "log/index")))
	}
	return dir
}

func touch(t *testing.T, file string) {
	t.Helper()
	now := time.Now()
	must(t, os.Chtimes(file, now, now))
}

// refusesAll asks a queue that is shut for everything that clients may.
func refusesAll(t *testing.T, s *queuefs.Service, errno syscall.Errno) {
	t.Helper()
	calls := map[string]func() error{
		"ask": func() error { _, err := s.Ask("jobs"); return err },
		"set": func() error {
			_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.MaxAttempts = 9 }))
			return err
		},
		"remove": func() error { return s.RemoveQueue(ctx, "jobs") },

		"cull": func() (err error) {
			for _, err = range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
			}
			return err
		},
	}
	for name, call := range calls {
		err := call()
		if !errors.Is(err, queuefs.ErrUnread) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "queue jobs is shut: queue-info.txt") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"}); !errors.Is(err, queuefs.ErrQueueExists) {
		t.Errorf("create: got %v", err)
	}
}

// TestPropertiesChangedWhileTheyCannotBeRead are in force, with their event, once they
// can.
func TestPropertiesChangedWhileTheyCannotBeRead(t *testing.T) {
	for _, text := range []string{"identifier: jobs\nmaxAttempts: 7\n", "damaged"} {
		dir, disk := homeToShut(t, "killed"), &badDisk{part: "properties"}
		disk.fail(syscall.EIO, 1)
		s := openBare(t, dir, queuefs.Options{Reads: disk.step})
		q, err := s.Queue("jobs")
		must(t, err)
		last := q.Seq()
		must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/queue-info.txt"), []byte(text), 0o600))
		disk.fail(syscall.EIO, 0)
		_, err = s.Reload(ctx)
		must(t, err)
		st := q.State()
		switch {
		case st.Shut:
			t.Errorf("%q: the queue is shut", text)
		case text == "damaged" && (st.Info.MaxAttempts != 3 || st.Damage == "" || q.Seq() != last):
			t.Errorf("%q: got %+v, %d events", text, st, q.Seq()-last)
		case text != "damaged" && (st.Info.MaxAttempts != 7 || st.Damage != "" || q.Seq() != last+1):
			t.Errorf("%q: got %+v, %d events", text, st, q.Seq()-last)
		}
		closeHome(t, s)
	}
}

// TestUnreadPropertiesOfAnOpenQueue refuses a change of a file that cannot be read.
func TestUnreadPropertiesOfAnOpenQueue(t *testing.T) {
	disk := &badDisk{part: "properties"}
	s, q := openHome(t, fastDir(t), queuefs.Options{Reads: disk.step})
	defer closeHome(t, s)
	disk.fail(syscall.EIO, always)
	_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.MaxAttempts = 9 }))
	if !errors.Is(err, queuefs.ErrUnread) || !errors.Is(err, syscall.EIO) || q.Shut() != nil {
		t.Errorf("got %v, shut: %v", err, q.Shut())
	}
	disk.fail(syscall.EIO, 0)
}

// TestCheckTellsOfUnreadProperties leaves the file alone, whatever it may do.
func TestCheckTellsOfUnreadProperties(t *testing.T) {
	dir := homeToShut(t, "stopped")
	info := filepath.Join(dir, "queues/jobs/queue-info.txt")
	was, err := os.ReadFile(info)
	must(t, err)
	for _, o := range []check.Options{{}, {Repair: true}, {Rebuild: true}} {
		disk := &badDisk{part: "properties"}
		disk.fail(syscall.EIO, 1)
		o.Segment, o.Reads = segmentSize, disk.step
		r, err := check.Home(dir, o)
		if err != nil || len(r.Problems) != 1 || r.Problems[0].Level != durable.Unread || !strings.HasPrefix(r.Problems[0].String(), "queues/jobs/queue-info.txt: ") {
			t.Errorf("%+v: got %+v, %v", o, r, err)
		}
		if cure, ok := check.Cure(&r, err); ok {
			t.Errorf("%+v: the cure is %+v", o, cure)
		}
		if is, err := os.ReadFile(info); err != nil || string(is) != string(was) {
			t.Errorf("%+v: the file has changed to %q, %v", o, is, err)
		}
	}
	if r, err := check.Home(dir, check.Options{Segment: segmentSize}); err != nil || len(r.Problems) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestUnchangedPropertiesAreNotRead opens a home that was closed in order: what the index
// has of an unchanged file holds. A check reads it.
func TestUnchangedPropertiesAreNotRead(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openWith(t, dir, queuefs.Options{}, func(i *queuefs.QueueInfo) { i.Name, i.MaxAttempts = "Jöbs", 7 })
	closeHome(t, s)
	unread := queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "properties" {
			t.Error("read")
		}
		return do()
	}}
	for range 2 {
		s = openBare(t, dir, unread)
		q, err := s.Queue("jobs")
		must(t, err)
		if info := q.Info(); info.Name != "Jöbs" || info.MaxAttempts != 7 {
			t.Errorf("got %+v", info)
		}
		closeHome(t, s)
	}
	read := false
	_, err := check.Home(dir, check.Options{Segment: segmentSize, Reads: func(step string, do func() error) error {
		read = read || step == "properties"
		return do()
	}})
	if err != nil || !read {
		t.Errorf("checked: read %v, %v", read, err)
	}
}
