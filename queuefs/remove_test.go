package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// cullQueue makes a queue keep no processed job, and culls.
func cullQueue(t testing.TB, s *queuefs.Service, name string) (culled []queuefs.JobID) {
	t.Helper()
	if _, err := s.SetQueue(ctx, name, set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 })); err != nil {
		t.Fatal(err)
	}
	for c, err := range s.Cull(ctx, queuefs.CullOptions{Queue: name}) {
		if err != nil {
			t.Fatal(err)
		}
		culled = append(culled, c.Job)
	}
	return culled
}

// Forget makes the test's follower take a queue of that name for a new one.
func (f *follower) Forget(queue string) error {
	delete(f.seen, queue)
	delete(f.synced, queue)
	return nil
}

// exists tells whether a file or directory of the home is there.
func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func TestOnlyAQueueWithoutJobsIsRemoved(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	refused := func(why string) {
		t.Helper()
		if err := s.RemoveQueue(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotEmpty) || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want that it says %q", err, why)
		}
		if now, err := s.Queue("jobs"); now != q || err != nil {
			t.Fatalf("got %v, %v", now, err)
		}
	}
	submit(t, q, queuefs.Meta{}, "x")
	refused("1 jobs")
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	refused("1 jobs")
	cullQueue(t, s, "jobs")
	if j := submit(t, q, queuefs.Meta{}, "y"); j.ID != 2 {
		t.Errorf("after a refusal: got %v", j.ID)
	} else if _, err := q.Delete(ctx, 2); err != nil {
		t.Fatal(err)
	}
	refused("1 jobs")
	cullQueue(t, s, "jobs")
	for _, name := range []string{"notes.txt", "corrupt/pending-j1", "payload/j000000000009"} {
		file := filepath.Join(dir, "queues/jobs", name)
		os.MkdirAll(filepath.Dir(file), 0o777)
		if err := os.WriteFile(file, []byte("mine"), 0o666); err != nil {
			t.Fatal(err)
		}
		refused(name)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveQueue(ctx, "jobs"); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("removed again: got %v", err)
	}
	for _, name := range []string{"queues/jobs", "log/index/queues/jobs/p000000000", "log/index/queues/jobs/culled", "cutie-tmp/removed-jobs"} {
		if exists(dir, name) {
			t.Errorf("%s is still there", name)
		}
	}
	if list, err := os.ReadFile(dir + "/queues.txt"); err != nil || len(list) != 0 || len(s.Queues()) != 0 {
		t.Errorf("got %q, %v, %v", list, err, s.Queues())
	}
	// Who holds the queue still is told.
	sub := q.Begin()
	d, err := sub.Add(queuefs.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	d.Write([]byte("late"))
	if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("late submission: got %v", err)
	}
	if _, err := q.Job(1); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("job: got %v", err)
	}
	if _, err := q.NextWait(ctx, "w", 1); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("next: got %v", err)
	}
}

func TestRemovalKeepsTheRestOfTheList(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	for _, name := range []string{"ark:/1/x", "last"} {
		if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name}); err != nil {
			t.Fatal(err)
		}
	}
	closeHome(t, s)
	if err := os.WriteFile(dir+"/queues.txt", []byte("# mine\r\n\r\njobs\n  ark:/1/x  \n# end\nlast"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, _ = openHome(t, dir, queuefs.Options{})
	if err := s.RemoveQueue(ctx, "ark:/1/x"); err != nil {
		t.Fatal(err)
	}
	closeHome(t, s)
	if got, _ := os.ReadFile(dir + "/queues.txt"); string(got) != "# mine\r\n\r\njobs\n# end\nlast" {
		t.Errorf("got %q", got)
	}
}

func TestWaitersLearnThatTheQueueIsRemoved(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	errs := make(chan error)
	go func() { _, err := q.NextWait(ctx, "w", 1); errs <- err }()
	go func() { errs <- q.Wait(ctx, 0) }()
	if err := s.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, queuefs.ErrNoQueue) || err.Error() != "jobs: queue not found" {
			t.Errorf("got %v", err)
		}
	}
}

