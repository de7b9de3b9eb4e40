package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/testdata/long"
)

var errInjected = errors.New("injected")

// smallSegment is the smallest that a journal takes.
const smallSegment = 64 << 10

// newScenario prepares a scenario in a fresh copy of an empty home.
func newScenario(t testing.TB, f *faults) *scenario {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	// Behind makes some operations write the files of others.
	c := &scenario{t: t, dir: dir, fault: f, f: newFollower(t), o: queuefs.Options{Segment: smallSegment, Behind: 150 << 10, Fault: f.step}}
	now := clock()
	c.o.Now = func() time.Time { return now().Add(time.Duration(c.skew.Load())) }
	return c
}

// stride thins tests out that try every step, unless they are to be long. Different
// ways to fail begin at different steps.
func stride() int { return long.N(7, 1) }

// TestEveryStepFails fails each step of the scenario in turn.
func TestEveryStepFails(t *testing.T) {
	failEveryStep(t, stride(), (*scenario).run)
}

// failEveryStep fails each step of what play does in turn, or each stride'th,
// in each way, and compares the whole state after opening the home again.
func failEveryStep(t *testing.T, stride int, play func(*scenario)) {
	for i, way := range []struct {
		name        string
		err         error
		done, stops bool
	}{
		{"fails", errInjected, false, false},
		{"fails but happened", errInjected, true, false},
		{"no space", syscall.ENOSPC, false, false},
		{"no space but happened", syscall.ENOSPC, true, false},
		{"machine stops before", errInjected, false, true},
		{"machine stops behind", errInjected, true, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			for at := 1 + i%stride; ; at += stride {
				f := newFaults(at, way.err)
				f.done, f.stops = way.done, way.stops
				fired := false
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					c := newScenario(t, f)
					defer func() {
						if t.Failed() {
							t.Logf("step %d failed: %s", at, f.name)
						}
						os.RemoveAll(c.dir)
					}()
					play(c)
					fired = f.fired()
					v := verifier{TB: t, dir: c.dir, o: c.o, f: c.f}
					v.verify(c.outcomes()...)
				})
				if !fired {
					if at <= stride {
						t.Error("no step was taken")
					}
					break
				}
			}
		})
	}
}

// A disk knows what of a home is on stable storage: it looks at every step of
// the engine. What was written and not synced may be lost, in parts.
type disk struct {
	t   testing.TB
	dir string

	mu     sync.Mutex
	synced map[string]string // contents by path
}

func (d *disk) snapshot() map[string]string {
	now := map[string]string{}
	err := filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a spare segment was taken meanwhile
		}
		rel, _ := filepath.Rel(d.dir, name)
		now[rel] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
	return now
}

