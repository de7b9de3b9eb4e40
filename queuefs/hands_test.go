package queuefs_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A garden is a home that was stopped clean, with jobs 1 to 3 pending, 4
// consumed and 5 deleted, for other hands to work in.
type garden struct {
	*testing.T
	dir      string
	w        world
	problems []string
}

func newGarden(t *testing.T) *garden {
	t.Helper()
	g := &garden{T: t, dir: filepath.Join(fastDir(t), "home")}
	s, q := openHome(t, g.dir, queuefs.Options{})
	for n := range 5 {
		submit(t, q, job.Meta{Filename: fmt.Sprint("f", n), Sidecar: "s", MediaType: "text/plain"}, fmt.Sprint("payload ", n))
	}
	for _, id := range []job.ID{1, 2, 3, 4} {
		takes(t, q, id)
	}
	must(t, errOf(q.Delete(ctx, 5)))
	for _, id := range []job.ID{3, 1, 2} {
		must(t, errOf(q.Requeue(ctx, id)))
	}
	g.w = observe(t, s)
	closeHome(t, s)
	return g
}

func (g *garden) path(name ...string) string {
	return filepath.Join(append([]string{g.dir, "queues", "jobs"}, name...)...)
}

func (g *garden) open() (*queuefs.Service, *queuefs.Queue) {
	g.Helper()
	g.problems = nil
	return openHome(g, g.dir, queuefs.Options{Report: func(p durable.Finding) { g.problems = append(g.problems, p.String()) }})
}

// rest tests that everything is as the world has it, now, after a crash, and
// after a clean stop, and that there is nothing more to report.
func (g *garden) rest(s *queuefs.Service) {
	g.Helper()
	g.w.expect(g, s, "opened")
	seq := s.Queues()[0].Seq()
	crashed := copyHome(g, g.dir)
	closeHome(g, s)
	for _, dir := range []string{g.dir, crashed} {
		s, q := openHome(g, dir, queuefs.Options{Report: func(p durable.Finding) { g.Errorf("reported again: %v", p) }})
		g.w.expect(g, s, "opened again")
		if q.Seq() != seq {
			g.Errorf("opened again: %d events, want %d", q.Seq(), seq)
		}
		closeHome(g, s)
		r, err := check.Home(dir, check.Options{Segment: segmentSize})
		if err != nil || len(r.Problems)+len(r.Mended) > 0 {
			g.Errorf("check: %v, %+v", err, r)
		}
	}
}

func TestMovedByHand(t *testing.T) {
	of := map[job.Status]job.ID{job.Pending: 1, job.Consumed: 4, job.Deleted: 5}
	for from := job.Pending; from <= job.Deleted; from++ {
		for to := job.Pending; to <= job.Deleted; to++ {
			if from == to {
				continue
			}
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				g := newGarden(t)
				id := of[from]
				was := sure(os.ReadFile(g.path(from.String(), id.String())))(t)
				must(t, os.Rename(g.path(from.String(), id.String()), g.path(to.String(), id.String())))
				g.w = g.w.set("jobs", id, func(f *fact) {
					if f.status = to; to == job.Pending {
						f.requeues, f.consumer = f.requeues+1, ""
					}
				})
				s, q := g.open()
				want := job.Update
				switch {
				case to == job.Pending:
					want = job.Requeue
				case from == job.Pending && to == job.Consumed:
					want = job.Consume
				case from == job.Pending:
					want = job.Delete
				}
				events, err := q.Events(q.Seq()-1, 0)
				if err != nil || len(events) != 1 || events[0].Kind != want || events[0].From != from || events[0].To != to || events[0].Job != id {
					t.Errorf("got %+v, %v want one %v", events, err, want)
				}
				j, err := q.Job(id)
				if err != nil || j.Consumed.IsZero() != (to != job.Consumed && !strings.Contains(string(was), "\nconsumed: ")) || j.Deleted.IsZero() != (to != job.Deleted) {
					t.Errorf("dates: got %+v, %v", j, err)
				}
				if len(g.problems) != 1 {
					t.Errorf("reported %q", g.problems)
				}
				g.rest(s)
			})
		}
	}
}

