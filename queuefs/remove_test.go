package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
)

// cullQueue makes a queue keep no processed job, and culls.
func cullQueue(t testing.TB, s *queuefs.Service, name string) (culled []job.ID) {
	t.Helper()
	must(t, errOf(s.SetQueue(ctx, name, set(func(i *home.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 }))))
	for c, err := range s.Cull(ctx, queuefs.CullOptions{Queue: name}) {
		must(t, err)
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
		if err := s.RemoveQueue(ctx, "jobs"); !errors.Is(err, ledger.ErrNotEmpty) || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want that it says %q", err, why)
		}
		if now, err := s.Queue("jobs"); now != q || err != nil {
			t.Fatalf("got %v, %v", now, err)
		}
	}
	submit(t, q, job.Meta{}, "x")
	refused("1 jobs")
	must(t, errOf(q.Next(ctx, "w")))
	refused("1 jobs")
	cullQueue(t, s, "jobs")
	if j := submit(t, q, job.Meta{}, "y"); j.ID != 2 {
		t.Errorf("after a refusal: got %v", j.ID)
	} else if _, err := q.Delete(ctx, 2); err != nil {
		t.Fatal(err)
	}
	refused("1 jobs")
	cullQueue(t, s, "jobs")
	for _, name := range []string{"notes.txt", "corrupt/pending-j1", "payload/j000000000009"} {
		file := filepath.Join(dir, "queues/jobs", name)
		os.MkdirAll(filepath.Dir(file), 0o777)
		must(t, os.WriteFile(file, []byte("mine"), 0o666))
		refused(name)
		must(t, os.Remove(file))
	}
	must(t, s.RemoveQueue(ctx, "jobs"))
	wantErr(t, s.RemoveQueue(ctx, "jobs"), ledger.ErrNoQueue, "removed again")
	for _, name := range []string{"queues/jobs", "log/packs/jobs", "cutie-tmp/removed-jobs"} {
		if exists(dir, name) {
			t.Errorf("%s is still there", name)
		}
	}
	if list, err := os.ReadFile(dir + "/queues.txt"); err != nil || len(list) != 0 || len(s.Queues()) != 0 {
		t.Errorf("got %q, %v, %v", list, err, s.Queues())
	}
	// Who holds the queue still is told.
	wantErr(t, errOf(trySubmit(q, "late")), ledger.ErrNoQueue, "late submission")
	wantErr(t, errOf(q.Job(1)), ledger.ErrNoJob, "job")
	wantErr(t, errOf(q.NextWait(ctx, "w", 1)), ledger.ErrNoQueue, "next")
}

func TestRemovalKeepsTheRestOfTheList(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	for _, name := range []string{"ark:/1/x", "last"} {
		must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: name})))
	}
	closeHome(t, s)
	must(t, os.WriteFile(dir+"/queues.txt", []byte("# mine\r\n\r\njobs\n  ark:/1/x  \n# end\nlast"), 0o666))
	s, _ = openHome(t, dir, queuefs.Options{})
	must(t, s.RemoveQueue(ctx, "ark:/1/x"))
	closeHome(t, s)
	if got, _ := os.ReadFile(dir + "/queues.txt"); string(got) != "# mine\r\n\r\njobs\n# end\nlast" {
		t.Errorf("got %q", got)
	}
}