// hook lets steps happen up to the one that fails, and none from there on.
func (d *disk) hook(step string, failed bool, do func() error) error {
	if failed {
		return fmt.Errorf("%s: %w", step, errInjected)
	}
	if err := do(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	in := func(name string) bool { return false }
	if base, ok := strings.CutPrefix(step, "sync dir "); ok {
		in = func(name string) bool {
			return path.Base(path.Dir(name)) == base || base == path.Base(d.dir) && path.Dir(name) == "."
		}
	}
	switch step {
	case "syncfs":
		in = func(string) bool { return true }
	case "journal sync":
		in = func(name string) bool { return path.Dir(name) == "log/journal" }
	case "commit table":
		in = func(name string) bool { return name == tableFile }
	case "sync queues.txt":
		in = func(name string) bool { return name == "queues.txt" }
	}
	if strings.Contains(step, "sync") || step == "commit table" {
		now := d.snapshot()
		for name, data := range d.synced {
			if in(name) {
				delete(d.synced, name)
				// Moved away, it has its new name: a move is in both directories
				// or in neither.
				for to := range now {
					if _, stands := now[name]; !stands && path.Dir(name) == "cutie-tmp" && strings.HasPrefix(to, "queues/") && now[to] == data {
						d.synced[to] = data
					}
				}
			}
		}
		for name, data := range now {
			if in(name) {
				d.synced[name] = data
			}
		}
	}
	return nil
}

// lose brings the directory to a state that it may have after power was lost.
func (d *disk) lose(rng *rand.Rand) {
	now := d.snapshot()
	names := map[string]bool{}
	for name := range now {
		names[name] = true
	}
	for name := range d.synced {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		is, stands := now[name]
		was, stood := d.synced[name]
		if stands == stood && is == was {
			continue
		}
		switch top := strings.Split(name, "/"); {
		case path.Dir(name) == "log/journal":
			if stands && stood && len(is) == len(was) {
				d.write(name, torn(rng, was, is))
			}
		case name == tableFile: // it changes by commits alone, each of them whole or not at all
			if stood && rng.IntN(2) == 0 {
				d.write(name, was)
			}
		case top[0] == "cutie-tmp":
			// Synced before, it is here still or has moved as a whole.
			for to := range now {
				if !stands && (strings.Contains(to, "/payload/") || strings.Contains(to, "/result/")) && now[to] == was && d.synced[to] != was && rng.IntN(2) == 0 {
					os.Remove(filepath.Join(d.dir, to))
					d.write(name, was)
					delete(now, to)
				}
			}
			if !stood {
				d.write(name, is[:rng.IntN(len(is)+1)])
			}
		case top[0] == "queues" && (top[2] == "payload" || top[2] == "result") && stands && d.moved(is):
			// See cutie-tmp.
		case top[0] == "queues" && len(top) == 4:
			switch rng.IntN(5) {
			case 0:
				os.Remove(filepath.Join(d.dir, name))
			case 1:
				d.write(name, is[:len(is)/2])
			case 2:
				d.write(name, strings.Repeat("\x00", len(is)))
			case 3:
				if stood {
					d.write(name, was)
				}
			}
		case rng.IntN(2) == 0:
			if stood {
				d.write(name, was)
			} else {
				os.Remove(filepath.Join(d.dir, name))
			}
		}
	}
}

// moved tells whether a payload was synced before it came to its place.
func (d *disk) moved(payload string) bool {
	for name, data := range d.synced {
		if data == payload && strings.HasPrefix(name, "cutie-tmp/") {
			return true
		}
	}
	return false
}

// torn mixes the sectors of two states of a file.
func torn(rng *rand.Rand, was, is string) string {
	b := []byte(was)
	for at := 0; at < len(b); at += 512 {
		if end := min(at+512, len(b)); rng.IntN(2) == 0 {
			copy(b[at:end], is[at:end])
		}
	}
	return string(b)
}

func (d *disk) write(name, data string) {
	if err := os.MkdirAll(filepath.Join(d.dir, path.Dir(name)), 0o777); err != nil {
		d.t.Error(err)
	}
	os.Remove(filepath.Join(d.dir, name)) // another name of the file has what it had
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(data), 0o666); err != nil {
		d.t.Error(err)
	}
}

// TestPowerLoss stops the machine at each step of the scenario and loses what
// was not synced; TestPowerLossAtWork does so with that of workers.
func TestPowerLoss(t *testing.T)       { losePower(t, stride(), (*scenario).run) }
func TestPowerLossAtWork(t *testing.T) { losePower(t, 2*stride()-1, (*scenario).runWork) }

func losePower(t *testing.T, stride int, run func(*scenario)) {
	t.Parallel()
	for at := 1; ; at += stride {
		f := newFaults(at, errInjected)
		f.stops = true
		fired := false
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			c := newScenario(t, f)
			defer os.RemoveAll(c.dir)
			d := &disk{t: t, dir: c.dir}
			d.synced = d.snapshot()
			f.hook = d.hook
			run(c)
			fired = f.fired()
			d.lose(rand.New(rand.NewPCG(uint64(at), 0)))
			v := verifier{TB: t, dir: c.dir, o: c.o, f: c.f, damaged: true}
			v.verify(c.outcomes()...)
			if t.Failed() {
				t.Logf("stopped at %s", f.name)
			}
		})
		if !fired {
			break
		}
	}
}

// on does one thing to one job.
func (c *scenario) on(what string, id job.ID, change func(*fact), op func(q *queuefs.Queue) error) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	c.again(what, c.known.set("jobs", id, change), func() error { return op(q) })
}

