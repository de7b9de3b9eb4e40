package queuefs_test

import (
	"os"
	"strings"
	"testing"

	"cutie/queuefs"
)

// A reference to a job never comes to mean another one, also when its queue is
// removed and made again, or taken out of the list and put back by other hands.
func TestJobNumbersOutliveTheirQueue(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	o := queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }}
	s, q := openHome(t, dir, o)
	next := queuefs.JobID(1)
	use := func(q *queuefs.Queue, n int) {
		t.Helper()
		for range n {
			if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != next {
				t.Fatalf("got %v, want %v", j.ID, next)
			}
			if _, err := q.Next(ctx, "w"); err != nil {
				t.Fatal(err)
			}
			next++
		}
		cullQueue(t, s, "jobs")
	}
	create := func() *queuefs.Queue {
		t.Helper()
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	use(q, 3)
	for range 3 {
		if err := s.RemoveQueue(ctx, "jobs"); err != nil {
			t.Fatal(err)
		}
		crashed := copyHome(t, dir)
		closeHome(t, s)
		dir = crashed
		s = openBare(t, dir, o)
		use(create(), 2)
	}
	// A life without jobs forgets nothing.
	for range 2 {
		if err := s.RemoveQueue(ctx, "jobs"); err != nil {
			t.Fatal(err)
		}
		q = create()
	}
	use(q, 1)
	write(t, dir+"/queues.txt", "")
	reload(t, s)
	write(t, dir+"/queues.txt", "jobs\n")
	reload(t, s)
	q, err := s.Queue("jobs")
	if err != nil {
		t.Fatal(err)
	}
	use(q, 1)
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if j := submit(t, other, queuefs.Meta{}, "x"); j.ID != 1 {
		t.Errorf("another queue begins with %v", j.ID)
	}
	if len(problems) > 0 {
		t.Errorf("reported %q", problems)
	}
	if err := s.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	// Damage is told, and does not keep anybody from making queues.
	if err := os.WriteFile(dir+"/log/index/former", []byte("jobs: 99\ncrc: 00000000\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	next = 1
	use(create(), 1)
	if len(problems) != 1 || !strings.Contains(problems[0], "log/index/former") {
		t.Errorf("reported %q", problems)
	}
	closeHome(t, s)
}

// openBare opens a home as it is.
func openBare(t testing.TB, dir string, o queuefs.Options) *queuefs.Service {
	t.Helper()
	o.Segment = segment
	s, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