func TestGarbledByHand(t *testing.T) {
	// A job file moved and spoilt: the job is as the index knows it.
	g := newGarden(t)
	id := job.ID(4).String()
	must(t, os.WriteFile(g.path("pending", id), []byte("no job file at all"), 0o666))
	must(t, os.Remove(g.path("consumed", id)))
	s, q := g.open()
	j, err := q.Job(4)
	if err != nil || j.Status != job.Pending || payload(t, q, 4) != "payload 3" {
		t.Errorf("got %+v, %v", j, err)
	}
	g.w = g.w.set("jobs", 4, func(f *fact) {
		f.status, f.filename, f.sidecar, f.consumer, f.requeues, f.work = job.Pending, "", "", "", 1, `held "job file lost or damaged; the index knows less of the job"`
	})
	g.rest(s)
	if got, err := os.ReadFile(g.path("corrupt", "pending-"+id)); string(got) != "no job file at all" {
		t.Errorf("set aside: got %q, %v", got, err)
	}
}

func TestJobFileInTwoDirectories(t *testing.T) {
	g := newGarden(t)
	text := sure(os.ReadFile(g.path("consumed", job.ID(4).String())))(t)
	old := strings.Replace(string(text), "\nsequence: 9", "\nsequence: 2", 1)
	if old == string(text) {
		t.Fatalf("got %s", text)
	}
	for _, dir := range []string{"pending", "deleted"} {
		must(t, os.WriteFile(g.path(dir, job.ID(4).String()), []byte(old), 0o666))
	}
	s, _ := g.open()
	if len(g.problems) != 2 {
		t.Errorf("reported %q", g.problems)
	}
	g.rest(s) // the latest file is the job
	for _, dir := range []string{"pending", "deleted"} {
		if got, err := os.ReadFile(g.path("corrupt", dir+"-"+job.ID(4).String())); string(got) != old {
			t.Errorf("set aside: got %q, %v", got, err)
		}
	}
}

// TestGarbageIsSetAside puts into the directories what does not belong there.
func TestGarbageIsSetAside(t *testing.T) {
	job := func(id, more string) string {
		return "identifier: " + id + "\nsize: 1\nsubmitted: 2026-01-01T00:00:00Z\nstatus: pending\n" + more
	}
	file := func(data string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(data), 0o666) }
	}
	dir := func(path string) error { return os.Mkdir(path, 0o777) }
	for _, c := range []struct {
		title, name string
		make        func(path string) error
	}{
		{"no job name", "notes.txt", file("hello")},
		{"hidden", ".DS_Store", file("x")},
		{"too short", "j1", file(job("j1", ""))},
		{"too long", "j0000000000010", file(job("j000000000010", ""))},
		{"upper case", "J000000000010", file(job("j000000000010", ""))},
		{"number zero", "j000000000000", file(job("j000000000000", ""))},
		{"blanks", "a b\nc", file("x")},
		{"not UTF-8", "\xff\xfe", file("x")},
		{"longest name", strings.Repeat("n", 255), file("x")},
		{"empty job file", "j000000000010", file("")},
		{"binary job file", "j000000000010", file("\x00\x01\x02")},
		{"of another job", "j000000000010", file(job("j000000000011", ""))},
		{"without payload", "j000000000010", file(job("j000000000010", ""))},
		{"huge job file", "j000000000010", file(job("j000000000010", strings.Repeat("x: y\n", 1<<20)))},
		{"directory", "j000000000010", dir},
		{"directory without job name", "sub", dir},
		{"unfinished directory", "cutie-tmp-sub", dir},
		{"link", "j000000000010", func(path string) error { return os.Symlink("/etc/hostname", path) }},
		{"link to nothing", "j000000000010", func(path string) error { return os.Symlink("nowhere", path) }},
		{"pipe", "j000000000010", func(path string) error { return syscall.Mkfifo(path, 0o666) }},
	} {
		t.Run(c.title, func(t *testing.T) {
			g := newGarden(t)
			must(t, c.make(g.path("pending", c.name)))
			g.opensInTime()
			s, _ := g.open()
			g.rest(s)
			aside, err := os.ReadDir(g.path("corrupt"))
			if err != nil || len(aside) != 1 {
				t.Errorf("set aside: got %v, %v", aside, err)
			}
		})
	}
}