func TestWaitersLearnThatTheQueueIsRemoved(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	errs := make(chan error)
	go func() { _, err := q.NextWait(ctx, "w", 1); errs <- err }()
	go func() { errs <- q.Wait(ctx, 0) }()
	must(t, s.RemoveQueue(ctx, "jobs"))
	for range 2 {
		if err := <-errs; !errors.Is(err, ledger.ErrNoQueue) || err.Error() != "jobs: queue not found" {
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
		o := queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }}
		s, q := openHome(t, dir, o)
		if !keep {
			newFollower(t).follow(s)
		}
		submitN(t, q, 5, job.Meta{Sidecar: "old"}, "old")
		must(t, errOf(q.NextN(ctx, "w", 5)))
		if got := cullQueue(t, s, "jobs"); len(got) != 5 {
			t.Fatalf("culled %v", got)
		}
		must(t, s.RemoveQueue(ctx, "jobs"))
		gone := copyHome(t, dir)
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", Name: "again", CullingSize: -1, CullingAge: -1})
		must(t, err)
		empty := copyHome(t, dir)
		submit(t, q, job.Meta{Sidecar: "new"}, "new")
		must(t, errOf(q.Next(ctx, "v")))
		submit(t, q, job.Meta{}, strings.Repeat("large", 40_000))
		full := copyHome(t, dir)
		must(t, s.Checkpoint(ctx))
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
			s := sure(queuefs.Open(at.dir, queuefs.Options{Segment: segmentSize, Report: o.Report}))(t)
			at.w.expect(t, s, "%s", name)
			for _, q := range s.Queues() {
				want := at.events
				if stones, err := q.Tombstones(q.Info().Created, 0); err != nil || len(stones) > 0 {
					t.Errorf("%s: tombstones %v, %v", name, stones, err)
				}
				events, err := q.Events(before, 0)
				if !keep && errors.Is(err, ledger.ErrGone) && (name == "checkpoint" || name == "closed") {
					err, at.events = nil, 0 // the follower had them
				}
				if st := q.State(); len(events) != at.events || err != nil || st.Info.Name != "again" || st.Seq != before+job.Seq(want) || st.Before != before {
					t.Errorf("%s: %d events, %v, %+v", name, len(events), err, st)
				}
				if _, err := q.Events(before-1, 0); want > 0 && !errors.Is(err, ledger.ErrGone) {
					t.Errorf("%s: events of the former queue: %v", name, err)
				}
				for i, e := range events {
					if e.Seq != before+job.Seq(i+1) || e.Time.Before(q.Info().Created) {
						t.Errorf("%s: event %d: got %+v", name, i, e)
					}
				}
				if j := submit(t, q, job.Meta{}, "next"); int(j.ID) != 5+at.w["jobs"].len()+1 {
					t.Errorf("%s: next job is %v", name, j.ID)
				}
			}
			closeHome(t, s)
			checkHome(t, at.dir, check.Options{Segment: segmentSize})
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
		q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: name}))(t)
		accepted := make(chan bool)
		for range 4 {
			go func() {
				_, err := trySubmit(q, "x")
				if err != nil && !errors.Is(err, ledger.ErrNoQueue) {
					t.Error(err)
				}
				accepted <- err == nil
			}()
		}
		removed := s.RemoveQueue(ctx, name)
		if removed != nil && !errors.Is(removed, ledger.ErrNotEmpty) {
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
	outlives(t, s, dir)
}

// TestAJournalTakenAwayTakesNoJobOfALaterQueue makes a queue when the journal
// is under way, and lets the journal begin anew.
func TestAJournalTakenAwayTakesNoJobOfALaterQueue(t *testing.T) {
	for _, also := range []bool{false, true} {
		dir := fastDir(t)
		s, q := openHome(t, dir, queuefs.Options{})
		submitN(t, q, 50, job.Meta{}, strings.Repeat("x", 60_000))
		must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "late"})))
		closeHome(t, s)
		must(t, os.RemoveAll(dir+"/log/journal"))
		if also {
			loseRow(t, dir, table.Meta, table.CheckpointKey)
		}
		s, _ = openHome(t, dir, queuefs.Options{})
		late := sure(s.Queue("late"))(t)
		submit(t, late, job.Meta{}, "kept")
		outlives(t, s, dir)
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
		Report: func(p durable.Finding) { problems = append(problems, p.String()) },
		Fault:  failIf(syscall.EBUSY, func(step string) bool { return step == "rmdir cutie-tmp" })})
	closeHome(t, s)
	if len(problems) != 1 || !strings.Contains(problems[0], "cutie-tmp/removed-old") {
		t.Errorf("reported %q", problems)
	}
	openBareAgain(t, dir)
	if exists(dir, "cutie-tmp/removed-old") {
		t.Error("it stays")
	}
}