// again is do for what the rest of the scenario needs: what failed once works
// the second time.
func (c *scenario) again(what string, after world, op func() error) {
	var err error
	try := func() error { err = op(); return err }
	if c.do(what, after, try); err != nil && !c.over {
		c.do(what+" again", after, try)
	}
}

func worked(st job.Status, work string) func(*fact) {
	return func(f *fact) { f.status, f.work = st, work }
}

// back is a job that went back to pending.
func back(work string) func(*fact) {
	return func(f *fact) { f.status, f.consumer, f.requeues, f.work = job.Pending, "", f.requeues+1, work }
}

// lease takes the job at the head, which is id, and returns the token.
func (c *scenario) lease(id job.ID, d time.Duration) (token string) {
	c.on("lease", id, func(f *fact) { f.status, f.consumer, f.work = job.Consumed, "w", "leased" }, func(q *queuefs.Queue) error {
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: d})
		if err == nil {
			if taken[0].ID != id {
				c.t.Errorf("took %v want %v", taken[0].ID, id)
			}
			token = taken[0].Token
		}
		return err
	})
	return token
}

func (c *scenario) result(id job.ID, token, name, content string) {
	c.on("result", id, func(f *fact) { f.work += "; result " + name + " text/plain " + content },
		func(q *queuefs.Queue) error { return putResult(q, id, token, name, content) })
}

func (c *scenario) conclude(id job.ID, token string, r job.Conclusion, work string) {
	c.on("conclude", id, worked(job.Consumed, work), func(q *queuefs.Queue) error {
		_, err := q.Conclude(ctx, id, token, r)
		return err
	})
}

func (c *scenario) requeueOne(id job.ID) {
	c.on("requeue", id, back(""), func(q *queuefs.Queue) error { _, err := q.Requeue(ctx, id); return err })
}

// requeueEnd puts a copy of job id at the end, as again.
func (c *scenario) requeueEnd(id, again job.ID) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	after := c.known.set("jobs", id, func(f *fact) {
		f.work = strings.TrimPrefix(f.work+"; requeuedAs "+again.String(), "; ")
	})
	old := after["jobs"].byID[id]
	after = after.set("jobs", again, func(f *fact) {
		*f = fact{status: job.Pending, filename: old.filename, sidecar: old.sidecar, payload: old.payload, requeues: old.requeues + 1, work: "requeuedFrom " + id.String()}
	})
	c.again("requeue at the end", after, func() error { _, err := q.RequeueEnd(ctx, id); return err })
}