// opensInTime opens the home in another process, which may hang or fall.
func (g *garden) opensInTime() {
	g.Helper()
	cmd := child(g, "open", g.dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := processes.Start(cmd); err != nil {
		g.Fatal(err)
	}
	late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		g.Fatalf("open: %v: %.2000s", err, out.String())
	}
	var kib int
	_, peak, _ := strings.Cut(out.String(), "VmHWM:")
	if fmt.Sscan(peak, &kib); kib == 0 || kib > 200<<10 {
		g.Errorf("opening took %d KiB: %s", kib, out.String())
	}
	if !strings.Contains(out.String(), "queues/jobs/pending/") {
		g.Errorf("reported %q", out.String())
	}
}

// TestJobsBroughtByHand puts whole jobs into the directories.
func TestJobsBroughtByHand(t *testing.T) {
	text := func(id job.ID, more string) string {
		return fmt.Sprintf("identifier: %v\nsize: 5\nsubmitted: 2026-01-01T00:00:00Z\n%sstatus: consumed\n", id, more)
	}
	for _, c := range []struct {
		name string
		id   job.ID
		more string
		want fact // no status: set aside
	}{
		{"plain", 10, "filename: n\nsidecar: s\n", fact{status: job.Pending, filename: "n", sidecar: "s"}},
		{"strange elements", 10, "who: me\nwho: you\n", fact{status: job.Pending}},
		{"high number", 5_000_000, "", fact{status: job.Pending}},
		{"number out of reach", 20_000_000_000, "", fact{}},
		{"long media type", 10, "mediaType: " + strings.Repeat("m", 70_000) + "\n", fact{status: job.Pending}},
		{"old date", 10, "requeued: 1000-01-01T00:00:00Z\n", fact{status: job.Pending}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGarden(t)
			for name, data := range map[string]string{"pending": text(c.id, c.more), "payload": "bring"} {
				must(t, os.WriteFile(g.path(name, c.id.String()), []byte(data), 0o666))
			}
			g.opensInTime()
			if c.want.status == 0 {
				os.Remove(g.path("payload", c.id.String())) // a payload without a job is told by Check
			} else {
				c.want.payload = "bring"
				g.w = g.w.set("jobs", c.id, func(f *fact) { *f = c.want })
			}
			s, q := g.open()
			if st, _ := q.Status(c.id); st != c.want.status {
				t.Errorf("got %v want %v", st, c.want.status)
			}
			if ids := q.IDs(index.Filter{Status: job.Pending}); !slices.Equal(ids, g.w.ids("jobs", job.Pending)) {
				t.Errorf("order: got %v", ids)
			}
			g.rest(s)
			s, q = g.open()
			defer closeHome(t, s)
			if j := submit(t, q, job.Meta{}, "x"); j.ID <= g.w["jobs"].last || j.ID > g.w["jobs"].last+1 {
				t.Errorf("the next job is %v", j.ID)
			}
		})
	}
}

// TestOpenInterrupted stops the machine at each step of the opening that takes
// in what was done by hand: it is taken in once.
func TestOpenInterrupted(t *testing.T) {
	g := newGarden(t)
	for name, to := range map[string]string{"pending/j000000000001": "consumed", "consumed/j000000000004": "pending", "deleted/j000000000005": "pending"} {
		must(t, os.Rename(g.path(name), g.path(to, filepath.Base(name))))
	}
	for _, name := range []string{"pending/j000000000002", "payload/j000000000002"} {
		must(t, os.Remove(g.path(name)))
	}
	want := g.w.clone()
	delete(want["jobs"].byID, 2)
	for id, st := range map[job.ID]job.Status{1: job.Consumed, 4: job.Pending, 5: job.Pending} {
		want = want.set("jobs", id, func(f *fact) {
			if f.status = st; st == job.Pending {
				f.requeues, f.consumer = f.requeues+1, ""
			}
		})
	}
	for at := 1; ; at++ {
		f := newFaults(at, errInjected)
		f.stops = true
		dir := copyHome(t, g.dir)
		s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Fault: f.step})
		if err == nil {
			s.Close()
		}
		if !f.fired() {
			break
		}
		s, q := openHome(t, dir, queuefs.Options{})
		want.expect(t, s, "stopped at step %d, %s", at, f.name)
		if seq := q.Seq(); seq != 17 {
			t.Errorf("stopped at step %d, %s: %d events, want 17", at, f.name, seq)
		}
		closeHome(t, s)
	}
}