// Who removes a queue on a condition is asked while it is served, and again when
// nothing can change it any more.
func TestAQueueIsRemovedIfItIsAsItWasToBe(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	other := errors.New("it is another")
	asked := 0
	may := func(answers ...error) func(*queuefs.Queue) error {
		asked = 0
		return func(now *queuefs.Queue) error {
			if asked++; now != q {
				t.Errorf("asked for %v", now)
			}
			if asked == 2 {
				wantErr(t, errOf(trySubmit(q, "")), ledger.ErrNoQueue, "a job came when the queue was asked for at last")
			}
			return answers[asked-1]
		}
	}
	for n, answers := range [][]error{{other}, {nil, other}} {
		if err := s.RemoveQueueIf(ctx, "jobs", may(answers...)); !errors.Is(err, other) || asked != n+1 {
			t.Errorf("got %v, asked %d times", err, asked)
		}
	}
	j := submit(t, q, job.Meta{}, "it goes on")
	if err := s.RemoveQueueIf(ctx, "jobs", may()); !errors.Is(err, ledger.ErrNotEmpty) || asked != 0 {
		t.Errorf("got %v, asked %d times", err, asked)
	}
	must(t, errOf(q.Delete(ctx, j.ID)))
	cullQueue(t, s, "jobs")
	if err := s.RemoveQueueIf(ctx, "jobs", may(nil, nil)); err != nil || asked != 2 || len(s.Queues()) > 0 {
		t.Errorf("got %v, asked %d times", err, asked)
	}
}

// A removal that fails, as files that are not the program's or a full disk make
// it, is not seen by anybody who uses the queue meanwhile.
func TestARemovalThatFailsIsNotSeen(t *testing.T) {
	over, end := context.WithCancel(ctx)
	end()
	for name, want := range map[string]error{"strange file": ledger.ErrNotEmpty, "full disk": ledger.ErrNoSpace} {
		t.Run(name, func(t *testing.T) {
			var (
				disk crowded
				q    *queuefs.Queue
				seen int
			)
			dir := fastDir(t)
			s, made := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
				if q != nil {
					seen++
					wantErr(t, q.Wait(over, q.Seq()), context.Canceled, "at %s", step)
				}
				return disk.step(step, do)
			}})
			defer closeHome(t, s)
			if name == "full disk" {
				disk.full = true
			} else {
				write(t, dir+"/queues/jobs/notes", "mine")
			}
			q = made
			err := s.RemoveQueue(ctx, "jobs")
			q, disk.full = nil, false
			if !errors.Is(err, want) || seen == 0 {
				t.Errorf("got %v at %d steps, want %v", err, seen, want)
			}
			submit(t, made, job.Meta{}, "it goes on")
		})
	}
}

// A job that comes while a removal is decided is no file for the operator to
// move away.
func TestAJobThatComesKeepsTheQueue(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	came := false
	err := s.RemoveQueueIf(ctx, "jobs", func(*queuefs.Queue) error {
		if !came {
			came = true
			submit(t, q, job.Meta{}, "x")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "1 jobs") {
		t.Errorf("got %v", err)
	}
}

// A reference to a job never comes to mean another one, also when its queue is
// removed and made again, or taken out of the list and put back by other hands.
func TestJobNumbersOutliveTheirQueue(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	o := queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }}
	s, q := openHome(t, dir, o)
	next := job.ID(1)
	use := func(q *queuefs.Queue, n int) {
		t.Helper()
		for range n {
			submitAs(t, q, next, job.Meta{}, "x")
			must(t, errOf(q.Next(ctx, "w")))
			next++
		}
		cullQueue(t, s, "jobs")
	}
	create := func() *queuefs.Queue {
		t.Helper()
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
		must(t, err)
		return q
	}
	use(q, 3)
	for range 3 {
		must(t, s.RemoveQueue(ctx, "jobs"))
		crashed := copyHome(t, dir)
		closeHome(t, s)
		dir = crashed
		s = openBare(t, dir, o)
		use(create(), 2)
	}
	// A life without jobs forgets nothing.
	for range 2 {
		must(t, s.RemoveQueue(ctx, "jobs"))
		q = create()
	}
	use(q, 1)
	write(t, dir+"/queues.txt", "")
	reload(t, s)
	write(t, dir+"/queues.txt", "jobs\n")
	reload(t, s)
	q, err := s.Queue("jobs")
	must(t, err)
	use(q, 1)
	other, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "other"})
	must(t, err)
	submitAs(t, other, 1, job.Meta{}, "x")
	if len(problems) > 0 {
		t.Errorf("reported %q", problems)
	}
	must(t, s.RemoveQueue(ctx, "jobs"))
	closeHome(t, s)
}

