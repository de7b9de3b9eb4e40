package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
)

// A keeper of the gate is a Guard that holds some jobs of its own.
type gateKeeper struct {
	t     *testing.T
	s     *queuefs.Service
	dir   string
	holds int
	told  []string
}

func (g *gateKeeper) MayRemove(queue string) error {
	q, err := g.s.Queue(queue)
	if err != nil {
		g.t.Errorf("asked for %s: %v", queue, err)
		return err
	}
	g.told = append(g.told, "asked "+queue)
	if g.holds > 0 {
		submit(g.t, q, queuefs.Meta{}, "nobody sees that it was to be removed")
		return fmt.Errorf("%s: %w: %d are drafts", queue, queuefs.ErrNotEmpty, g.holds)
	}
	if len(g.told) > 1 {
		closed(g.t, q)
	}
	return nil
}

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

func (g *gateKeeper) Removed(queue string) {
	if _, err := g.s.Queue(queue); !errors.Is(err, queuefs.ErrNoQueue) {
		g.t.Errorf("told of %s: %v", queue, err)
	}
	g.told = append(g.told, fmt.Sprintf("gone %s, directory %v", queue, exists(g.dir, "queues/"+queue)))
}

func TestAGuardIsAskedBeforeAQueueIsRemoved(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	g := &gateKeeper{t: t, s: s, dir: dir, holds: 3}
	s.Guard(g)
	told := func(want ...string) {
		t.Helper()
		if !slices.Equal(g.told, want) {
			t.Errorf("told %q, want %q", g.told, want)
		}
		g.told = nil
	}
	// With jobs of its own the queue stays, whatever the guard says.
	submit(t, q, queuefs.Meta{}, "x")
	if err := s.RemoveQueue(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	told()
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	cullQueue(t, s, "jobs")
	if err := s.RemoveQueue(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotEmpty) || !strings.Contains(err.Error(), "3 are drafts") {
		t.Errorf("got %v", err)
	}
	told("asked jobs")
	submit(t, q, queuefs.Meta{}, "it goes on")
	for range 2 {
		if _, err := q.Next(ctx, "w"); err != nil {
			t.Error(err)
		}
	}
	cullQueue(t, s, "jobs")
	g.holds = 0
	if err := s.RemoveQueue(ctx, "jobs"); err != nil {
		t.Error(err)
	}
	told("asked jobs", "asked jobs", "gone jobs, directory false")
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"}); err != nil {
		t.Fatal(err)
	}
	// What other hands take out of the list is gone without a question.
	write(t, dir+"/queues.txt", "")
	reload(t, s)
	told("gone other, directory true")
	s.Guard(nil)
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "last"}); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveQueue(ctx, "last"); err != nil {
		t.Error(err)
	}
	told()
}

// Culling passes over jobs that somebody spares, takes the next ones in their
// place, and comes back to them.
func TestCullingSparesWhatItIsAskedTo(t *testing.T) {
	for _, hours := range []int64{-1, 1} {
		now := newClock()
		s, q := openHome(t, fastDir(t), queuefs.Options{Now: now.now})
		if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 3, hours })); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			submit(t, q, queuefs.Meta{}, "x")
			now.forward(1000)
			if _, err := q.Next(ctx, "w"); err != nil {
				t.Fatal(err)
			}
		}
		now.forward(7200e9)
		spared := []queuefs.JobID{1, 2, 4}
		s.Spare(func(queue string, id queuefs.JobID) bool {
			j, err := q.Job(id) // whoever is asked may look
			if err != nil || j.Queue != queue {
				t.Errorf("asked for %v of %s: %v", id, queue, err)
			}
			return slices.Contains(spared, id)
		})
		cull := func(bySize, byAge []queuefs.JobID) {
			t.Helper()
			want := bySize
			if hours > 0 {
				want = byAge
			}
			for _, dry := range []bool{true, false} {
				var got []queuefs.JobID
				for _, c := range culled(t, s, queuefs.CullOptions{Dry: dry}) {
					got = append(got, c.Job)
				}
				if !slices.Equal(got, want) {
					t.Errorf("age %d, dry %v: got %v want %v", hours, dry, got, want)
				}
			}
		}
		// Five are too many.
		cull([]queuefs.JobID{3, 5, 6, 7, 8}, []queuefs.JobID{3, 5, 6, 7, 8})
		for range 4 {
			submit(t, q, queuefs.Meta{}, "x")
			if _, err := q.Next(ctx, "w"); err != nil {
				t.Fatal(err)
			}
		}
		cull([]queuefs.JobID{9, 10, 11, 12}, nil) // the new ones are too young
		spared = []queuefs.JobID{4}
		if hours > 0 {
			cull(nil, []queuefs.JobID{1, 2})
		} else {
			cull(nil, nil) // three are not too many
		}
		s.Spare(nil)
		closeHome(t, s)
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