// A current follower has all there is.
type current struct{}

func (current) Flush() error  { return nil }
func (current) Synced() error { return nil }

// push moves a home from a directory into a store.
func push(dir string, m *objectstest.Memory) (err error) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, PushTo: &stored.Options{Objects: m, Name: "the directory " + filepath.Base(dir), Patience: 20 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Follow(current{})
	return s.Push(ctx)
}

// pull moves a home from a store into a directory.
func pull(dir string, m *objectstest.Memory) (err error) {
	s, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "pull", Patience: 20 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Follow(current{})
	return s.MoveHere(ctx, "the directory "+filepath.Base(dir))
}

// local opens a home in its directory.
func local(t testing.TB, dir string) *queuefs.Service {
	t.Helper()
	if err := home.Init(dir, home.ServiceInfo{Name: "test"}); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	s := sure(queuefs.Open(dir, queuefs.Options{Segment: segmentSize}))(t)
	return s
}

// refused tells where a home can be opened.
func refused(t testing.TB, dir string, m *objectstest.Memory) (here, there error) {
	t.Helper()
	s, here := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if here == nil {
		closeHome(t, s)
	}
	s, there = openStored(fastDir(t)+"/other", m, queuefs.Options{Stored: &stored.Options{Name: "other", Patience: 20 * time.Millisecond}})
	if there == nil {
		closeHome(t, s)
	}
	return here, there
}

func copyStore(m *objectstest.Memory) *objectstest.Memory { return storeWith(m.Objects()) }

// A home moves into a store, out of it into another directory, and back, and is the same all
// the way; work goes on in each place.
func TestAHomeMovesIntoAStoreAndBack(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a, b := fastDir(t)+"/a", fastDir(t)+"/b"
	s := local(t, a)
	workStored(t, s, "one")
	must(t, s.Checkpoint(ctx))
	workStored(t, s, "two")
	want := see(t, s)
	if err := push(a, m); !errors.As(err, new(*home.LockedError)) {
		t.Errorf("a home in use: got %v", err)
	}
	closeHome(t, s)
	must(t, push(a, m))
	if here, there := refused(t, a, m); !errors.Is(here, stored.ErrStored) || there != nil {
		t.Errorf("after the push: in the directory %v, in the store %v", here, there)
	}
	wantErr(t, push(a, m), stored.ErrArrived, "a second push")
	for _, dir := range []string{a, fastDir(t) + "/fresh"} { // its cache, and a new one
		want.shownBy(t, mustStored(t, dir, m))
	}
	s = mustStored(t, a, m)
	workStored(t, s, "three")
	want = see(t, s)
	if err := pull(b, m); !errors.As(err, new(*stored.OwnedError)) {
		t.Errorf("a home in use: got %v", err)
	}
	closeHome(t, s)
	must(t, pull(b, m))
	if here, there := refused(t, b, m); here != nil || !errors.As(there, new(*bucket.MovedError)) {
		t.Errorf("after the pull: in the directory %v, in the store %v", here, there)
	}
	wantErr(t, pull(b, m), stored.ErrUnstored, "a second pull")
	c := copyDated(t, b) // the directory alone has all of it
	for _, dir := range []string{c, b} {
		s = local(t, dir)
		want.check(t, see(t, s))
		workStored(t, s, "four")
		now := see(t, s)
		closeHome(t, s)
		s = local(t, dir)
		now.check(t, see(t, s))
		if dir == b {
			want = now
		}
		closeHome(t, s)
	}
	wantErr(t, push(a, m), stored.ErrArrived, "a push of the former cache")
	must(t, push(b, m)) // back to the store it came from
	s = mustStored(t, fastDir(t)+"/last", m)
	want.check(t, see(t, s))
	workStored(t, s, "five")
	must(t, s.Image(ctx))
	must(t, s.Image(ctx))
	want = see(t, s)
	closeHome(t, s)
	want.shownBy(t, mustStored(t, fastDir(t)+"/verylast", m))
	st := sure(stored.Look(ctx, m))(t)
	r := sure(st.Check(ctx))(t)
	if len(r.Faults) > 0 {
		t.Errorf("faults in the store: %v", r.Faults)
	}
	if d := fastDir(t) + "/second"; !errors.Is(func() error { closeHome(t, local(t, d)); return push(d, m) }(), bucket.ErrThere) {
		t.Error("a store with a home takes another one")
	}
}