// TestAQueueMadeAgainHasNothingOfTheFormer makes a queue of the name of one
// that was removed, and looks at it in every kind of next life.
func TestAQueueMadeAgainHasNothingOfTheFormer(t *testing.T) {
	for _, keep := range []bool{false, true} { // the journal is kept for a follower that is not here
		dir := fastDir(t)
		var problems []string
		o := queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }}
		s, q := openHome(t, dir, o)
		if !keep {
			newFollower(t).follow(s)
		}
		for range 5 {
			submit(t, q, queuefs.Meta{Sidecar: "old"}, "old")
		}
		if _, err := q.NextN(ctx, "w", 5); err != nil {
			t.Fatal(err)
		}
		if got := cullQueue(t, s, "jobs"); len(got) != 5 {
			t.Fatalf("culled %v", got)
		}
		if err := s.RemoveQueue(ctx, "jobs"); err != nil {
			t.Fatal(err)
		}
		gone := copyHome(t, dir)
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", Name: "again", CullingSize: -1, CullingAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		empty := copyHome(t, dir)
		submit(t, q, queuefs.Meta{Sidecar: "new"}, "new")
		if _, err := q.Next(ctx, "v"); err != nil {
			t.Fatal(err)
		}
		submit(t, q, queuefs.Meta{}, strings.Repeat("large", 40_000))
		full := copyHome(t, dir)
		if err := s.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		settled := copyHome(t, dir)
		want := observe(t, s)
		closeHome(t, s)
		const before = 16 // 5 submitted, 5 consumed, properties, 5 culled
		for name, at := range map[string]struct {
			dir    string
			w      world
			events int
		}{
			"removed": {gone, world{}, 0}, "made": {empty, world{"jobs": jobs{}}, 0},
			"crash": {full, want, 3}, "checkpoint": {settled, want, 3}, "closed": {dir, want, 3},
		} {
			s, err := queuefs.Open(at.dir, queuefs.Options{Segment: segmentSize, Report: o.Report})
			if err != nil {
				t.Fatal(err)
			}
			if d := at.w.difference(observe(t, s)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			for _, q := range s.Queues() {
				want := at.events
				if stones, err := q.Tombstones(q.Info().Created, 0); err != nil || len(stones) > 0 {
					t.Errorf("%s: tombstones %v, %v", name, stones, err)
				}
				events, err := q.Events(before, 0)
				if !keep && errors.Is(err, queuefs.ErrGone) && (name == "checkpoint" || name == "closed") {
					err, at.events = nil, 0 // the follower had them
				}
				if st := q.State(); len(events) != at.events || err != nil || st.Info.Name != "again" || st.Seq != before+queuefs.Seq(want) || st.Before != before {
					t.Errorf("%s: %d events, %v, %+v", name, len(events), err, st)
				}
				if _, err := q.Events(before-1, 0); want > 0 && !errors.Is(err, queuefs.ErrGone) {
					t.Errorf("%s: events of the former queue: %v", name, err)
				}
				for i, e := range events {
					if e.Seq != before+queuefs.Seq(i+1) || e.Time.Before(q.Info().Created) {
						t.Errorf("%s: event %d: got %+v", name, i, e)
					}
				}
				if j := submit(t, q, queuefs.Meta{}, "next"); int(j.ID) != 5+at.w["jobs"].len()+1 {
					t.Errorf("%s: next job is %v", name, j.ID)
				}
			}
			closeHome(t, s)
			r, err := check.Home(at.dir, check.Options{Segment: segmentSize})
			if err != nil || len(r.Problems)+len(r.Mended) > 0 {
				t.Errorf("%s: check: %v, problems %v, mended %v", name, err, r.Problems, r.Mended)
			}
		}
		if len(problems) > 0 {
			t.Errorf("reported %q", problems)
		}
	}
}

func (j jobs) len() int { return len(j.byID) }

// TestSubmissionsRaceWithRemoval has either the queue removed or the job
// accepted, and never a job that was accepted and is gone.
func TestSubmissionsRaceWithRemoval(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	for n := range 20 {
		name := fmt.Sprint("q", n)
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name})
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan bool)
		for range 4 {
			go func() {
				sub := q.Begin()
				d, err := sub.Add(queuefs.Meta{})
				if err == nil {
					d.Write([]byte("x"))
					_, err = sub.Commit(ctx)
				}
				if err != nil && !errors.Is(err, queuefs.ErrNoQueue) {
					t.Error(err)
				}
				accepted <- err == nil
			}()
		}
		removed := s.RemoveQueue(ctx, name)
		if removed != nil && !errors.Is(removed, queuefs.ErrNotEmpty) {
			t.Error(removed)
		}
		n := int64(0)
		for range 4 {
			if <-accepted {
				n++
			}
		}
		if got := q.State().Pending; removed == nil && n > 0 || removed != nil && (n == 0 || got != n) {
			t.Errorf("removal: %v; %d accepted, %d there", removed, n, got)
		}
	}
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	for _, d := range []string{crashed, dir} {
		s, err := queuefs.Open(d, queuefs.Options{Segment: segmentSize})
		if err != nil {
			t.Fatal(err)
		}
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		closeHome(t, s)
	}
}

// TestAJournalTakenAwayTakesNoJobOfALaterQueue makes a queue when the journal
// is under way, and lets the journal begin anew.
func TestAJournalTakenAwayTakesNoJobOfALaterQueue(t *testing.T) {
	for _, also := range []string{"", "log/index/checkpoint"} {
		dir := fastDir(t)
		s, q := openHome(t, dir, queuefs.Options{})
		for range 50 {
			submit(t, q, queuefs.Meta{}, strings.Repeat("x", 60_000))
		}
		if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "late"}); err != nil {
			t.Fatal(err)
		}
		closeHome(t, s)
		if err := os.RemoveAll(dir + "/log/journal"); err != nil {
			t.Fatal(err)
		}
		if also != "" {
			if err := os.Remove(filepath.Join(dir, also)); err != nil {
				t.Fatal(err)
			}
		}
		s, _ = openHome(t, dir, queuefs.Options{})
		late, err := s.Queue("late")
		if err != nil {
			t.Fatal(err)
		}
		submit(t, late, queuefs.Meta{}, "kept")
		want := observe(t, s)
		crashed := copyHome(t, dir)
		closeHome(t, s)
		for _, dir := range []string{crashed, dir} {
			s, _ := openHome(t, dir, queuefs.Options{})
			if d := want.difference(observe(t, s)); d != "" {
				t.Errorf("without %q: %s", also, d)
			}
			closeHome(t, s)
		}
	}
}

// What is left of a queue that was removed, and cannot be removed now, keeps no
// home closed.
func TestLeftoversThatStayKeepNoHomeClosed(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	must(t, os.MkdirAll(dir+"/cutie-tmp/removed-old/pending", 0o777))
	var problems []string
	s, _ = openHome(t, dir, queuefs.Options{
		Report: func(p queuefs.Problem) { problems = append(problems, p.String()) },
		Fault: func(step string, do func() error) error {
			if step == "rmdir cutie-tmp" {
				return syscall.EBUSY
			}
			return do()
		}})
	closeHome(t, s)
	if len(problems) != 1 || !strings.Contains(problems[0], "cutie-tmp/removed-old") {
		t.Errorf("reported %q", problems)
	}
	openBareAgain(t, dir)
	if exists(dir, "cutie-tmp/removed-old") {
		t.Error("it stays")
	}
}
