package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// setClock is a clock that stands until it is moved.
type setClock struct{ us atomic.Int64 }

func newClock() *setClock {
	c := &setClock{}
	c.us.Store(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *setClock) now() time.Time          { return time.UnixMicro(c.us.Load()).UTC() }
func (c *setClock) forward(d time.Duration) { c.us.Add(d.Microseconds()) }

// culled gathers what Cull gives.
func culled(t testing.TB, s *queuefs.Service, o queuefs.CullOptions) (all []queuefs.Culled) {
	t.Helper()
	for c, err := range s.Cull(ctx, o) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestThresholdsOfCulling has jobs 1 to 8, processed an hour from each other in
// the order 2 4 6 8 1 3, the even ones consumed, and 5 and 7 pending.
func TestThresholdsOfCulling(t *testing.T) {
	for _, tt := range []struct {
		size, age int64
		later     time.Duration // after the last one was processed
		want      []queuefs.JobID
	}{
		{-1, -1, 1000 * time.Hour, nil},
		{-1, 1, 1000 * time.Hour, nil}, // the age alone culls nothing
		{6, 0, time.Hour, nil},
		{5, 0, 0, []queuefs.JobID{2}},
		{5, -1, 0, []queuefs.JobID{2}},
		{2, 0, 0, []queuefs.JobID{2, 4, 6, 8}},
		{0, 0, 0, []queuefs.JobID{2, 4, 6, 8, 1, 3}},
		{6, 1, 1000 * time.Hour, nil},                               // not more than the size
		{5, 3, 0, []queuefs.JobID{2, 4}},                            // 2 and 4 hours more than 3 ago, also below the size
		{5, 1, 1000 * time.Hour, []queuefs.JobID{2, 4, 6, 8, 1, 3}}, // all, not only one
		{0, 720, 719 * time.Hour, []queuefs.JobID{2, 4, 6, 8}},      // 30 days
		{0, 5, 0, nil},                                              // the oldest is just as old
		{0, 2_562_047, 1000 * time.Hour, nil},                       // beyond all dates
		{0, 4, time.Millisecond, []queuefs.JobID{2, 4}},
	} {
		t.Run(fmt.Sprintf("%d %d %v", tt.size, tt.age, tt.later), func(t *testing.T) {
			clock := newClock()
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Now: clock.now})
			for range 8 {
				submit(t, q, queuefs.Meta{}, "four")
			}
			var all []queuefs.Culled
			for i, id := range []queuefs.JobID{2, 4, 6, 8, 1, 3} {
				if i > 0 {
					clock.forward(time.Hour)
				}
				j, err := q.Delete(ctx, id)
				if id%2 == 0 && err == nil {
					if _, err = q.Requeue(ctx, id); err == nil {
						for _, held := range q.IDs(queuefs.ListOptions{Status: queuefs.Pending}) {
							if held < id {
								_, err = q.Hold(ctx, held, "not yet")
							}
						}
						if err == nil {
							j, err = q.Next(ctx, "w")
						}
						for _, held := range q.IDs(queuefs.ListOptions{Status: queuefs.Pending}) {
							if held < id && err == nil {
								_, err = q.Release(ctx, held)
							}
						}
					}
				}
				if err != nil || j.ID != id {
					t.Fatalf("%v: %v, %v", id, j.ID, err)
				}
				_, at := q.Status(id)
				all = append(all, queuefs.Culled{Queue: "jobs", Job: id, Status: j.Status, At: at, Size: 4})
			}
			clock.forward(tt.later)
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = tt.size, tt.age })); err != nil {
				t.Fatal(err)
			}
			var want []queuefs.Culled
			for _, id := range tt.want {
				want = append(want, all[slices.IndexFunc(all, func(c queuefs.Culled) bool { return c.Job == id })])
			}
			before, seq := observe(t, s), q.Seq()
			if got := culled(t, s, queuefs.CullOptions{Dry: true}); !slices.Equal(got, want) {
				t.Errorf("dry: got %v\nwant %v", got, want)
			}
			if d := before.difference(observe(t, s)); d != "" || q.Seq() != seq {
				t.Errorf("dry: %s", d)
			}
			if got := culled(t, s, queuefs.CullOptions{}); !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			after := before.clone()
			for _, id := range tt.want {
				delete(after["jobs"].byID, id)
			}
			if d := after.difference(observe(t, s)); d != "" {
				t.Error(d)
			}
			if got := culled(t, s, queuefs.CullOptions{Queue: "jobs"}); len(got) > 0 {
				t.Errorf("again: got %v", got)
			}
			crashed := copyHome(t, dir)
			closeHome(t, s)
			for _, dir := range []string{crashed, dir} {
				s, q := openHome(t, dir, queuefs.Options{Now: clock.now})
				if d := after.difference(observe(t, s)); d != "" {
					t.Errorf("reopened: %s", d)
				}
				if st := q.State(); st.Pending+st.Consumed+st.Deleted != int64(8-len(want)) || st.Seq != seq+queuefs.Seq(len(want)) {
					t.Errorf("reopened: got %+v", st)
				}
				closeHome(t, s)
				r, err := check.Home(dir, check.Options{Segment: segmentSize, Now: clock.now})
				if err != nil || len(r.Problems)+len(r.Mended) > 0 || r.Jobs != 8-len(want) {
					t.Errorf("check: %v, %+v", err, r)
				}
			}
		})
	}
}

