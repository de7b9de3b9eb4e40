package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs"
)

// A taking is what a waiter came back with.
type taking struct {
	who  int
	jobs []queuefs.JobID
	err  error
}

// wait starts a waiter and returns once it stands in the line.
func wait(ctx context.Context, q *queuefs.Queue, who, max int, back chan taking) {
	go func() {
		jobs, err := q.NextWait(ctx, fmt.Sprint("w", who), max)
		back <- taking{who, idsOf(jobs), err}
	}()
	synctest.Wait()
}

func expect(t *testing.T, back chan taking, want ...taking) {
	t.Helper()
	synctest.Wait()
	var got []taking
	for len(back) > 0 {
		got = append(got, <-back)
	}
	slices.SortFunc(got, func(a, b taking) int { return a.who - b.who })
	if !slices.EqualFunc(got, want, func(a, b taking) bool {
		return a.who == b.who && slices.Equal(a.jobs, b.jobs) && errors.Is(a.err, b.err)
	}) {
		t.Errorf("got %+v want %+v", got, want)
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		defer closeHome(t, s)
		back := make(chan taking, 100)
		for who := range 10 {
			wait(ctx, q, who, 1, back)
		}
		if _, err := q.Next(ctx, "hasty"); !errors.Is(err, queuefs.ErrEmpty) {
			t.Errorf("next: got %v", err)
		}
		for who := range 10 {
			j := submit(t, q, queuefs.Meta{}, "x")
			expect(t, back, taking{who: who, jobs: []queuefs.JobID{j.ID}})
		}
		// One who takes many gets what is there, not more than it asked for.
		wait(ctx, q, 10, 3, back)
		wait(ctx, q, 11, 5, back)
		fillQueue(t, q, 5, 1)
		expect(t, back, taking{who: 10, jobs: []queuefs.JobID{11, 12, 13}}, taking{who: 11, jobs: []queuefs.JobID{14, 15}})
		// A job that comes back is a job.
		wait(ctx, q, 12, 1, back)
		if _, err := q.Requeue(ctx, 4); err != nil {
			t.Fatal(err)
		}
		expect(t, back, taking{who: 12, jobs: []queuefs.JobID{4}})
	})
}

func TestWaiterThatGivesUpTakesNothing(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		defer closeHome(t, s)
		back := make(chan taking, 100)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		wait(short, q, 0, 1, back)
		wait(ctx, q, 1, 1, back)
		time.Sleep(time.Hour) // of the clock of this test
		expect(t, back, taking{who: 0, err: queuefs.ErrEmpty})
		submit(t, q, queuefs.Meta{}, "x")
		expect(t, back, taking{who: 1, jobs: []queuefs.JobID{1}})
		submit(t, q, queuefs.Meta{}, "y")
		// One who has given up already takes nothing that is there.
		wait(short, q, 2, 1, back)
		expect(t, back, taking{who: 2, err: queuefs.ErrEmpty})
		if _, err := q.NextN(short, "w", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if j, err := q.Peek(); err != nil || j.ID != 2 || q.State().Consumed != 1 {
			t.Errorf("got %v, %v, %+v", j.ID, err, q.State())
		}
	})
}

// An ending is a context that has ended, but nobody who waits has seen it yet.
type ending struct {
	context.Context
	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// TestJobForOneWhoHungUp hands a job to a waiter whose context ends at that
// moment: the next one gets it.
func TestJobForOneWhoHungUp(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		defer closeHome(t, s)
		back := make(chan taking, 3)
		hung := &ending{Context: ctx}
		wait(hung, q, 0, 1, back)
		wait(ctx, q, 1, 1, back)
		hung.ended.Store(true)
		submit(t, q, queuefs.Meta{}, "x")
		expect(t, back, taking{who: 0, err: queuefs.ErrEmpty}, taking{who: 1, jobs: []queuefs.JobID{1}})
		if events := q.Seq(); events != 2 {
			t.Errorf("%d events, want 2", events)
		}
	})
}