// runWork is a scenario of workers, over two lives.
func (c *scenario) runWork() {
	c.known = world{}
	c.open()
	var kept string
	until := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	if !c.over {
		c.create("jobs")
		if c.submit("jobs", 10, 3000, 200<<10, 5, 7); !c.over && c.known["jobs"].last == 0 {
			c.submit("jobs", 10, 3000, 200<<10, 5, 7)
		}
		c.on("hold", 1, worked(job.Pending, `held "a"`), func(q *queuefs.Queue) error { _, err := q.Hold(ctx, 1, "a"); return err })
		c.describe(5, "named", "what it is")
		two := c.lease(2, 500*time.Hour)
		c.result(2, two, "out", "first")
		c.maintain()
		c.result(2, two, "log", "second")
		c.on("extend", 2, func(*fact) {}, func(q *queuefs.Queue) error { _, err := q.Extend(ctx, 2, two, 600*time.Hour); return err })
		three := c.lease(3, 500*time.Hour)
		for range 2 {
			c.on("retry", 3, back(`message "n"`), func(q *queuefs.Queue) error {
				_, err := q.Conclude(ctx, 3, three, job.Conclusion{Outcome: job.Failed, Message: "n", Transient: true, RetryIn: new(time.Duration)})
				return err
			})
			three = c.lease(3, 500*time.Hour)
		}
		c.conclude(3, three, job.Conclusion{Outcome: job.Failed, Message: "m", Transient: true}, `error; transient; message "m"`)
		c.checkpoint()
		c.on("hold until", 5, worked(job.Pending, `held "c"; until `+job.FormatTime(until)), func(q *queuefs.Queue) error {
			_, err := q.HoldUntil(ctx, 5, "c", until)
			return err
		})
		c.describe(5, "named again", strings.Repeat("more of it ", 500))
		c.requeueEnd(3, 6)
		c.requeueOne(2)
		c.on("release", 1, worked(job.Pending, ""), func(q *queuefs.Queue) error { _, err := q.Release(ctx, 1); return err })
		c.on("abort", 4, worked(job.Deleted, `aborted; message "no"`), func(q *queuefs.Queue) error { _, err := q.Abort(ctx, 4, "no"); return err })
		one := c.lease(1, 500*time.Hour)
		c.on("return", 1, back(`message "later"`), func(q *queuefs.Queue) error { _, err := q.Return(ctx, 1, one, "later"); return err })
		c.lease(1, time.Hour)
		kept = c.lease(2, 500*time.Hour)
		c.result(2, kept, "out", "third")
	}
	c.close()
	if c.over {
		return
	}
	if c.open(); !c.over {
		c.result(2, kept, "more", "fourth")
		c.maintain()
		c.conclude(2, kept, job.Conclusion{Outcome: job.Completed}, "completed; result out text/plain third; result more text/plain fourth")
		c.checkpoint()
		c.on("requeue at", 2, back(""), func(q *queuefs.Queue) error { return requeueAt(q, 2, 0) })
		c.requeueOne(4)
		c.skew.Store(int64(time.Hour))
		c.on("expire", 1, back(""), func(q *queuefs.Queue) error { return c.s.Expire(ctx) })
		c.skew.Store(int64(7 * time.Hour))
		c.on("end the hold", 5, worked(job.Pending, ""), func(q *queuefs.Queue) error { return c.s.Expire(ctx) })
		c.on("hold", 1, worked(job.Pending, `held "b"`), func(q *queuefs.Queue) error { return holdAt(q, 1, 0, "b") })
		c.submit("jobs", 6000)
		c.draft(8, 9)
	}
	c.close()
}

// draft submits a job on hold, puts another one in its place, and gives that a
// destruction.
func (c *scenario) draft(id, next job.ID) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	held := fmt.Sprintf("held %q; name ", job.NotStarted)
	meta := job.Meta{OnHold: true, Name: func(id job.ID) anvl.Element { return anvl.Element{Name: "name", Value: "of " + id.String()} }}
	put := func(m job.Meta, former job.ID, payload string) error {
		sub := q.Begin()
		defer sub.Discard()
		sub.Replace(former)
		d, err := sub.Add(m)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, payload); err != nil {
			return err
		}
		_, err = sub.Commit(ctx)
		return err
	}
	after := c.known.set("jobs", id, func(f *fact) {
		*f = fact{status: job.Pending, payload: "draft", work: held + "of " + id.String()}
	})
	c.again("submit on hold", after, func() error { return put(meta, 0, "draft") })
	if c.over {
		return
	}
	large := strings.Repeat("another ", 30_000)
	after = c.known.set("jobs", id, func(f *fact) {
		f.status, f.work = job.Deleted, "name of "+id.String()+"; requeuedAs "+next.String()
	})
	after = after.set("jobs", next, func(f *fact) {
		*f = fact{status: job.Pending, payload: large, work: held + "of " + next.String() + "; requeuedFrom " + id.String()}
	})
	c.again("replace", after, func() error { return put(meta, id, large) })
	c.on("amend", next, func(f *fact) { f.work = strings.Replace(f.work, "; name", "; destruction 2030-01-01; name", 1) }, func(q *queuefs.Queue) error {
		_, err := q.Amend(ctx, next, func(j *job.Job) error {
			j.Destruction = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			return nil
		})
		return err
	})
	c.on("release", next, func(f *fact) { f.work = f.work[strings.Index(f.work, "destruction"):] },
		func(q *queuefs.Queue) error { _, err := q.Release(ctx, next); return err })
}

