package queuefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
)

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

// settled returns the number of goroutines once those that end have ended.
func settled(want int) int {
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > want && time.Now().Before(end); {
		runtime.Gosched()
	}
	return runtime.NumGoroutine()
}

func TestThousandQueues(t *testing.T) {
	n := long.N(150, 1000)
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	closeHome(t, s) // what the system keeps open for good
	files, routines := descriptors(t), runtime.NumGoroutine()
	dir := fastDir(t)
	s, _ = openHome(t, dir, queuefs.Options{})
	want := []string{"jobs"}
	for i := range n {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprintf("ark:/%d", i), Name: fmt.Sprint("n", i)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, q.ID())
		submit(t, q, queuefs.Meta{}, q.ID())
	}
	closeHome(t, s)
	for range 2 {
		s, _ = openHome(t, dir, queuefs.Options{})
		var got []string
		for _, q := range s.Queues() {
			got = append(got, q.ID())
			if q.ID() == "jobs" {
				continue
			}
			if p := payload(t, q, 1); p != q.ID() {
				t.Errorf("%s: got %q", q.ID(), p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %d queues: %q", len(got), got)
		}
		for _, name := range []string{"ark+=7", "ark:/7", "n7"} {
			if q, err := s.Queue(name); err != nil || q.ID() != "ark+=7" {
				t.Errorf("%s: %v", name, err)
			}
		}
		closeHome(t, s)
	}
	if got := descriptors(t); got > files {
		t.Errorf("%d files are open, before there were %d", got, files)
	}
	if got := settled(routines); got > routines {
		t.Errorf("%d goroutines run, before there were %d", got, routines)
	}
}

// TestNothingStaysOpenAfterFailure fails each step of opening, working and
// closing, and counts what is left open.
func TestNothingStaysOpenAfterFailure(t *testing.T) {
	newScenario(t, newFaults(0, nil)).run() // what is made once and kept
	files, routines := descriptors(t), runtime.NumGoroutine()
	for at := 1; ; at += stride() {
		f := newFaults(at, errInjected)
		f.stops = true
		c := newScenario(t, f)
		c.run()
		os.RemoveAll(c.dir)
		if !f.fired() {
			break
		}
		if got := descriptors(t); got > files {
			t.Fatalf("step %d (%s) fails: %d files are open, before there were %d", at, f.name, got, files)
		}
		if got := settled(routines); got > routines {
			t.Fatalf("step %d (%s) fails: %d goroutines run, before there were %d", at, f.name, got, routines)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	for _, open := range []func() error{
		func() error { _, err := queuefs.Open(dir, queuefs.Options{}); return err },
		func() error { _, err := check.Home(dir, check.Options{}); return err },
		func() error { _, err := check.Home(dir, check.Options{Rebuild: true}); return err },
	} {
		err := open()
		var locked *queuefs.LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("got %v", err)
		}
	}
	closeHome(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	s, _ = openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
}

func TestWhatIsNoHome(t *testing.T) {
	dir := t.TempDir()
	if _, err := queuefs.Open(filepath.Join(dir, "missing"), queuefs.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v", err)
	}
	if _, err := queuefs.Open(dir, queuefs.Options{}); !errors.Is(err, queuefs.ErrNoHome) || !strings.Contains(err.Error(), dir) {
		t.Errorf("empty: got %v", err)
	}
	if err := queuefs.Init(dir, queuefs.ServiceInfo{}); err != nil {
		t.Fatal(err)
	}
	if err := queuefs.Init(dir, queuefs.ServiceInfo{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: got %v", err)
	}
	for name, c := range map[string]struct{ tag, queues, want string }{
		"later version": {"0=cutie_0.4", "", "0.4"},
		"other program": {"0=pairtree_0.1", "", "no tag"},
	} {
		dir := t.TempDir()
		if err := queuefs.Init(dir, queuefs.ServiceInfo{}); err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(dir, "0=cutie_0.3"))
		value := strings.Replace(strings.TrimPrefix(c.tag, "0="), "_", "/", 1)
		value = strings.ToUpper(value[:1]) + value[1:]
		for file, data := range map[string]string{c.tag: value + "\n", "queues.txt": c.queues} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := queuefs.Open(dir, queuefs.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v want %q", name, err, c.want)
			if err == nil {
				s.Close()
			}
		}
	}
}

func TestCreateQueue(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	info := queuefs.QueueInfo{Identifier: "ark:/12345/x y", Name: "Näme", Description: "two: lines%", CullingSize: 10, CullingAge: -1, VerifyOnRead: true}
	q, err := s.CreateQueue(ctx, info)
	if err != nil {
		t.Fatal(err)
	}
	got := q.Info()
	info.ID, info.Created = "ark+=12345=x^20y", got.Created
	if got != info {
		t.Errorf("got %+v want %+v", got, info)
	}
	for name, bad := range map[string]struct {
		info queuefs.QueueInfo
		want error
	}{
		"twice":        {queuefs.QueueInfo{Identifier: "jobs"}, queuefs.ErrQueueExists},
		"same cleaned": {queuefs.QueueInfo{Identifier: "ark+=12345=x^20y"}, queuefs.ErrQueueExists},
		"same name":    {queuefs.QueueInfo{Identifier: "other", Name: "Näme"}, queuefs.ErrQueueExists},
		"dots":         {queuefs.QueueInfo{Identifier: ".."}, queuefs.ErrBadName},
		"nothing":      {queuefs.QueueInfo{}, queuefs.ErrBadName},
		"threshold":    {queuefs.QueueInfo{Identifier: "x", CullingAge: -2}, queuefs.ErrBadName},
		"long":         {queuefs.QueueInfo{Identifier: "x", Description: strings.Repeat("d", 1<<20)}, queuefs.ErrTooBig},
	} {
		if _, err := s.CreateQueue(ctx, bad.info); !errors.Is(err, bad.want) {
			t.Errorf("%s: got %v want %v", name, err, bad.want)
		}
	}
	closeHome(t, s)
	s, _ = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if q, err = s.Queue("ark:/12345/x y"); err != nil || q.Info() != info || len(s.Queues()) != 2 {
		t.Errorf("opened: got %+v, %v", q.Info(), err)
	}
}

// TestCreateQueueOverUnlistedJobs makes a queue where a directory stands that
// nobody lists: what is in it stays.
func TestCreateQueueOverUnlistedJobs(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{Filename: "old"}, "old payload")
	closeHome(t, s)
	if err := os.Rename(filepath.Join(dir, "queues/jobs"), filepath.Join(dir, "queues/other")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "queues.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		t.Fatal(err)
	}
	if q, err = s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"}); err == nil {
		submit(t, q, queuefs.Meta{Filename: "new"}, "new payload")
	}
	closeHome(t, s)
	if got, err := os.ReadFile(filepath.Join(dir, "queues/other/payload/j000000000001")); string(got) != "old payload" {
		t.Errorf("got %q, %v", got, err)
	}
}
