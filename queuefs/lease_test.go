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
	"testing/synctest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/job"
)

// A dial is a clock that stands still until it is turned.
type dial struct{ turned atomic.Int64 }

func (d *dial) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(d.turned.Load()))
}
func (d *dial) turn(by time.Duration) { d.turned.Add(int64(by)) }

// openWith opens a home whose queue has the settings.
func openWith(t testing.TB, dir string, o queuefs.Options, set func(*queuefs.QueueInfo)) (*queuefs.Service, *queuefs.Queue) {
	t.Helper()
	s, q := openHome(t, dir, o)
	_, err := s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { set(i); return nil })
	must(t, err)
	return s, q
}

// TestLeaseEnds lets the time of a lease pass, on each kind of queue.
func TestLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		ack   queuefs.Acknowledge
		lease time.Duration // of the queue
		most  int           // attempts
		asked time.Duration
		lasts time.Duration // 0: there is no lease
		ends  []string      // after each time it was handed out
	}{
		{"done when consumed", queuefs.AckNone, time.Minute, 0, 0, 0, []string{"consumed"}},
		{"asked for", queuefs.AckNone, time.Minute, 0, time.Hour, time.Hour, []string{"pending", "pending", "pending"}},
		{"required", queuefs.AckRequired, time.Minute, 0, 0, time.Minute, []string{"pending", "pending"}},
		{"required, by default", queuefs.AckRequired, 0, 0, 0, queuefs.DefaultLease, []string{"pending"}},
		{"required, longer", queuefs.AckRequired, time.Minute, 0, time.Hour, time.Hour, []string{"pending"}},
		{"no attempts left", queuefs.AckRequired, time.Minute, 2, 0, time.Minute,
			[]string{"pending", `consumed error; transient; message "lease expired, no attempts left"`}},
		{"silence is success", queuefs.AckTimeout, time.Minute, 2, 0, time.Minute, []string{`consumed completed; message "no report"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d dial
			dir := fastDir(t)
			s, q := openWith(t, dir, queuefs.Options{Now: d.now}, func(i *queuefs.QueueInfo) {
				i.Acknowledge, i.Lease, i.MaxAttempts = c.ack, c.lease, c.most
			})
			submit(t, q, queuefs.Meta{}, "x")
			for n, want := range c.ends {
				j := takeOne(t, q, c.asked)
				if j.Attempts != n+1 || (j.Token != "") != (c.lasts > 0) || c.lasts > 0 && !j.Lease.Ends.Equal(d.now().Add(c.lasts)) {
					t.Errorf("got attempt %d, token %q, lease %v", j.Attempts, j.Token, j.Lease)
				}
				text, _, err := q.JobFile(1, queuefs.Consumed)
				must(t, err)
				if j.Token != "" && (len(j.Token) != 22 || strings.Contains(string(text), j.Token)) {
					t.Errorf("token %q stands in %s", j.Token, text)
				}
				d.turn(c.lasts - time.Microsecond)
				seq := q.Seq()
				must(t, s.Expire(ctx))
				if q.Seq() != seq {
					t.Error("the lease ended early")
				}
				d.turn(time.Microsecond)
				if _, err := q.Conclude(ctx, 1, j.Token, queuefs.Conclusion{Outcome: queuefs.Completed}); !errors.Is(err, queuefs.ErrLease) {
					t.Errorf("late report: got %v", err)
				}
				must(t, s.Expire(ctx))
				if got := standing(t, q, 1); got != want {
					t.Errorf("got %s want %s", got, want)
				}
				seq = q.Seq()
				must(t, s.Expire(ctx))
				if _, err := q.Extend(ctx, 1, j.Token, 0); !errors.Is(err, queuefs.ErrLease) || q.Seq() != seq {
					t.Errorf("heartbeat too late: got %v, %d events", err, q.Seq()-seq)
				}
			}
			everywhere(t, s, dir)
		})
	}
}

// TestGivenBackIsNoFailure gives a job back more often than it may be attempted,
// then says no more of it.
func TestGivenBackIsNoFailure(t *testing.T) {
	var d dial
	s, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *queuefs.QueueInfo) {
		i.Acknowledge, i.Lease, i.MaxAttempts = queuefs.AckRequired, time.Minute, 2
	})
	submit(t, q, queuefs.Meta{}, "x")
	for n := range 4 {
		j := takeOne(t, q, 0)
		back, err := q.Return(ctx, j.ID, j.Token, "not now")
		must(t, err)
		if back.Status != queuefs.Pending || back.Outcome != 0 || back.Attempts != n+1 {
			t.Errorf("got %+v", back)
		}
	}
	takeOne(t, q, 0)
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	if j, err := q.Job(1); err != nil || j.Outcome != queuefs.Failed || !j.Transient {
		t.Errorf("got %+v, %v", j, err)
	}
}

// TestLeasesOutliveTheProcess ends leases after the home was opened again, in
// each way it can have been left.
func TestLeasesOutliveTheProcess(t *testing.T) {
	for _, left := range []string{"crash", "files", "checkpoint", "stop", "rebuild"} {
		t.Run(left, func(t *testing.T) {
			var d dial
			dir := fastDir(t)
			o := queuefs.Options{Now: d.now}
			s, q := openHome(t, dir, o)
			fillQueue(t, q, 6, 1)
			var token string
			for n := range 5 {
				token = takeOne(t, q, time.Duration(5-n)*time.Minute).Token // 5 ends first
			}
			if _, err := q.Extend(ctx, 4, token, time.Hour); !errors.Is(err, queuefs.ErrLease) {
				t.Fatalf("extended with the token of another: %v", err)
			}
			_, err := q.Extend(ctx, 5, token, time.Hour)
			must(t, err)
			switch left {
			case "crash":
				dir = copyHome(t, dir)
			case "files":
				d.turn(time.Second) // the burst is over
				must(t, s.Maintain(ctx))
				dir = copyHome(t, dir)
			case "checkpoint":
				must(t, s.Checkpoint(ctx))
				dir = copyHome(t, dir)
			}
			closeHome(t, s)
			if left == "rebuild" {
				_, err := check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true, Now: d.now})
				must(t, err)
			}
			s, q = openHome(t, dir, o)
			for _, step := range []struct {
				by     time.Duration
				leased []queuefs.JobID
			}{
				{0, []queuefs.JobID{1, 2, 3, 4, 5}},
				{2 * time.Minute, []queuefs.JobID{1, 2, 3, 5}},
				{2 * time.Minute, []queuefs.JobID{1, 5}},
				{time.Minute, []queuefs.JobID{5}},
			} {
				d.turn(step.by)
				must(t, s.Expire(ctx))
				if got := q.IDs(queuefs.ListOptions{Status: queuefs.Consumed}); !slices.Equal(got, step.leased) {
					t.Errorf("after %v more: got %v want %v", step.by, got, step.leased)
				}
				counted(t, q)
			}
			if _, err := q.Conclude(ctx, 5, token, queuefs.Conclusion{Outcome: queuefs.Completed}); err != nil {
				t.Errorf("conclude: %v", err)
			}
			d.turn(24 * time.Hour)
			seq := q.Seq()
			must(t, s.Expire(ctx))
			if q.Seq() != seq {
				t.Error("a lease that was given up ended again")
			}
			everywhere(t, s, dir)
		})
	}
}

// TestReportsAreHeardOnce has many report on one job: one is heard.
func TestReportsAreHeardOnce(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	var heard atomic.Int64
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			var err error
			switch n % 4 {
			case 0:
				_, err = q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Completed, Message: fmt.Sprint(n)})
			case 1:
				_, err = q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: fmt.Sprint(n)})
			case 2:
				_, err = q.Return(ctx, 1, token, fmt.Sprint(n))
			default:
				_, err = q.Abort(ctx, 1, fmt.Sprint(n))
				if errors.Is(err, queuefs.ErrConflict) {
					return
				}
				// What was returned is pending, and may be aborted as such.
				if err == nil {
					if j, _ := q.Job(1); j.Status == queuefs.Deleted {
						return
					}
				}
			}
			if err == nil {
				heard.Add(1)
			} else if !errors.Is(err, queuefs.ErrLease) {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if heard.Load() != 1 {
		t.Errorf("%d reports were heard", heard.Load())
	}
	everywhere(t, s, dir)
}

// TestWorkersAtOnce has 100 workers take jobs with leases that end under them,
// extend, report and return: no job is held by two at a time, and each that was
// concluded was concluded once.
func TestWorkersAtOnce(t *testing.T) {
	const workers, jobs = 100, 300
	var d dial
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: d.now})
	fillQueue(t, q, jobs, 1)
	var mu sync.Mutex
	done := map[queuefs.JobID]int{}
	var left atomic.Int64
	left.Store(jobs)
	ended, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			for k := 0; left.Load() > 0; k++ {
				taken, err := q.TakeWait(ended, queuefs.Take{By: fmt.Sprint(n), Max: 1 + n%3, Lease: time.Minute})
				if errors.Is(err, queuefs.ErrEmpty) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for i, j := range taken {
					switch (n + k + i) % 5 {
					case 0:
						continue // silent
					case 1:
						_, err = q.Return(ctx, j.ID, j.Token, "")
					case 2:
						if _, err = q.Extend(ctx, j.ID, j.Token, time.Hour); err != nil {
							break
						}
						fallthrough
					default:
						if _, err = q.Conclude(ctx, j.ID, j.Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err == nil {
							mu.Lock()
							done[j.ID]++
							mu.Unlock()
							if left.Add(-1) == 0 {
								stop()
							}
						}
					}
					if err != nil && !errors.Is(err, queuefs.ErrLease) {
						t.Error(err)
					}
				}
				if n == 0 || len(taken) == 3 {
					d.turn(20 * time.Second)
				}
			}
		})
	}
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for ended.Err() == nil {
			d.turn(time.Second)
			if err := s.Expire(ctx); err != nil {
				t.Error(err)
				return
			}
			s.Maintain(ctx)
		}
	})
	wg.Wait()
	stop()
	keeper.Wait()
	for id, n := range done {
		if n != 1 {
			t.Errorf("%v was concluded %d times", id, n)
		}
	}
	st := counted(t, q)
	if len(done) != jobs || st.Consumed != jobs || st.Leased+st.Pending != 0 {
		t.Errorf("%d of %d concluded, state %+v", len(done), jobs, st)
	}
	everywhere(t, s, dir)
}

// TestWaitersPassOverHeldJobs has consumers wait beside jobs that are on hold
// and at a queue that is paused.
func TestWaitersPassOverHeldJobs(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		defer closeHome(t, s)
		fillQueue(t, q, 2, 1)
		for id := queuefs.JobID(1); id <= 2; id++ {
			_, err := q.Hold(ctx, id, "")
			must(t, err)
		}
		if j, err := q.Peek(); !errors.Is(err, queuefs.ErrEmpty) {
			t.Errorf("peek: got %v, %v", j.ID, err)
		}
		back := make(chan taking, 10)
		wait(ctx, q, 0, 5, back)
		wait(ctx, q, 1, 1, back)
		expect(t, back)
		submit(t, q, queuefs.Meta{}, "x")
		expect(t, back, taking{who: 0, jobs: []queuefs.JobID{3}})
		_, err := q.Release(ctx, 2)
		must(t, err)
		expect(t, back, taking{who: 1, jobs: []queuefs.JobID{2}})
		pause := func(at time.Time) {
			t.Helper()
			_, err := s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Paused = at; return nil })
			must(t, err)
		}
		pause(time.Now())
		wait(ctx, q, 2, 1, back)
		_, err = q.Release(ctx, 1)
		must(t, err)
		submit(t, q, queuefs.Meta{}, "y")
		expect(t, back)
		if _, err := q.Next(ctx, "hasty"); !errors.Is(err, queuefs.ErrEmpty) {
			t.Errorf("next of a paused queue: got %v", err)
		}
		pause(time.Time{})
		expect(t, back, taking{who: 2, jobs: []queuefs.JobID{1}})
		if j, err := q.Next(ctx, "w"); err != nil || j.ID != 4 {
			t.Errorf("got %v, %v", j.ID, err)
		}
	})
}

func TestBadLeasesAreRefused(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	fillQueue(t, q, 1, 1)
	for _, d := range []time.Duration{-1, -time.Hour, queuefs.MaxLease + 1} {
		if _, err := q.Take(ctx, queuefs.Take{Lease: d}); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("take for %v: got %v", d, err)
		}
		if _, err := q.Extend(ctx, 1, "", d); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("extend by %v: got %v", d, err)
		}
	}
	j := takeOne(t, q, queuefs.MaxLease)
	for _, r := range []queuefs.Conclusion{{}, {Outcome: queuefs.Aborted}, {Outcome: queuefs.Completed, Transient: true}, {Outcome: 9}} {
		if _, err := q.Conclude(ctx, 1, j.Token, r); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("%+v: got %v", r, err)
		}
	}
	for _, token := range []string{"", "x", j.Token + "=", j.Token[:21], j.Lease.Key, strings.ToUpper(j.Token)} {
		if _, err := q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Completed}); !errors.Is(err, queuefs.ErrLease) {
			t.Errorf("token %q: got %v", token, err)
		}
	}
	long := strings.Repeat("x", job.MaxMessage+1)
	if _, err := q.Conclude(ctx, 1, j.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: long}); !errors.Is(err, queuefs.ErrTooBig) {
		t.Errorf("long message: got %v", err)
	}
	got, err := q.Conclude(ctx, 1, j.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "a\r\nb\x00\xff\t"})
	if want := "a\nb\uFFFD\uFFFD\t"; err != nil || got.Message != want {
		t.Errorf("got %q, %v want %q", got.Message, err, want)
	}
}

// TestExtendedByTheQueue extends leases without a time of their own: the queue has it,
// whether it wants reports or not.
func TestExtendedByTheQueue(t *testing.T) {
	for _, ack := range []queuefs.Acknowledge{queuefs.AckNone, queuefs.AckRequired, queuefs.AckTimeout} {
		for set10m, want := range map[time.Duration]time.Duration{0: queuefs.DefaultLease, 10 * time.Minute: 10 * time.Minute} {
			clock := newClock()
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Acknowledge, i.Lease = ack, set10m })); err != nil {
				t.Fatal(err)
			}
			submit(t, q, queuefs.Meta{}, "four")
			taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			clock.forward(30 * time.Second)
			j, err := q.Extend(ctx, 1, taken[0].Token, 0)
			if got := j.Lease.Ends.Sub(clock.now()); err != nil || got != want {
				t.Errorf("%v, lease %v: extended by %v, %v; want %v", ack, set10m, got, err, want)
			}
			closeHome(t, s)
		}
	}
}
