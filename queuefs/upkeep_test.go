package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
)

// TestCheckpointWritesWhatChanged counts the pages that checkpoints write.
func TestCheckpointWritesWhatChanged(t *testing.T) {
	var steps []string
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 4 << 20, Fault: func(step string, do func() error) error {
		if strings.HasPrefix(step, "stage ") {
			steps = append(steps, step)
		}
		return do()
	}})
	defer closeHome(t, s)
	fillQueue(t, q, 3*queuefs.PageJobs, 1)
	checkpoint := func(want ...string) {
		t.Helper()
		steps = nil
		if err := s.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(steps, want) {
			t.Errorf("got %q want %q", steps, want)
		}
	}
	checkpoint("stage p000000000", "stage p000000001", "stage p000000002", "stage p000000003", "stage queue", "stage checkpoint")
	checkpoint("stage checkpoint")
	if _, err := q.Delete(ctx, queuefs.PageJobs+5); err != nil {
		t.Fatal(err)
	}
	checkpoint("stage p000000001", "stage queue", "stage checkpoint")
	submit(t, q, queuefs.Meta{}, "x")
	checkpoint("stage p000000003", "stage queue", "stage checkpoint")
}

// TestFailedCheckpointIsMadeGood fails a checkpoint at each of its steps: the
// next one does what was left.
func TestFailedCheckpointIsMadeGood(t *testing.T) {
	for at := 1; ; at++ {
		dir := fastDir(t)
		f := newFaults(0, errInjected)
		o := queuefs.Options{Segment: segmentSize, Fault: f.step}
		s, q := openHome(t, dir, o)
		for n := range 3 {
			submit(t, q, queuefs.Meta{Filename: fmt.Sprint(n)}, strings.Repeat("x", 100_000*n))
		}
		q.Next(ctx, "w")
		f.n, f.at = 0, at
		err := s.Checkpoint(ctx)
		f.at = 0
		if !f.fired() {
			closeHome(t, s)
			break
		}
		if err == nil && !strings.HasPrefix(f.name, "put ") {
			t.Errorf("%s: the checkpoint does not say that it failed", f.name)
		}
		if f.name == "syncfs" {
			// What was written before is in doubt: only the journal tells.
			if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrFailed) {
				t.Errorf("after a failed sync: got %v", err)
			}
			s.Close() // says so again
			v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
			s, q = openHome(t, dir, v.o)
		}
		if s.Err() != nil {
			// What a sync did not put on storage no second one does.
			if f.name != "syncfs" || !errors.Is(err, queuefs.ErrFailed) {
				t.Errorf("%s: the service failed: %v", f.name, err)
			}
			s.Close()
			s, q = openHome(t, dir, o)
		}
		submit(t, q, queuefs.Meta{}, "more")
		if err := s.Checkpoint(ctx); err != nil {
			t.Errorf("%s: the checkpoint after it: %v", f.name, err)
		}
		w := observe(t, s)
		crashed := copyHome(t, dir)
		closeHome(t, s)
		v := verifier{TB: t, dir: crashed, o: queuefs.Options{Segment: segmentSize}}
		s, _ = openHome(t, crashed, v.o)
		if d := w.difference(observe(t, s)); d != "" {
			t.Errorf("%s: %s", f.name, d)
		}
		closeHome(t, s)
		v.checkFiles(w)
	}
}

// TestMaintainWritesFiles keeps the calm pace: files are there after one call,
// the index half a minute later.
func TestMaintainWritesFiles(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{}, "x")
	now = now.Add(time.Second)
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); !strings.Contains(got, "jobs/pending/j000000000001") || !strings.Contains(got, "jobs/payload/j000000000001") {
		t.Errorf("got %s", got)
	}
	// Thirty seconds later the index has it too.
	steps := len(leftovers(t, dir))
	now = now.Add(31 * time.Second)
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	crashed := copyHome(t, dir)
	report := func(p queuefs.Problem) { t.Errorf("reported %v", p) }
	again, r := openHome(t, crashed, queuefs.Options{Report: report})
	if st := r.State(); st.Pending != 1 || st.Seq != 1 || steps != 0 {
		t.Errorf("got %+v", st)
	}
	closeHome(t, again)
}

