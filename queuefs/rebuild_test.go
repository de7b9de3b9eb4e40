package queuefs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

func rebuild(t *testing.T, dir string) check.Report {
	t.Helper()
	r, err := check.Home(dir, check.Options{Rebuild: true, Segment: segmentSize})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("rebuild: %v, %+v", err, r)
	}
	return r
}

func mustHave(t *testing.T, dir string, want world) {
	t.Helper()
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Errorf("reported %v", p) }})
	if d := want.difference(observe(t, s)); d != "" {
		t.Error(d)
	}
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}, damaged: true}
	v.checkFiles(want)
}

// TestRebuildAfterCrash rebuilds a home whose files are behind the journal.
func TestRebuildAfterCrash(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	for range 3 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "x")
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	q.Next(ctx, "w")
	submit(t, q, queuefs.Meta{}, strings.Repeat("large", 50_000))
	submit(t, q, queuefs.Meta{}, "small")
	q.Delete(ctx, 3)
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	rebuild(t, crashed)
	mustHave(t, crashed, want)
}

// TestRebuildAfterWorkByHand rebuilds a home that was stopped, in which jobs
// were moved and taken away.
func TestRebuildAfterWorkByHand(t *testing.T) {
	g := newGarden(t)
	if err := os.Rename(g.path("consumed/j000000000004"), g.path("pending/j000000000004")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pending/j000000000002", "payload/j000000000002", "deleted/j000000000005", "payload/j000000000005"} {
		if err := os.Remove(g.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	rebuild(t, g.dir)
	g.w = g.w.set("jobs", 4, func(f *fact) { f.status, f.consumer, f.requeues = queuefs.Pending, "", 1 })
	delete(g.w["jobs"].byID, 2)
	delete(g.w["jobs"].byID, 5)
	mustHave(t, g.dir, g.w)
}

// TestRebuildForgetsPages rebuilds a home from which whole pages of jobs were
// taken away, long after the journal let their events go.
func TestRebuildForgetsPages(t *testing.T) {
	for _, lose := range []string{"", "log/index/checkpoint", "log/index/queues/jobs/queue"} {
		t.Run(filepath.Base(lose), func(t *testing.T) {
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Segment: 4 << 20})
			fillQueue(t, q, 2*queuefs.PageJobs+10, 1)
			closeHome(t, s)
			if err := os.RemoveAll(filepath.Join(dir, "log/journal")); err != nil {
				t.Fatal(err)
			}
			for id := queuefs.JobID(10); id <= 2*queuefs.PageJobs+10; id++ {
				for _, name := range []string{"pending", "payload"} {
					if err := os.Remove(filepath.Join(dir, "queues/jobs", name, id.String())); err != nil {
						t.Fatal(err)
					}
				}
			}
			if lose != "" {
				if err := os.Remove(filepath.Join(dir, lose)); err != nil {
					t.Fatal(err)
				}
			}
			rebuild(t, dir)
			s, q = openHome(t, dir, queuefs.Options{})
			defer closeHome(t, s)
			if st := q.State(); st.Pending != 9 {
				t.Errorf("got %+v", st)
			}
			if lose != "log/index/queues/jobs/queue" {
				// The numbers of the jobs that are gone do not come again.
				if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != 2*queuefs.PageJobs+11 {
					t.Errorf("got %v", j.ID)
				}
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
		if err := os.CopyFS(filepath.Join(dir, "queues/jobs"), os.DirFS(g.path())); err != nil {
			t.Fatal(err)
		}
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
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != 1 {
			t.Errorf("got %v, %v", j.ID, err)
		}
		if seq := q.Seq(); len(drop) < 2 && seq != 14 {
			t.Errorf("got event %d, want 14", seq)
		}
		closeHome(t, s)
	}
}

// TestRepair mends what can be mended and tells the rest.
func TestRepair(t *testing.T) {
	id := func(n int) string { return queuefs.JobID(n).String() }
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
			if err := c.do(g); err != nil {
				t.Fatal(err)
			}
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
