package set

import (
	"context"
	"io"
	"testing"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A job changes between the look at its page and the package of a Resource Dump. Its job
// file is left out, as a later event has it. Its result is not, as no later event does.
func TestResultsOfAJobThatChangesMeanwhile(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	must(t, queuefs.Init(home, queuefs.ServiceInfo{Name: "test"}))
	s, err := queuefs.Open(home, queuefs.Options{Segment: 1 << 20})
	must(t, err)
	defer s.Close()
	q, err := s.CreateQueue(ctx, queuefs.QueueInfo{ID: "jobs"})
	must(t, err)
	sub := q.Begin()
	up, err := sub.Add(queuefs.Meta{})
	must(t, err)
	_, err = io.WriteString(up, "payload")
	must(t, err)
	_, err = sub.Commit(ctx)
	must(t, err)
	taken, err := q.Take(ctx, queuefs.Take{Lease: time.Hour})
	must(t, err)
	id, token := taken[0].ID, taken[0].Token
	result, err := q.NewResult(ctx, id, token, "log", "text/plain", nil)
	must(t, err)
	_, err = io.WriteString(result, "text")
	must(t, err)
	_, err = result.Commit(ctx)
	must(t, err)

	for changed, want := range map[bool]int{false: 3, true: 2} {
		jobs, version, _ := q.Page(0, nil)
		q.AddResults(jobs)
		if changed {
			_, err = q.Extend(ctx, id, token, 2*time.Hour)
			must(t, err)
		}
		dir, err := durable.OpenDir(t.TempDir(), nil)
		must(t, err)
		refs := names.Site("http://source.test").Queue("jobs")
		p, err := newGathering(dir, q, names.Replica, entries.Renderer{Refs: refs})
		must(t, err)
		must(t, p.Job(0, version, &jobs[0]))
		if p.Entries != want {
			t.Errorf("changed %v: the package has %d files, want %d", changed, p.Entries, want)
		}
		p.Close()
		must(t, dir.Close())
	}
}
