package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

// TestAStopMayLeaveFilesToTheNextStart ends both lives of the scenario after any time,
// by a clock that goes on whenever it is read.
func TestAStopMayLeaveFilesToTheNextStart(t *testing.T) {
	for ticks := range 40 {
		t.Run(fmt.Sprint(ticks), func(t *testing.T) {
			c := newScenario(t, newFaults(0, nil))
			c.hasty, c.haste = true, time.Duration(ticks)*time.Second
			c.run()
			v := verifier{TB: t, dir: c.dir, o: c.o, f: c.f}
			v.verify(c.outcomes()...)
		})
	}
}

// TestEveryStepOfAStopInHasteFails is TestEveryStepFails where each stop leaves all files.
func TestEveryStepOfAStopInHasteFails(t *testing.T) {
	failEveryStep(t, 3*stride(), func(c *scenario) {
		c.hasty = true
		c.run()
	})
}

// hasty is a home stopped in haste: jobs 1 to 3 have files, of which 1 is consumed, jobs
// 4 to 6 have none, of which 4 is consumed.
func hasty(t *testing.T) (dir string, w world) {
	t.Helper()
	dir = filepath.Join(fastDir(t), "home")
	s, q := openHome(t, dir, queuefs.Options{})
	for range 3 {
		submit(t, q, queuefs.Meta{}, "early")
	}
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		submit(t, q, queuefs.Meta{}, "late")
	}
	for _, id := range []queuefs.JobID{2, 3} {
		if _, err := q.Hold(ctx, id, "not yet"); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.ID != 4 {
		t.Fatalf("%v, %v", j.ID, err)
	}
	w = observe(t, s)
	s.StopWithin(0)
	closeHome(t, s)
	if got := s.Behind(); got != 5 {
		t.Fatalf("%d jobs are behind, want 2 to 6", got)
	}
	if got := tree(t, dir); strings.Contains(got, "j000000000004") {
		t.Fatalf("files: got\n%s", got)
	}
	return dir, w
}

// After a stop in haste the directories rule for jobs whose files were up to the journal,
// and the journal for all others.
func TestMovesByHandAfterAStopInHaste(t *testing.T) {
	dir, w := hasty(t)
	path := func(name ...string) string { return filepath.Join(append([]string{dir, "queues", "jobs"}, name...)...) }
	for _, move := range [][2]string{{"consumed/j000000000001", "pending/j000000000001"}, {"pending/j000000000002", "deleted/j000000000002"}} {
		if err := os.Rename(path(move[0]), path(move[1])); err != nil {
			t.Fatal(err)
		}
	}
	w = w.set("jobs", 1, func(f *fact) { f.status, f.consumer, f.work = queuefs.Pending, "", "" })
	var problems []string
	s, q := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	if j, err := q.Job(1); err != nil || j.Status != queuefs.Pending || j.Requeues != 1 {
		t.Errorf("a job moved by hand: %+v, %v", j, err)
	}
	w["jobs"].byID[1] = observe(t, s)["jobs"].byID[1]
	if len(problems) != 1 || !strings.Contains(problems[0], "moved here from consumed by other hands") {
		t.Errorf("reported %q", problems)
	}
	for range 3 {
		if d := w.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		closeHome(t, s)
		if got, want := tree(t, dir), w.files(); got != want {
			t.Errorf("files: got\n%s\nwant\n%s", got, want)
		}
		s, _ = openHome(t, dir, queuefs.Options{})
	}
	closeHome(t, s)
}

// A stop in haste needs its journal, as a crash does.
func TestAStopInHasteWithoutItsJournal(t *testing.T) {
	dir, _ := hasty(t)
	if err := os.RemoveAll(filepath.Join(dir, "log", "journal")); err != nil {
		t.Fatal(err)
	}
	if s, err := queuefs.Open(dir, queuefs.Options{}); !errors.Is(err, queuefs.ErrJournalLost) {
		t.Errorf("got %v, want %v", err, queuefs.ErrJournalLost)
		if err == nil {
			s.Close()
		}
	}
}

// A start after a stop in haste hands out jobs before it writes files, and another stop
// in haste, or a crash, leaves as much.
func TestStopsInHasteInARow(t *testing.T) {
	dir, w := hasty(t)
	for range 3 {
		crashed := copyHome(t, dir)
		s, _ := openHome(t, crashed, queuefs.Options{})
		if d := w.difference(observe(t, s)); d != "" {
			t.Errorf("after a crash: %s", d)
		}
		closeHome(t, s)
		s, q := openHome(t, dir, queuefs.Options{})
		if d := w.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		j := submit(t, q, queuefs.Meta{}, "later")
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
		w = observe(t, s)
		s.StopWithin(0)
		closeHome(t, s)
		if got := tree(t, dir); strings.Contains(got, "payload/"+j.ID.String()) != (s.Behind() == 0) {
			t.Errorf("%d jobs behind, files:\n%s", s.Behind(), got)
		}
	}
}