// TestEveryStepOfWorkFails is TestEveryStepFails for what workers do.
func TestEveryStepOfWorkFails(t *testing.T) {
	failEveryStep(t, 2*stride()-1, (*scenario).runWork)
}

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
	submitN(t, q, 3, job.Meta{}, "early")
	must(t, errOf(q.Next(ctx, "w")))
	must(t, s.Checkpoint(ctx))
	submitN(t, q, 3, job.Meta{}, "late")
	for _, id := range []job.ID{2, 3} {
		must(t, errOf(q.Hold(ctx, id, "not yet")))
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
		must(t, os.Rename(path(move[0]), path(move[1])))
	}
	w = w.set("jobs", 1, func(f *fact) { f.status, f.consumer, f.work = job.Pending, "", "" })
	var problems []string
	s, q := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
	if j, err := q.Job(1); err != nil || j.Status != job.Pending || j.Requeues != 1 {
		t.Errorf("a job moved by hand: %+v, %v", j, err)
	}
	w["jobs"].byID[1] = observe(t, s)["jobs"].byID[1]
	if len(problems) != 1 || !strings.Contains(problems[0], "moved here from consumed by other hands") {
		t.Errorf("reported %q", problems)
	}
	for range 3 {
		w.expect(t, s)
		closeHome(t, s)
		if got, want := tree(t, dir), w.files(); got != want {
			t.Errorf("files: got\n%s\nwant\n%s", got, want)
		}
		s, _ = openHome(t, dir, queuefs.Options{})
	}
}

// A stop in haste needs its journal, as a crash does.
func TestAStopInHasteWithoutItsJournal(t *testing.T) {
	dir, _ := hasty(t)
	must(t, os.RemoveAll(filepath.Join(dir, "log", "journal")))
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
		w.expect(t, s, "after a crash")
		closeHome(t, s)
		s, q := openHome(t, dir, queuefs.Options{})
		w.expect(t, s)
		j := submit(t, q, job.Meta{}, "later")
		must(t, s.Maintain(ctx))
		w = observe(t, s)
		s.StopWithin(0)
		closeHome(t, s)
		if got := tree(t, dir); strings.Contains(got, "payload/"+j.ID.String()) != (s.Behind() == 0) {
			t.Errorf("%d jobs behind, files:\n%s", s.Behind(), got)
		}
	}
}

// roomySegment is so large that none is prepared in the background.
const roomySegment = 1 << 20

// atEachStep calls do inside each step of a checkpoint in turn, and then opens
// the home as a crash behind the checkpoint would leave it. prepare comes
// before the checkpoint, check afterwards.
func atEachStep(t *testing.T, prepare func(s *queuefs.Service, q *queuefs.Queue), do, inspect func(q *queuefs.Queue)) {
	for at, more := 1, true; more; at++ {
		t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
			n := -1 // steps are not counted yet
			var mu sync.Mutex
			due := func() bool {
				mu.Lock()
				defer mu.Unlock()
				if n < 0 {
					return false
				}
				n++
				return n == at
			}
			count := func(from int) (was int) {
				mu.Lock()
				defer mu.Unlock()
				was, n = n, from
				return was
			}
			var q *queuefs.Queue
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment, Fault: func(step string, run func() error) error {
				err := run()
				if due() {
					count(-1) // the steps of do are others
					do(q)
				}
				return err
			}})
			defer s.Close()
			prepare(s, q)
			count(0)
			must(t, s.Checkpoint(ctx))
			if more = count(-1) < 0; !more { // there is no such step
				return
			}
			copied := copyHome(t, dir)
			again, p := openHome(t, copied, queuefs.Options{Segment: roomySegment})
			inspect(p)
			closeHome(t, again)
			checkHome(t, copied, check.Options{Segment: roomySegment})
		})
		if at > 1000 {
			t.Fatal("a checkpoint has no end")
		}
	}
}

// The pages of the index may know what came after the mark of their
// checkpoint; results that were to go then go all the same.
func TestResultsGoThatWentDuringACheckpoint(t *testing.T) {
	var id job.ID
	atEachStep(t, func(s *queuefs.Service, q *queuefs.Queue) {
		id = submit(t, q, job.Meta{}, "payload").ID
		taken := sure(q.Take(ctx, queuefs.Take{By: "w", Lease: time.Hour}))(t)
		must(t, putResult(q, id, taken[0].Token, "out", "result"))
		must(t, errOf(q.Conclude(ctx, id, taken[0].Token, job.Conclusion{Outcome: job.Failed})))
		must(t, s.Checkpoint(ctx)) // the result has its name
		submit(t, q, job.Meta{}, "another")
	}, func(q *queuefs.Queue) {
		must(t, errOf(q.Requeue(ctx, id)))
	}, func(q *queuefs.Queue) {
		if j, err := q.Job(id); err != nil || j.Status != job.Pending || len(j.Results) > 0 {
			t.Errorf("got %+v, %v", j, err)
		}
	})
}

