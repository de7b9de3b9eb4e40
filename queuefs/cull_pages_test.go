package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
)

// TestVacantPagesAreGivenBack culls whole pages of the index, whose memory and
// files shrink, and goes on after every kind of stop.
func TestVacantPagesAreGivenBack(t *testing.T) {
	dir := fastDir(t)
	o := queuefs.Options{Segment: 32 << 20}
	s, q := openHome(t, dir, o)
	sub := q.Begin()
	for range 3*queuefs.PageJobs + 10 {
		if _, err := sub.Add(queuefs.Meta{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sub.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for n := 2 * queuefs.PageJobs; n > 0; {
		jobs, err := q.NextN(ctx, "w", min(n, queuefs.MaxTake))
		if err != nil {
			t.Fatal(err)
		}
		n -= len(jobs)
	}
	if got := cullQueue(t, s, "jobs"); len(got) != 2*queuefs.PageJobs {
		t.Fatalf("culled %d", len(got))
	}
	version, at, _, _ := q.PageVersion(0)
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	culled(t, s, queuefs.CullOptions{})
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	pages := (*queuefs.Service).PagesInMemory
	if n := pages(s); n != 2 {
		t.Errorf("%d pages of the index are in memory", n)
	}
	sizes := func(dir string) (all []int64) {
		for n := range 4 {
			st, err := os.Stat(filepath.Join(dir, "log/index/queues/jobs", fmt.Sprintf("p%09d", n)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, st.Size())
		}
		return all
	}
	if got := sizes(dir); got[0] > 100 || got[1] > 100 || got[2] < 1000 || got[3] < 1000 {
		t.Errorf("index pages have %v octets", got)
	}
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		var problems []string
		o.Report = func(p queuefs.Problem) { problems = append(problems, p.String()) }
		s, q := openHome(t, dir, o)
		if n := pages(s); n != 2 {
			t.Errorf("opened: %d pages of the index are in memory", n)
		}
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		if v, a, pending, total := q.PageVersion(0); v != version || !a.Equal(at) || pending != 0 || total != 0 {
			t.Errorf("page 0: version %d at %v, %d pending of %d; want version %d at %v", v, a, pending, total, version, at)
		}
		if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != 3*queuefs.PageJobs+11 {
			t.Errorf("next job is %v", j.ID)
		}
		if _, err := q.Job(5); !errors.Is(err, queuefs.ErrNoJob) {
			t.Errorf("got %v", err)
		}
		closeHome(t, s)
		// Other hands may bring a job to a vacant page.
		text, err := os.ReadFile(dir + "/queues/jobs/pending/j000000003082")
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), "identifier: j000000003082", "identifier: j000000000007", 1))
		if err := errors.Join(os.WriteFile(dir+"/queues/jobs/pending/j000000000007", text, 0o666), os.WriteFile(dir+"/queues/jobs/payload/j000000000007", nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		s, q = openHome(t, dir, o)
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != 7 {
			t.Errorf("brought: got %v, %v", j.ID, err)
		}
		if n := pages(s); n != 3 {
			t.Errorf("brought: %d pages of the index are in memory", n)
		}
		if _, err := q.Job(8); !errors.Is(err, queuefs.ErrNoJob) {
			t.Errorf("beside the one that was brought: got %v", err)
		}
		if v, _ := q.Status(queuefs.PageJobs + 7); v != 0 {
			t.Errorf("in another vacant page: got %v", v)
		}
		closeHome(t, s)
		if len(problems) != 1 {
			t.Errorf("reported %q", problems)
		}
	}
}