// The last numbers of a removed queue are damaged: that is reported, and no
// number that can be read anywhere is given out again.
func TestDamagedNumbersOfARemovedQueueAreReported(t *testing.T) {
	for _, c := range []struct {
		name, text string
		all        bool // the whole table, and not the row
		moved      bool // the row has another key
	}{
		{name: "nothing to read", text: "\x00\x00\x00\x00\x00"},
		{name: "no row", text: "job: 999999999999\n"},
		{name: "empty"},
		{name: "another key", moved: true},
		{name: "no table", text: "?", all: true},
	} {
		{
			dir := fastDir(t)
			var problems []string
			o := queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }}
			s, _ := openHome(t, dir, o)
			there := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "there"}))(t)
			submitN(t, there, 7, job.Meta{}, "x")
			must(t, s.RemoveQueue(ctx, "jobs"))
			closeHome(t, s)
			switch {
			case c.all:
				write(t, filepath.Join(dir, tableFile), c.text)
			case c.moved:
				moveRow(t, dir, table.Queues, "jobs", "jobr")
			default:
				changeRow(t, dir, table.Queues, "jobs", func([]byte) []byte { return []byte(c.text) })
			}
			s = openBare(t, dir, o)
			for _, name := range []string{"jobs", "stranger"} {
				const want = 8 // above those of the queue that is there; the key of the row may be damaged, too
				q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: name}))(t)
				if j := submit(t, q, job.Meta{}, "x"); j.ID < want || j.ID > want+1 {
					t.Errorf("%s: queue %s begins with %v, want %v or the next", c.name, name, j.ID, job.ID(want))
				}
			}
			if len(problems) == 0 || !strings.Contains(problems[0], tableFile) {
				t.Errorf("%s: reported %q", c.name, problems)
			}
			closeHome(t, s)
			openBareAgain(t, dir)
		}
	}
}

// openBareAgain tests that a home opens with nothing to report.
func openBareAgain(t testing.TB, dir string) {
	t.Helper()
	closeHome(t, openBare(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Errorf("reported %v", p) }}))
}

// Other hands take a queue away, its directory and its line, while nobody has
// the home open: one made again under the name goes on with the numbers all the
// same, whatever is left of the index.
func TestNumbersOutliveAQueueTakenAwayByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash bool // the last numbers are in the journal only
		harm  string
		above job.ID // the lowest number that the next job may have
		exact bool
		seq   job.Seq
	}{
		{name: "stopped", above: 7, exact: true, seq: 13},
		{name: "crashed", crash: true, above: 7, exact: true, seq: 13},
		{name: "stopped, queue file damaged", harm: "queue", above: 7, seq: 13},
		{name: "opened meanwhile", harm: "open", above: 7, exact: true, seq: 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{})
			for range 6 {
				submit(t, q, job.Meta{}, "x")
				must(t, errOf(q.Next(ctx, "w")))
				if q.Seq() == 6 {
					must(t, s.Checkpoint(ctx))
				}
			}
			crashed := copyHome(t, dir)
			closeHome(t, s)
			if c.crash {
				dir = crashed
			}
			must(t, os.RemoveAll(dir+"/queues/jobs"))
			write(t, dir+"/queues.txt", "")
			switch c.harm {
			case "queue":
				write(t, filepath.Join(dir, tableFile), "?")
			case "open":
				openBareAgain(t, dir)
			}
			s = openBare(t, dir, queuefs.Options{})
			defer closeHome(t, s)
			q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"})
			must(t, err)
			j := submit(t, q, job.Meta{}, "x")
			if j.ID < c.above || c.exact && j.ID != c.above || j.Seq != c.seq {
				t.Errorf("got %v at event %d, want %v at %d", j.ID, j.Seq, c.above, c.seq)
			}
		})
	}
}

