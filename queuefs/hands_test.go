package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
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
	s, q := openHome(t, g.dir, queuefs.Options{OwnIndex: true})
	for n := range 5 {
		submit(t, q, queuefs.Meta{Filename: fmt.Sprint("f", n), Sidecar: "s", MediaType: "text/plain"}, fmt.Sprint("payload ", n))
	}
	for _, id := range []queuefs.JobID{1, 2, 3, 4} {
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != id {
			t.Fatalf("got %v, %v", j.ID, err)
		}
	}
	if _, err := q.Delete(ctx, 5); err != nil {
		t.Fatal(err)
	}
	for _, id := range []queuefs.JobID{3, 1, 2} {
		if _, err := q.Requeue(ctx, id); err != nil {
			t.Fatal(err)
		}
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
	return openHome(g, g.dir, queuefs.Options{Report: func(p queuefs.Problem) { g.problems = append(g.problems, p.String()) }})
}

// rest tests that everything is as the world has it, now, after a crash, and
// after a clean stop, and that there is nothing more to report.
func (g *garden) rest(s *queuefs.Service) {
	g.Helper()
	if d := g.w.difference(observe(g, s)); d != "" {
		g.Errorf("opened: %s", d)
	}
	seq := s.Queues()[0].Seq()
	crashed := copyHome(g, g.dir)
	closeHome(g, s)
	for _, dir := range []string{g.dir, crashed} {
		s, q := openHome(g, dir, queuefs.Options{Report: func(p queuefs.Problem) { g.Errorf("reported again: %v", p) }})
		if d := g.w.difference(observe(g, s)); d != "" {
			g.Errorf("opened again: %s", d)
		}
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
	of := map[queuefs.Status]queuefs.JobID{queuefs.Pending: 1, queuefs.Consumed: 4, queuefs.Deleted: 5}
	for from := queuefs.Pending; from <= queuefs.Deleted; from++ {
		for to := queuefs.Pending; to <= queuefs.Deleted; to++ {
			if from == to {
				continue
			}
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				g := newGarden(t)
				id := of[from]
				was, err := os.ReadFile(g.path(from.String(), id.String()))
				must(t, err)
				if err := os.Rename(g.path(from.String(), id.String()), g.path(to.String(), id.String())); err != nil {
					t.Fatal(err)
				}
				g.w = g.w.set("jobs", id, func(f *fact) {
					if f.status = to; to == queuefs.Pending {
						f.requeues, f.consumer = f.requeues+1, ""
					}
				})
				s, q := g.open()
				want := queuefs.Update
				switch {
				case to == queuefs.Pending:
					want = queuefs.Requeue
				case from == queuefs.Pending && to == queuefs.Consumed:
					want = queuefs.Consume
				case from == queuefs.Pending:
					want = queuefs.Delete
				}
				events, err := q.Events(q.Seq()-1, 0)
				if err != nil || len(events) != 1 || events[0].Kind != want || events[0].From != from || events[0].To != to || events[0].Job != id {
					t.Errorf("got %+v, %v want one %v", events, err, want)
				}
				j, err := q.Job(id)
				if err != nil || j.Consumed.IsZero() != (to != queuefs.Consumed && !strings.Contains(string(was), "\nconsumed: ")) || j.Deleted.IsZero() != (to != queuefs.Deleted) {
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
	id := queuefs.JobID(4).String()
	if err := os.WriteFile(g.path("pending", id), []byte("no job file at all"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(g.path("consumed", id)); err != nil {
		t.Fatal(err)
	}
	s, q := g.open()
	j, err := q.Job(4)
	if err != nil || j.Status != queuefs.Pending || payload(t, q, 4) != "payload 3" {
		t.Errorf("got %+v, %v", j, err)
	}
	g.w = g.w.set("jobs", 4, func(f *fact) {
		f.status, f.filename, f.sidecar, f.consumer, f.requeues, f.work = queuefs.Pending, "", "", "", 1, `held "job file lost or damaged; the index knows less of the job"`
	})
	g.rest(s)
	if got, err := os.ReadFile(g.path("corrupt", "pending-"+id)); string(got) != "no job file at all" {
		t.Errorf("set aside: got %q, %v", got, err)
	}
}

func TestJobFileInTwoDirectories(t *testing.T) {
	g := newGarden(t)
	text, err := os.ReadFile(g.path("consumed", queuefs.JobID(4).String()))
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), "\nsequence: 9", "\nsequence: 2", 1)
	if old == string(text) {
		t.Fatalf("got %s", text)
	}
	for _, dir := range []string{"pending", "deleted"} {
		if err := os.WriteFile(g.path(dir, queuefs.JobID(4).String()), []byte(old), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := g.open()
	if len(g.problems) != 2 {
		t.Errorf("reported %q", g.problems)
	}
	g.rest(s) // the latest file is the job
	for _, dir := range []string{"pending", "deleted"} {
		if got, err := os.ReadFile(g.path("corrupt", dir+"-"+queuefs.JobID(4).String())); string(got) != old {
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
			if err := c.make(g.path("pending", c.name)); err != nil {
				t.Fatal(err)
			}
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
	text := func(id queuefs.JobID, more string) string {
		return fmt.Sprintf("identifier: %v\nsize: 5\nsubmitted: 2026-01-01T00:00:00Z\n%sstatus: consumed\n", id, more)
	}
	for _, c := range []struct {
		name string
		id   queuefs.JobID
		more string
		want fact // no status: set aside
	}{
		{"plain", 10, "filename: n\nsidecar: s\n", fact{status: queuefs.Pending, filename: "n", sidecar: "s"}},
		{"strange elements", 10, "who: me\nwho: you\n", fact{status: queuefs.Pending}},
		{"high number", 5_000_000, "", fact{status: queuefs.Pending}},
		{"number out of reach", 20_000_000_000, "", fact{}},
		{"long media type", 10, "mediaType: " + strings.Repeat("m", 70_000) + "\n", fact{status: queuefs.Pending}},
		{"old date", 10, "requeued: 1000-01-01T00:00:00Z\n", fact{status: queuefs.Pending}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGarden(t)
			for name, data := range map[string]string{"pending": text(c.id, c.more), "payload": "bring"} {
				if err := os.WriteFile(g.path(name, c.id.String()), []byte(data), 0o666); err != nil {
					t.Fatal(err)
				}
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
			if ids := q.IDs(queuefs.ListOptions{Status: queuefs.Pending}); !slices.Equal(ids, g.w.ids("jobs", queuefs.Pending)) {
				t.Errorf("order: got %v", ids)
			}
			g.rest(s)
			s, q = g.open()
			defer closeHome(t, s)
			if j := submit(t, q, queuefs.Meta{}, "x"); j.ID <= g.w["jobs"].last || j.ID > g.w["jobs"].last+1 {
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
		if err := os.Rename(g.path(name), g.path(to, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pending/j000000000002", "payload/j000000000002"} {
		if err := os.Remove(g.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := g.w.clone()
	delete(want["jobs"].byID, 2)
	for id, st := range map[queuefs.JobID]queuefs.Status{1: queuefs.Consumed, 4: queuefs.Pending, 5: queuefs.Pending} {
		want = want.set("jobs", id, func(f *fact) {
			if f.status = st; st == queuefs.Pending {
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
		if d := want.difference(observe(t, s)); d != "" {
			t.Errorf("stopped at step %d, %s: %s", at, f.name, d)
		}
		if seq := q.Seq(); seq != 17 {
			t.Errorf("stopped at step %d, %s: %d events, want 17", at, f.name, seq)
		}
		closeHome(t, s)
	}
}