func TestACulledJobIsGone(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{MediaType: "text/plain"}, "small")
	submit(t, q, queuefs.Meta{}, strings.Repeat("large", 50_000))
	if _, err := q.NextN(ctx, "w", 2); err != nil {
		t.Fatal(err)
	}
	open, err := q.Payload(2)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := q.Events(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []queuefs.JobID{1, 2}) {
		t.Fatalf("culled %v", got)
	}
	for id := queuefs.JobID(1); id <= 2; id++ {
		_, e1 := q.Job(id)
		_, e2 := q.Payload(id)
		_, _, e3 := q.JobFile(id, queuefs.Consumed)
		_, e4 := q.Requeue(ctx, id)
		_, e5 := q.Delete(ctx, id)
		for i, err := range []error{e1, e2, e3, e4, e5} {
			if !errors.Is(err, queuefs.ErrNoJob) {
				t.Errorf("%v: %d: got %v", id, i, err)
			}
		}
		if _, there := q.Entry(id); there {
			t.Errorf("%v has an entry", id)
		}
	}
	var b strings.Builder
	if n, err := open.WriteTo(&b); err != nil || n != 250_000 {
		t.Errorf("open payload: %d octets, %v", n, err)
	}
	events, err := q.Events(5, 0) // after that of the properties
	if err != nil || len(events) != 2 {
		t.Fatalf("got %+v, %v", events, err)
	}
	for i, e := range events {
		if e.Kind != queuefs.Cull || e.Seq != queuefs.Seq(6+i) || e.Job != queuefs.JobID(1+i) || e.From != queuefs.Consumed || e.To != 0 ||
			e.Payload != before[i].Payload || e.File.Length != 0 {
			t.Errorf("got %+v", e)
		}
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); got != "jobs/queue-info.txt" {
		t.Errorf("files: got\n%s", got)
	}
	closeHome(t, s)
}

func TestAJobWithALeaseIsNotCulled(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	taken, err := q.Take(ctx, queuefs.Take{Max: 2, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []queuefs.JobID{3}) {
		t.Errorf("culled %v, want 3", got)
	}
	if _, err := q.Conclude(ctx, 2, taken[1].Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err != nil {
		t.Fatal(err)
	}
	if got := cullQueue(t, s, "jobs"); !slices.Equal(got, []queuefs.JobID{2}) {
		t.Errorf("culled %v, want 2", got)
	}
}

// TestCullingBesideOtherWork culls while jobs are submitted, taken, and
// requeued: what was requeued in time stays, and nothing is in between.
func TestCullingBesideOtherWork(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f := newFollower(t)
	f.follow(s)
	cullQueue(t, s, "jobs")
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var gone sync.Map
	wg.Go(func() {
		for work.Err() == nil {
			for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				if err != nil {
					t.Error(err)
					return
				}
				gone.Store(c.Job, true)
			}
		}
	})
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 100 {
				submit(t, q, queuefs.Meta{}, "x")
				j, err := q.Next(ctx, "w")
				if err != nil {
					continue // another was faster
				}
				if j, err = q.Requeue(ctx, j.ID); err != nil && !errors.Is(err, queuefs.ErrNoJob) {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	stop()
	wg.Wait()
	f.check(q)
	want := observe(t, s)
	for id := range want["jobs"].byID {
		if _, was := gone.Load(id); was {
			t.Errorf("%v was culled, and is there", id)
		}
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		s, _ := openHome(t, dir, queuefs.Options{})
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		closeHome(t, s)
	}
}

func TestCullingStopsWhenAskedTo(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{}, "x")
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize = 0 })); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	for _, tt := range []struct {
		ctx   context.Context
		queue string
		err   error
	}{{ended, "", context.Canceled}, {ctx, "none", queuefs.ErrNoQueue}} {
		n := 0
		for c, err := range s.Cull(tt.ctx, queuefs.CullOptions{Queue: tt.queue}) {
			if n++; !errors.Is(err, tt.err) || c != (queuefs.Culled{}) {
				t.Errorf("got %v, %v want %v", c, err, tt.err)
			}
		}
		if n != 1 {
			t.Errorf("%v: told %d times", tt.err, n)
		}
	}
	if st := q.State(); st.Consumed != 1 {
		t.Errorf("got %+v", st)
	}
}

// TestCullsAtOnce has several callers cull a queue at the same time: together they leave
// as many processed jobs as it keeps.
func TestCullsAtOnce(t *testing.T) {
	const size, more, callers = 20, 40, 4
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize = size })); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		for range more {
			submit(t, q, queuefs.Meta{}, "four")
		}
		if round == 0 {
			for range size {
				submit(t, q, queuefs.Meta{}, "four")
			}
		}
		if _, err := q.NextN(ctx, "w", more+size); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := len(q.IDs(queuefs.ListOptions{Status: queuefs.Consumed})); n != size {
			t.Fatalf("round %d: %d processed jobs, want %d", round, n, size)
		}
	}
	closeHome(t, s)
}