// openBare opens a home as it is.
func openBare(t testing.TB, dir string, o queuefs.Options) *queuefs.Service {
	t.Helper()
	o.Segment = segmentSize
	s := sure(queuefs.Open(dir, o))(t)
	return s
}

// A queue whose directory is missing, or empty as the place of a volume that is not mounted,
// is not made anew in its place, and is served again with the directory back.
func TestALostQueueIsNeverMadeAnew(t *testing.T) {
	for _, how := range []string{"stop", "crash"} {
		for _, empty := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s empty %v", how, empty), func(t *testing.T) {
				dir := filepath.Join(fastDir(t), "home")
				s, q := openHome(t, dir, queuefs.Options{})
				other, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
				must(t, err)
				submit(t, q, job.Meta{}, "before the checkpoint")
				must(t, s.Checkpoint(ctx))
				submit(t, q, job.Meta{}, "after the checkpoint")
				submit(t, other, job.Meta{}, "of another queue")
				dir = leave(t, how, dir, s, nil)
				aside := filepath.Join(dir, "aside")
				must(t, os.Rename(filepath.Join(dir, "queues/jobs"), aside))
				if empty {
					must(t, os.Mkdir(filepath.Join(dir, "queues/jobs"), 0o777))
				}
				for range 3 { // the journal is released meanwhile, as far as it may be
					var reports []string
					s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p durable.Finding) { reports = append(reports, p.String()) }})
					must(t, err)
					for range 3 {
						reload(t, s)
					}
					if _, err := s.Ask("jobs"); !isLost(err) || !strings.Contains(err.Error(), "cutie rmqueue --lost jobs") {
						t.Errorf("a request is refused with %v", err)
					}
					if _, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"}); !isLost(err) {
						t.Errorf("made anew: %v", err)
					}
					if lost := s.Lost(); len(lost) != 1 || lost[0].Queue != "jobs" || lost[0].Back {
						t.Errorf("lost queues: %v", lost)
					}
					if got := strings.Join(reports, "\n"); !strings.HasPrefix(got, "queues/jobs: directory lost") || strings.Contains(got, "\n") {
						t.Errorf("reports: %s", got)
					}
					if exists(dir, "queues/jobs/pending") || exists(dir, "queues/jobs") != empty {
						t.Error("a directory was made")
					}
					q := sure(s.Queue("other"))(t)
					submit(t, q, job.Meta{}, "meanwhile")
					must(t, s.Checkpoint(ctx))
					closeHome(t, s)
				}
				if empty {
					must(t, os.Remove(filepath.Join(dir, "queues/jobs")))
				}
				s = sure(queuefs.Open(dir, queuefs.Options{Segment: segmentSize}))(t)
				must(t, os.Rename(aside, filepath.Join(dir, "queues/jobs")))
				reload(t, s)
				if lost := s.Lost(); len(lost) != 1 || !lost[0].Back {
					t.Errorf("lost queues with the directory back: %v", lost)
				}
				wantErr(t, s.RemoveLost(ctx, "jobs"), queuefs.ErrNotLost, "removed with the directory back")
				closeHome(t, s)
				s, q = openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Errorf("with the directory back: %s", p) }})
				if len(s.Lost()) > 0 || payload(t, q, 1) != "before the checkpoint" || payload(t, q, 2) != "after the checkpoint" {
					t.Errorf("lost %v, jobs %q and %q", s.Lost(), payload(t, q, 1), payload(t, q, 2))
				}
				if j := submit(t, q, job.Meta{}, "new"); j.ID != 3 || q.Seq() != 3 {
					t.Errorf("the next job is %v, event %d", j.ID, q.Seq())
				}
			})
		}
	}
}