// TestFilesKeepUpWithABurst submits without any upkeep: the journal stays
// within what the files may be behind.
func TestFilesKeepUpWithABurst(t *testing.T) {
	const behind = 300 << 10
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Behind: behind})
	defer closeHome(t, s)
	newFollower(t).follow(s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 60 {
				submit(t, q, queuefs.Meta{}, strings.Repeat("x", 6000))
			}
		})
	}
	wg.Wait()
	var journal int64
	names, err := filepath.Glob(dir + "/log/journal/*.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if st, err := os.Stat(name); err == nil {
			journal += st.Size()
		}
	}
	if journal > 4*behind {
		t.Errorf("the journal has %d octets", journal)
	}
	if n := strings.Count(tree(t, dir), "/pending/"); n < 480-4*behind/6000 {
		t.Errorf("%d of 480 jobs have files", n)
	}
}

// TestFilesWaitInABurst has files written from the bound of the lag on.
func TestFilesWaitInABurst(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Behind: 1_500_000, Now: func() time.Time { return now }})
	defer closeHome(t, s)
	for i, tt := range []struct {
		jobs  int
		after time.Duration
		files int
	}{
		{20, 200 * time.Millisecond, 0},
		{20, 200 * time.Millisecond, 0},
		{20, 200 * time.Millisecond, 60}, // too much journal
		{20, 200 * time.Millisecond, 60},
		{0, 200 * time.Millisecond, 80}, // calm
		{20, 200 * time.Millisecond, 80},
		{20, time.Hour, 120},
	} {
		for range tt.jobs {
			submit(t, q, queuefs.Meta{}, strings.Repeat("x", 30_000))
		}
		now = now.Add(tt.after)
		must(t, s.Maintain(ctx))
		if got := strings.Count(tree(t, dir), "/pending/j"); got != tt.files {
			t.Fatalf("step %d: %d jobs have files, want %d", i, got, tt.files)
		}
	}
}

// TestOneFileKeepsNoOtherFromBeingMade has a directory stand where a job file
// is to be.
func TestOneFileKeepsNoOtherFromBeingMade(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	defer closeHome(t, s)
	strange := filepath.Join(dir, "queues/jobs/pending/j000000000001")
	must(t, os.Mkdir(strange, 0o777))
	for range 20 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	for range 2 {
		now = now.Add(time.Second) // calm
		if err := s.Maintain(ctx); err == nil {
			t.Error("nobody is told of the file that cannot be made")
		}
	}
	if n := strings.Count(tree(t, dir), "/pending/j"); n != 19 {
		t.Errorf("%d of the 19 other jobs have files", n)
	}
	must(t, os.Remove(strange))
}

// TestLargeJobsAreFiledInOneCall has more in the journal than is written in
// one go.
func TestLargeJobsAreFiledInOneCall(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	defer closeHome(t, s)
	for range 120 {
		submit(t, q, queuefs.Meta{}, strings.Repeat("x", 100<<10))
	}
	now = now.Add(29 * time.Second) // calm
	must(t, s.Maintain(ctx))
	if n := strings.Count(tree(t, dir), "/pending/j"); n != 120 {
		t.Errorf("%d of 120 jobs have files", n)
	}
}

// TestCloseWaitsForUpkeep closes a home that has failed while its upkeep is in
// the middle of a file.
func TestCloseWaitsForUpkeep(t *testing.T) {
	var once sync.Once
	var s *queuefs.Service
	failing := false
	closed := make(chan error, 1)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Fault: func(step string, do func() error) error {
		if failing && step == "journal sync" {
			return syscall.EIO
		}
		if step == "put pending" {
			once.Do(func() {
				failing = true
				sub := q0(s).Begin()
				sub.Add(queuefs.Meta{})
				if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrFailed) {
					t.Errorf("submit: got %v", err)
				}
				go func() { closed <- s.Close() }()
				select {
				case <-closed:
					t.Error("the home was closed under its upkeep")
				case <-time.After(50 * time.Millisecond):
				}
			})
		}
		return do()
	}})
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	if err := s.Maintain(ctx); err != nil && !errors.Is(err, queuefs.ErrFailed) && !errors.Is(err, queuefs.ErrClosed) {
		t.Errorf("maintain: %v", err)
	}
	if !failing || t.Failed() {
		t.Fatal("upkeep wrote no file, or lost the home under it")
	}
	if err := <-closed; err == nil {
		t.Error("close says that the files are exact")
	}
	s, q = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if st := q.State(); st.Pending < 3 {
		t.Errorf("got %+v", st)
	}
}

func q0(s *queuefs.Service) *queuefs.Queue { return s.Queues()[0] }
