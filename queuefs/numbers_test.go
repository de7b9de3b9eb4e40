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
	closeHome(t, s)
}

// The last numbers of a removed queue are damaged: that is reported, and no
// number that can be read anywhere is given out again.
func TestDamagedNumbersOfARemovedQueueAreReported(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		jobs, strangers  queuefs.JobID // of queues made again under these names
	}{
		{"a wrong digit", "queues/jobs/queue", "job: 99\nsequence: 1000\nseal: 12345678\n", 100, 1},
		{"nothing to read", "queues/jobs/queue", "\x00\x00\x00", 8, 1}, // above those of the queue that is there
		{"numbers that nothing could follow", "queues/jobs/queue", "job: 999999999999\n", 8, 1},
		{"empty", "queues/jobs/queue", "", 8, 1},
	} {
		for _, open := range []bool{false, true} {
			dir := fastDir(t)
			var problems []string
			o := queuefs.Options{OwnIndex: true, Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }}
			s, _ := openHome(t, dir, o)
			there, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "there"})
			if err != nil {
				t.Fatal(err)
			}
			for range 7 {
				submit(t, there, queuefs.Meta{}, "x")
			}
			if err := s.RemoveQueue(ctx, "jobs"); err != nil {
				t.Fatal(err)
			}
			if !open {
				closeHome(t, s)
			}
			write(t, dir+"/log/index/"+c.file, c.text)
			if !open {
				s = openBare(t, dir, o)
			}
			for name, want := range map[string]queuefs.JobID{"jobs": c.jobs, "stranger": c.strangers} {
				q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name})
				if err != nil {
					t.Fatal(err)
				}
				if j := submit(t, q, queuefs.Meta{}, "x"); j.ID < want || j.ID > want+1 {
					t.Errorf("%s: queue %s begins with %v, want %v or the next", c.name, name, j.ID, want)
				}
			}
			if len(problems) == 0 || !strings.Contains(problems[0], "log/index/"+c.file) {
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
	closeHome(t, openBare(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Errorf("reported %v", p) }}))
}

// Other hands take a queue away, its directory and its line, while nobody has
// the home open: one made again under the name goes on with the numbers all the
// same, whatever is left of the index.
func TestNumbersOutliveAQueueTakenAwayByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash bool // the last numbers are in the journal only
		harm  string
		above queuefs.JobID // the lowest number that the next job may have
		exact bool
		seq   queuefs.Seq
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
				submit(t, q, queuefs.Meta{}, "x")
				if _, err := q.Next(ctx, "w"); err != nil {
					t.Fatal(err)
				}
				if q.Seq() == 6 {
					if err := s.Checkpoint(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			crashed := copyHome(t, dir)
			closeHome(t, s)
			if c.crash {
				dir = crashed
			}
			if err := os.RemoveAll(dir + "/queues/jobs"); err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/queues.txt", "")
			switch c.harm {
			case "queue":
				write(t, dir+"/log/index/small", "?")
			case "open":
				openBareAgain(t, dir)
			}
			s = openBare(t, dir, queuefs.Options{})
			defer closeHome(t, s)
			q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"})
			if err != nil {
				t.Fatal(err)
			}
			j := submit(t, q, queuefs.Meta{}, "x")
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
	s, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