// isLost reports whether an error is a [*content.LostError].
func isLost(err error) bool {
	_, ok := errors.AsType[*content.LostError](err)
	return ok
}

func TestALostQueueIsRemovedForGood(t *testing.T) {
	for _, way := range []string{"removed", "line taken out"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			s, q := openHome(t, dir, queuefs.Options{})
			submit(t, q, job.Meta{}, "x")
			wantErr(t, s.RemoveLost(ctx, "jobs"), queuefs.ErrNotLost, "a served queue")
			wantErr(t, s.RemoveLost(ctx, "none"), ledger.ErrNoQueue, "no queue")
			closeHome(t, s)
			must(t, os.RemoveAll(filepath.Join(dir, "queues/jobs")))
			s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
			must(t, err)
			defer closeHome(t, s)
			if way == "removed" {
				must(t, s.RemoveLost(ctx, "jobs"))
			} else {
				reload(t, s)
				write(t, filepath.Join(dir, "queues.txt"), "# none\n")
				reload(t, s)
				reload(t, s)
			}
			if _, err := s.Queue("jobs"); !errors.Is(err, ledger.ErrNoQueue) || len(s.Lost()) > 0 {
				t.Errorf("after it: %v, lost %v", err, s.Lost())
			}
			if list, err := os.ReadFile(filepath.Join(dir, "queues.txt")); err != nil || strings.Contains(string(list), "jobs") {
				t.Errorf("queues.txt is %q, %v", list, err)
			}
			q, err = s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"})
			must(t, err)
			submitAs(t, q, 2, job.Meta{}, "y")
		})
	}
}

// Listing a queue that was removed makes another one, as listing a new one does.
func TestAListedQueueThatWasRemovedIsMadeAtTheOpening(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	must(t, s.RemoveQueue(ctx, "jobs"))
	closeHome(t, s)
	write(t, filepath.Join(dir, "queues.txt"), "jobs\n")
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	must(t, err)
	defer closeHome(t, s)
	should(t, errOf(s.Ask("jobs")))
}

// A job that only the journal has outlives the loss of the directory of its queue together
// with the index, whether the queue was published or not.
func TestALostQueueKeepsItsJournalWithoutAnIndex(t *testing.T) {
	for _, published := range []bool{true, false} {
		t.Run(fmt.Sprint("published ", published), func(t *testing.T) {
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{})
			must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})))
			submit(t, q, job.Meta{}, "in the journal alone")
			dir = copyHome(t, dir)
			must(t, os.RemoveAll(filepath.Join(dir, tableFile)))
			aside := filepath.Join(dir, "aside")
			must(t, os.Rename(filepath.Join(dir, "queues/jobs"), aside))
			if published {
				must(t, os.MkdirAll(filepath.Join(dir, "resourcesync/jobs"), 0o777))
			}
			write(t, filepath.Join(dir, "queues.txt"), "jobs\nother\nnew\n")
			for range 3 {
				s := sure(queuefs.Open(dir, queuefs.Options{Segment: segmentSize}))(t)
				if lost := s.Lost(); len(lost) != 1 || lost[0].Queue != "jobs" {
					t.Errorf("lost queues: %v", lost)
				}
				must(t, errOf(s.Queue("new"))) // it was never made
				must(t, s.Checkpoint(ctx))
				closeHome(t, s)
			}
			must(t, os.Rename(aside, filepath.Join(dir, "queues/jobs")))
			s, q = openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Errorf("with the directory back: %s", p) }})
			if got := payload(t, q, 1); len(s.Lost()) > 0 || got != "in the journal alone" {
				t.Errorf("lost %v, job %q", s.Lost(), got)
			}
			if j := submit(t, q, job.Meta{}, "new"); j.ID != 2 || q.Seq() != 2 {
				t.Errorf("the next job is %v, event %d", j.ID, q.Seq())
			}
		})
	}
}