// A journal that has lost its end says nothing of the results that came then:
// they are set aside, not removed.
func TestResultsOutliveTheEndOfTheJournal(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment})
	work := func() queuefs.Taken {
		submit(t, q, job.Meta{}, "payload")
		taken := sure(q.Take(ctx, queuefs.Take{By: "w", Lease: time.Hour}))(t)
		return taken[0]
	}
	other := work()
	must(t, putResult(q, other.ID, other.Token, "out", "result"))
	must(t, s.Checkpoint(ctx))
	jobID := work()
	early := copyHome(t, dir)
	must(t, putResult(q, jobID.ID, jobID.Token, "out", "the only copy"))
	must(t, errOf(q.Conclude(ctx, jobID.ID, jobID.Token, job.Conclusion{Outcome: job.Failed})))
	placed := filepath.Join(dir, "queues/jobs/result", jobID.ID.String(), "out")
	for _, err := os.Stat(placed); err != nil; _, err = os.Stat(placed) {
		must(t, s.Maintain(ctx)) // files follow the journal
	}
	late := copyHome(t, dir)
	closeHome(t, s)
	must(t, os.RemoveAll(filepath.Join(late, "log/journal")))
	must(t, os.Rename(filepath.Join(early, "log/journal"), filepath.Join(late, "log/journal")))

	again, _ := openHome(t, late, queuefs.Options{Segment: roomySegment})
	closeHome(t, again)
	must(t, errOf(check.Home(late, check.Options{Segment: roomySegment, Repair: true})))
	data, err := os.ReadFile(filepath.Join(late, "queues/jobs/corrupt", "result-"+jobID.ID.String()+"-out"))
	if err != nil || string(data) != "the only copy" {
		t.Errorf("set aside: %q, %v", data, err)
	}
}

// A job that was not acknowledged leaves no gap in the numbers of jobs.
func TestJobNumbersAfterACheckpointAndACrash(t *testing.T) {
	dir := fastDir(t)
	var hold atomic.Bool
	held, let := make(chan bool), make(chan bool)
	s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment, Fault: func(step string, run func() error) error {
		if hold.Load() && step == "journal write" {
			held <- true
			<-let
		}
		return run()
	}})
	defer closeHome(t, s)
	first := submit(t, q, job.Meta{}, "payload").ID
	hold.Store(true)
	done := make(chan bool)
	go func() {
		defer close(done)
		submit(t, q, job.Meta{}, "payload that is not on disk yet")
	}()
	<-held
	must(t, s.Checkpoint(ctx))
	again, p := openHome(t, copyHome(t, dir), queuefs.Options{Segment: roomySegment})
	if id := submit(t, p, job.Meta{}, "payload").ID; id != first+1 {
		t.Errorf("the job after %v is %v", first, id)
	}
	closeHome(t, again)
	hold.Store(false)
	close(let)
	<-done
}

