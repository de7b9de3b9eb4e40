package queuefs_test

import (
	"context"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
)

// resultsOf reads the results of a job.
func resultsOf(t testing.TB, q *queuefs.Queue, id queuefs.JobID) map[string]string {
	t.Helper()
	j, err := q.Job(id)
	must(t, err)
	all := map[string]string{}
	for _, r := range j.Results {
		all[r.Name] = result(t, q, id, r.Name)
	}
	return all
}

// Small results travel in the journal and in images, large ones are objects of their own.
// Whatever a node begins with, each job has its results, and those of an attempt before
// are gone.
func TestSmallResultsAreNoObjects(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	q := createQueue(t, a, queuefs.QueueInfo{Identifier: "jobs"})
	for range 4 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	taken, err := q.Take(ctx, queuefs.Take{User: "worker", Max: 4, Lease: 1 << 40})
	must(t, err)
	large := strings.Repeat("large", 10<<10)
	want := map[queuefs.JobID]map[string]string{
		1: {"log": "", "out": "of one"},
		2: {"log": "before", "out": "after the image"},
		3: {"log": "of the second attempt"},
		4: {"large": large, "small": "beside a large one, after the image"},
	}
	see := func(where string, s *queuefs.Service) {
		t.Helper()
		q, err := s.Queue("jobs")
		must(t, err)
		for id, want := range want {
			got := resultsOf(t, q, id)
			for name := range want {
				if got[name] != want[name] || len(got) != len(want) {
					t.Errorf("%s: job %v has %.60q, want %.60q", where, id, got, want)
				}
			}
		}
	}
	whole := func(where string) {
		t.Helper()
		st, err := stored.Look(context.Background(), m)
		must(t, err)
		r, err := st.Check(context.Background())
		must(t, err)
		if len(r.Faults) > 0 || r.Files != 1 {
			t.Errorf("%s: %d files, %v", where, r.Files, r.Faults)
		}
	}
	must(t, putResult(q, taken[0].ID, taken[0].Token, "log", ""))
	must(t, putResult(q, taken[0].ID, taken[0].Token, "out", "of one"))
	must(t, putResult(q, taken[1].ID, taken[1].Token, "log", "before"))
	must(t, putResult(q, taken[2].ID, taken[2].Token, "log", "of the first attempt"))
	must(t, putResult(q, taken[2].ID, taken[2].Token, "out", "of the first attempt"))
	must(t, putResult(q, taken[3].ID, taken[3].Token, "large", large))
	whole("in the journal")
	must(t, a.Image(ctx))
	must(t, a.Image(ctx)) // the journal of the results is gone
	whole("in the image")
	must(t, putResult(q, taken[1].ID, taken[1].Token, "out", "after the image"))
	must(t, putResult(q, taken[3].ID, taken[3].Token, "small", want[4]["small"]))
	_, err = q.Requeue(ctx, 3)
	must(t, err)
	again, err := q.Take(ctx, queuefs.Take{User: "worker", Max: 1, Lease: 1 << 40})
	must(t, err)
	must(t, putResult(q, again[0].ID, again[0].Token, "log", "of the second attempt"))
	whole("in both")
	see("the owner", a)
	b := standBy(t, "b", m)
	see("a standby", b)
	must(t, b.Bring(ctx))
	see("a standby with all pages", b)
	must(t, b.TakeOver(ctx, false))
	must(t, b.Image(ctx))
	see("the next owner", b)
	closeHome(t, b)
	c := mustStored(t, fastDir(t)+"/c", m)
	see("a fresh node", c)
	whole("in the next image")
	closeHome(t, c)
}
