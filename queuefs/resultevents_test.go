package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
)

// resultChanges returns what the events of a queue say of results.
func resultChanges(t *testing.T, q *queuefs.Queue, after queuefs.Seq) (said []string) {
	t.Helper()
	events, err := q.Events(after, 0)
	must(t, err)
	for _, e := range events {
		if e.Results == nil {
			continue
		}
		s := e.Kind.String()
		for _, r := range e.Results.Came {
			s += fmt.Sprintf(" +%s %d %s", r.Name, r.Size, r.MediaType)
		}
		for _, name := range e.Results.Went {
			s += " -" + name
		}
		said = append(said, s)
	}
	return said
}

// TestEventsNameResults asks the events which results came and went, before and after the
// home is opened again.
func TestEventsNameResults(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	fillQueue(t, q, 2, 1)
	token := takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 1, token, "a", "text"))
	must(t, putResult(q, 1, token, "b", ""))
	_, err := q.Requeue(ctx, 1)
	must(t, err)
	token = takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 1, token, "a", "other"))
	_, err = q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Completed})
	must(t, err)
	for _, err := range s.Cull(ctx, queuefs.CullOptions{Queue: q.ID(), Keep: &queuefs.Thresholds{}}) {
		must(t, err)
	}
	want := "outcome +a 4 text/plain; outcome +b 0 text/plain; requeue -a -b; outcome +a 5 text/plain; cull -a"
	if got := strings.Join(resultChanges(t, q, 0), "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	at := q.Seq()
	if got := strings.Join(resultChanges(t, q, 0), "; "); got != want {
		t.Errorf("opened again: got  %s\nwant %s", got, want)
	}
	// A moved job file is a requeue.
	token = takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 2, token, "c", "text"))
	closeHome(t, s)
	must(t, os.Rename(filepath.Join(dir, "queues/jobs/consumed/j000000000002"), filepath.Join(dir, "queues/jobs/pending/j000000000002")))
	s, q = openHome(t, dir, queuefs.Options{})
	if got, want := strings.Join(resultChanges(t, q, at), "; "), "outcome +c 4 text/plain; requeue -c"; got != want {
		t.Errorf("moved by hand: got  %s\nwant %s", got, want)
	}
	everywhere(t, s, dir)
}

// TestEventsNameManyLongResults has a record longer than others, before its job file.
func TestEventsNameManyLongResults(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock()})
	defer s.Close()
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	for n := range queuefs.MaxResults {
		must(t, putResult(q, 1, token, fmt.Sprintf("%s%03d", strings.Repeat("n", job.MaxResultName-3), n), "x"))
	}
	_, err := q.Requeue(ctx, 1)
	must(t, err)
	said := resultChanges(t, q, 0)
	if n := len(said); n != queuefs.MaxResults+1 || strings.Count(said[n-1], " -") != queuefs.MaxResults {
		t.Errorf("got %d changes, the last is %.200s", n, said[n-1])
	}
	j, err := q.Job(1)
	if err != nil || j.Status != queuefs.Pending || j.Requeues != 1 {
		t.Errorf("got %+v, %v", j, err)
	}
}