// A crash at any step of an operation leaves a home that check finds whole: the next opening
// finishes the operation, or it has not happened. Nobody else is accused of it.
func TestCheckAfterACrashAtAnyStep(t *testing.T) {
	for name, do := range map[string]func(s *queuefs.Service, q *queuefs.Queue) error{
		"set": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Description = "changed" }))
			return err
		},
		"callback": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Callback = "http://127.0.0.1:1/secret" }))
			return err
		},
		"create": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "new"})
			return err
		},
		"remove": func(s *queuefs.Service, q *queuefs.Queue) error { return s.RemoveQueue(ctx, "empty") },
		"take":   func(s *queuefs.Service, q *queuefs.Queue) error { return errOf(q.Next(ctx, "w")) },
		"hold":   func(s *queuefs.Service, q *queuefs.Queue) error { return errOf(q.Hold(ctx, 2, "why")) },
		"cull": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Delete(ctx, 2)
			for _, e := range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
				err = errors.Join(err, e)
			}
			return errors.Join(err, s.Checkpoint(ctx))
		},
	} {
		for _, reopened := range []bool{false, true} { // before the operation
			t.Run(fmt.Sprintf("%s reopened %v", name, reopened), func(t *testing.T) {
				dir := filepath.Join(fastDir(t), "home")
				armed, steps := false, 0
				var copies []string
				snap := func(step string, do func() error) error {
					if armed {
						steps++
						copies = append(copies, copyHome(t, dir))
					}
					err := do()
					if armed {
						copies = append(copies, copyHome(t, dir))
					}
					return err
				}
				o := queuefs.Options{Fault: snap}
				s, q := openHome(t, dir, o)
				_, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "empty"})
				must(t, err)
				submit(t, q, job.Meta{}, "x")
				submit(t, q, job.Meta{}, "y")
				if reopened {
					closeHome(t, s)
					s, q = openHome(t, dir, o)
				}
				armed = true
				err = do(s, q)
				armed = false
				must(t, err)
				closeHome(t, s)
				if steps == 0 {
					t.Fatal("the operation has no steps")
				}
				for i, copied := range copies {
					r, err := check.Home(copied, check.Options{Segment: segmentSize})
					must(t, err)
					if len(r.Problems) > 0 {
						t.Errorf("copy %d: problems %v", i, r.Problems)
					}
				}
			})
		}
	}
}

func TestCheckNamesPropertiesThatWereEdited(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	path := filepath.Join(dir, "queues/jobs/queue-info.txt")
	text := sure(os.ReadFile(path))(t)
	must(t, os.WriteFile(path, append(text, "description: by hand\n"...), 0o666))
	r := sure(check.Home(dir, check.Options{Segment: segmentSize}))(t)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "not taken in yet") {
		t.Errorf("problems after an edit: %v", r.Problems)
	}
}

func (c *scenario) cull(name string) {
	if c.over {
		return
	}
	after := c.known.clone()
	for id, f := range after[name].byID {
		if f.status != job.Pending {
			delete(after[name].byID, id)
		}
	}
	c.do("cull", after, func() error {
		if _, err := c.s.SetQueue(ctx, name, set(func(i *home.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 })); err != nil {
			return err
		}
		for _, err := range c.s.Cull(ctx, queuefs.CullOptions{Queue: name}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *scenario) remove(name string) {
	if c.over {
		return
	}
	after := c.known.clone()
	c.last = map[string]job.ID{name: after[name].last}
	delete(after, name)
	c.do("remove", after, func() error {
		err := c.s.RemoveQueue(ctx, name)
		if errors.Is(err, ledger.ErrNoQueue) {
			return nil // it was told nothing certain before
		}
		return err
	})
}

// ends is a scenario of the ends of jobs and queues.
func (c *scenario) ends() {
	c.known = world{}
	for life := range 2 {
		if c.over {
			return
		}
		if c.open(); !c.over {
			if life == 0 {
				c.create("jobs")
				c.submit("jobs", 10, 3000, 150<<10, 5)
				c.next("jobs", 2)
				c.maintain()
				c.cull("jobs")
				c.next("jobs", 1)
				c.delete("jobs")
				c.checkpoint()
				c.cull("jobs")
				c.submit("jobs", 0)
				c.next("jobs", 1)
			} else {
				c.cull("jobs")
				c.remove("jobs")
				if _, there := c.known["jobs"]; there {
					c.remove("jobs") // what failed once works the second time
				}
				if !c.over && c.s.Err() != nil { // the removal stands, but not what is left of it
					c.close()
					c.open()
				}
				c.create("jobs")
				c.submit("jobs", 20, 30)
				c.next("jobs", 1)
			}
		}
		c.close()
	}
}

// TestEveryStepOfTheEndsFails is TestEveryStepFails for culling and removal.
func TestEveryStepOfTheEndsFails(t *testing.T) {
	failEveryStep(t, 3*stride()-2, (*scenario).ends)
}