// TestWaiterCancelledInTheAct cancels waiters while jobs come, at every moment
// that chance finds: each job is taken by one who says so, or still there.
func TestWaiterCancelledInTheAct(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	const rounds = 300
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := map[queuefs.JobID]bool{}
	for i := range rounds {
		one, cancel := context.WithCancel(ctx)
		wg.Go(func() {
			jobs, err := q.NextWait(one, "w", 2)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, queuefs.ErrEmpty) && !t.Failed() {
				t.Errorf("got %v", err)
			}
			for _, j := range jobs {
				if taken[j.ID] {
					t.Errorf("%v was taken twice", j.ID)
				}
				taken[j.ID] = true
			}
		})
		wg.Go(func() { submit(t, q, queuefs.Meta{}, "x") })
		if rand.IntN(2) == 0 {
			wg.Go(cancel)
		} else {
			defer cancel()
		}
		if i%20 == 0 {
			submit(t, q, queuefs.Meta{}, "x") // so that none waits for ever
		}
	}
	for range 2 * rounds { // enough for those who were not cancelled
		submit(t, q, queuefs.Meta{}, "x")
	}
	wg.Wait()
	for _, id := range q.IDs(queuefs.ListOptions{Limit: 1 << 20}) {
		if st, _ := q.Status(id); (st == queuefs.Consumed) != taken[id] {
			t.Errorf("%v is %v, taken %v", id, st, taken[id])
		}
	}
}

func TestThousandWaiters(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		back := make(chan taking, 2000)
		for who := range 1000 {
			go func() {
				jobs, err := q.NextWait(ctx, "w", 1)
				back <- taking{who, idsOf(jobs), err}
			}()
		}
		synctest.Wait()
		fillQueue(t, q, 300, 10)
		fillQueue(t, q, 300, 10)
		synctest.Wait()
		if st := q.State(); st.Consumed != 600 || len(back) != 600 {
			t.Errorf("got %+v, %d came back", st, len(back))
		}
		// Closing lets the others go.
		closeHome(t, s)
		synctest.Wait()
		if len(back) != 1000 {
			t.Fatalf("%d came back", len(back))
		}
		var got []queuefs.JobID
		closed := 0
		for range 1000 {
			if b := <-back; errors.Is(b.err, queuefs.ErrClosed) {
				closed++
			} else {
				got = append(got, b.jobs...)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 600 || closed != 400 {
			t.Errorf("got %d jobs, %d told that the service closed", len(got), closed)
		}
	})
}

func TestFailureLetsWaitersGo(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		failing := false
		s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
			if failing && step == "journal sync" {
				return syscall.EIO
			}
			return do()
		}})
		back := make(chan taking, 2)
		wait(ctx, q, 0, 1, back)
		followed := make(chan error, 1)
		go func() { followed <- q.Wait(ctx, q.Seq()) }()
		synctest.Wait()
		failing = true
		sub := q.Begin()
		sub.Add(queuefs.Meta{})
		if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrFailed) || errors.Is(err, queuefs.ErrNoSpace) {
			t.Errorf("submit: got %v", err)
		}
		expect(t, back, taking{who: 0, err: queuefs.ErrFailed})
		if err := <-followed; !errors.Is(err, queuefs.ErrFailed) {
			t.Errorf("wait: got %v", err)
		}
		if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrFailed) {
			t.Errorf("next: got %v", err)
		}
		if s.Err() == nil {
			t.Error("the service does not know")
		}
		if err := s.Close(); err == nil {
			t.Error("close says that files and index are exact")
		}
	})
}

// TestOperationsOnOneJobTakeTurns has a second operation come while the first
// is on its way to storage.
func TestOperationsOnOneJobTakeTurns(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		var gate chan bool
		s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
			if step == "journal sync" && gate != nil {
				<-gate
			}
			return do()
		}})
		defer closeHome(t, s)
		submit(t, q, queuefs.Meta{}, "x")
		gate = make(chan bool)
		taken, deleted := make(chan error, 1), make(chan error, 1)
		go func() { _, err := q.Next(ctx, "w"); taken <- err }()
		synctest.Wait()
		if _, err := q.Next(ctx, "v"); !errors.Is(err, queuefs.ErrEmpty) {
			t.Errorf("the job is handed out: got %v", err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := q.Requeue(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("requeue: got %v", err)
		}
		go func() { _, err := q.Delete(ctx, 1); deleted <- err }()
		synctest.Wait()
		close(gate)
		if err := <-taken; err != nil {
			t.Errorf("next: got %v", err)
		}
		if err := <-deleted; !errors.Is(err, queuefs.ErrNotPending) {
			t.Errorf("delete: got %v", err)
		}
		if j, err := q.Requeue(ctx, 1); err != nil || j.Requeues != 1 {
			t.Errorf("requeue: got %+v, %v", j, err)
		}
	})
}