// Each request to the store fails in turn, or the process ends there for good. At no time can
// the home be opened in both places; another attempt moves it.
func TestAMoveThatIsInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	home := fastDir(t) + "/home"
	s := local(t, home)
	workStored(t, s, "one")
	want := see(t, s)
	closeHome(t, s)
	pushed := new(objectstest.Memory)
	cache := copyDated(t, home)
	must(t, push(cache, pushed))
	for _, out := range []bool{false, true} {
		for _, how := range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late} {
			for _, gone := range []bool{false, true} { // from there on, no request succeeds
				step := int64(long.N(61, 1))
				for at, done := int64(1), false; !done && !t.Failed(); at += step {
					t.Run(fmt.Sprintf("Out=%v/%v/ForGood=%v/%d", out, how, gone, at), func(t *testing.T) {
						var n atomic.Int64
						m := copyStore(new(objectstest.Memory))
						dir, move := copyDated(t, home), push
						if out {
							m, dir, move = copyStore(pushed), fastDir(t)+"/new", pull
						}
						m.Fault = func(objectstest.Request) objectstest.Fault {
							switch i := n.Add(1); {
							case i == at:
								return how
							case i > at && gone:
								return objectstest.Before
							}
							return objectstest.None
						}
						first := move(dir, m)
						done = n.Load() < at
						m.Fault = nil
						now := copyStore(m)
						begun := slices.ContainsFunc(slices.Collect(maps.Keys(now.Objects())), func(n string) bool { return strings.HasPrefix(n, "journal/") })
						here, there := refused(t, copyDated(t, dir), now)
						if begun && here == nil && there == nil || first == nil && (out && here != nil || !out && there != nil) || !begun && here != nil {
							t.Fatalf("after %v: in the directory %v, in the store %v", first, here, there)
						}
						switch err := move(dir, m); {
						case err == nil, first == nil, out && errors.Is(err, stored.ErrHere), !out && errors.Is(err, stored.ErrArrived):
						default:
							t.Fatalf("after %v: the second attempt: %v", first, err)
						}
						var s *queuefs.Service
						if out {
							s = local(t, dir)
						} else {
							s = mustStored(t, fastDir(t)+"/new", m)
						}
						want.check(t, see(t, s))
						closeHome(t, s)
					})
				}
			}
		}
	}
}

func rebuild(t *testing.T, dir string) queuefs.CheckReport {
	t.Helper()
	r, err := check.Home(dir, check.Options{Rebuild: true, Segment: segmentSize})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("rebuild: %v, %+v", err, r)
	}
	return r
}

func mustHave(t *testing.T, dir string, want world) {
	t.Helper()
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Errorf("reported %v", p) }})
	want.expect(t, s)
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}, damaged: true}
	v.checkFiles(want)
}

// TestRebuildForgetsPages rebuilds a home from which whole pages of jobs were
// taken away, long after the journal let their events go.
func TestRebuildForgetsPages(t *testing.T) {
	for _, lose := range []string{"", "checkpoint", "row of the queue"} {
		t.Run(lose, func(t *testing.T) {
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Segment: 4 << 20})
			fillQueue(t, q, 2*index.PageJobs+10, 1)
			closeHome(t, s)
			must(t, os.RemoveAll(filepath.Join(dir, "log/journal")))
			for id := job.ID(10); id <= 2*index.PageJobs+10; id++ {
				for _, name := range []string{"pending", "payload"} {
					must(t, os.Remove(filepath.Join(dir, "queues/jobs", name, id.String())))
				}
			}
			switch lose {
			case "checkpoint":
				loseRow(t, dir, table.Meta, table.CheckpointKey)
			case "row of the queue":
				loseRow(t, dir, table.Queues, "jobs")
			}
			rebuild(t, dir)
			_, q = openHome(t, dir, queuefs.Options{})
			if st := q.State(); st.Pending != 9 {
				t.Errorf("got %+v", st)
			}
			if lose != "row of the queue" {
				// The numbers of the jobs that are gone do not come again.
				submitAs(t, q, 2*index.PageJobs+11, job.Meta{}, "x")
			}
		})
	}
}

