package queuefs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cutie/queuefs"
)

// closed checks that no job comes to the queue.
func closed(t *testing.T, q *queuefs.Queue) {
	t.Helper()
	sub := q.Begin()
	defer sub.Discard()
	if _, err := sub.Add(queuefs.Meta{}); err != nil {
		t.Error(err)
	}
	if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("a job came when the queue was asked for at last: %v", err)
	}
}

// Who removes a queue on a condition is asked while it is served, and again when
// nothing can change it any more.
func TestAQueueIsRemovedIfItIsAsItWasToBe(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	other := errors.New("it is another")
	asked := 0
	may := func(answers ...error) func(*queuefs.Queue) error {
		asked = 0
		return func(now *queuefs.Queue) error {
			if asked++; now != q {
				t.Errorf("asked for %v", now)
			}
			if asked == 2 {
				closed(t, q)
			}
			return answers[asked-1]
		}
	}
	for n, answers := range [][]error{{other}, {nil, other}} {
		if err := s.RemoveQueueIf(ctx, "jobs", may(answers...)); !errors.Is(err, other) || asked != n+1 {
			t.Errorf("got %v, asked %d times", err, asked)
		}
	}
	j := submit(t, q, queuefs.Meta{}, "it goes on")
	if err := s.RemoveQueueIf(ctx, "jobs", may()); !errors.Is(err, queuefs.ErrNotEmpty) || asked != 0 {
		t.Errorf("got %v, asked %d times", err, asked)
	}
	if _, err := q.Delete(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	cullQueue(t, s, "jobs")
	if err := s.RemoveQueueIf(ctx, "jobs", may(nil, nil)); err != nil || asked != 2 || len(s.Queues()) > 0 {
		t.Errorf("got %v, asked %d times", err, asked)
	}
}

// A removal that fails, as files that are not the program's or a full disk make
// it, is not seen by anybody who uses the queue meanwhile.
func TestARemovalThatFailsIsNotSeen(t *testing.T) {
	over, end := context.WithCancel(ctx)
	end()
	for name, want := range map[string]error{"strange file": queuefs.ErrNotEmpty, "full disk": queuefs.ErrNoSpace} {
		t.Run(name, func(t *testing.T) {
			var (
				disk crowded
				q    *queuefs.Queue
				seen int
			)
			dir := fastDir(t)
			s, made := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
				if q != nil {
					seen++
					if err := q.Wait(over, q.Seq()); !errors.Is(err, context.Canceled) {
						t.Errorf("at %s: got %v", step, err)
					}
				}
				return disk.step(step, do)
			}})
			defer closeHome(t, s)
			if name == "full disk" {
				disk.full = true
			} else {
				write(t, dir+"/queues/jobs/notes", "mine")
			}
			q = made
			err := s.RemoveQueue(ctx, "jobs")
			q, disk.full = nil, false
			if !errors.Is(err, want) || seen == 0 {
				t.Errorf("got %v at %d steps, want %v", err, seen, want)
			}
			submit(t, made, queuefs.Meta{}, "it goes on")
		})
	}
}

// A job that comes while a removal is decided is no file for the operator to
// move away.
func TestAJobThatComesKeepsTheQueue(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	came := false
	err := s.RemoveQueueIf(ctx, "jobs", func(*queuefs.Queue) error {
		if !came {
			came = true
			submit(t, q, queuefs.Meta{}, "x")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "1 jobs") {
		t.Errorf("got %v", err)
	}
}