// TestCopyOfAQueueIsAQueue makes a home of nothing but the directories of a
// queue, as a mirror has them.
func TestCopyOfAQueueIsAQueue(t *testing.T) {
	g := newGarden(t)
	for _, drop := range [][]string{nil, {"queue-info.txt"}, {"queue-info.txt", "deleted"}} {
		dir := filepath.Join(fastDir(t), "mirror")
		must(t, os.CopyFS(filepath.Join(dir, "queues/jobs"), os.DirFS(g.path())))
		want := g.w
		for _, name := range drop {
			if name == "deleted" {
				want = want.clone()
				delete(want["jobs"].byID, 5)
				os.Remove(filepath.Join(dir, "queues/jobs/payload/j000000000005"))
			}
			os.RemoveAll(filepath.Join(dir, "queues/jobs", name))
		}
		rebuild(t, dir)
		mustHave(t, dir, want)
		s, q := openHome(t, dir, queuefs.Options{})
		takes(t, q, 1)
		if seq := q.Seq(); len(drop) < 2 && seq != 14 {
			t.Errorf("got event %d, want 14", seq)
		}
		closeHome(t, s)
	}
}

// TestRepair mends what can be mended and tells the rest.
func TestRepair(t *testing.T) {
	id := func(n int) string { return job.ID(n).String() }
	edit := func(name string, change func(string) string) func(*garden) error {
		return func(g *garden) error {
			data, err := os.ReadFile(g.path(name))
			if err != nil {
				return err
			}
			return os.WriteFile(g.path(name), []byte(change(string(data))), 0o666)
		}
	}
	lost := func(f *fact) {
		f.filename, f.sidecar, f.requeues, f.work = "", "", 0, `held "job file lost or damaged; the index knows less of the job"`
	}
	for _, c := range []struct {
		name  string
		do    func(*garden) error
		mends bool
		path  string
		want  func(f *fact) // of job 1, once mended
	}{
		{"line added", edit("pending/"+id(1), func(s string) string { return s + "note: by hand\n" }), true, "pending/" + id(1), func(*fact) {}},
		{"name changed", edit("pending/"+id(1), func(s string) string { return strings.Replace(s, "filename: f0", "filename: g", 1) }), true, "pending/" + id(1), func(f *fact) { f.filename = "g" }},
		{"job file cut", edit("pending/"+id(1), func(s string) string { return s[:20] }), true, "pending/" + id(1), lost},
		{"job file empty", edit("pending/"+id(1), func(s string) string { return "" }), true, "pending/" + id(1), lost},
		{"payload changed", edit("payload/"+id(1), func(s string) string { return strings.ToUpper(s) }), false, "payload/" + id(1), nil},
		{"payload cut", edit("payload/"+id(1), func(s string) string { return s[1:] }), false, "payload/" + id(1), nil},
		{"payload gone", func(g *garden) error { return os.Remove(g.path("payload", id(1))) }, false, "payload/" + id(1), nil},
		{"payload of no job", func(g *garden) error { return os.WriteFile(g.path("payload", id(50)), nil, 0o666) }, true, "payload/" + id(50), func(*fact) {}},
		{"strange payload", func(g *garden) error { return os.WriteFile(g.path("payload", "what"), nil, 0o666) }, true, "payload/what", func(*fact) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGarden(t)
			must(t, c.do(g))
			r, err := check.Home(g.dir, check.Options{Segment: segmentSize})
			if err != nil || len(r.Problems) != 1 || r.Problems[0].Path != "queues/jobs/"+c.path {
				t.Errorf("check: got %+v, %v", r, err)
			}
			r, err = check.Home(g.dir, check.Options{Repair: true, Segment: segmentSize})
			if err != nil || (len(r.Problems) == 0) != c.mends || c.mends && len(r.Mended) == 0 {
				t.Errorf("repair: got %+v, %v", r, err)
			}
			if c.mends {
				mustHave(t, g.dir, g.w.set("jobs", 1, c.want))
			}
		})
	}
}
