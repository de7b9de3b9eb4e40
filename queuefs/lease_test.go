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
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A dial is a clock that stands still until it is turned.
type dial struct{ turned atomic.Int64 }

func (d *dial) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(d.turned.Load()))
}
func (d *dial) turn(by time.Duration) { d.turned.Add(int64(by)) }

// openWith opens a home whose queue has the settings.
func openWith(t testing.TB, dir string, o queuefs.Options, set func(*home.QueueInfo)) (*queuefs.Service, *queuefs.Queue) {
	t.Helper()
	s, q := openHome(t, dir, o)
	must(t, errOf(s.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { set(i); return nil })))
	return s, q
}

// TestLeaseEnds lets the time of a lease pass, on each kind of queue.
func TestLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		ack   job.Acknowledge
		lease time.Duration // of the queue
		most  int           // attempts
		asked time.Duration
		lasts time.Duration // 0: there is no lease
		ends  []string      // after each time it was handed out
	}{
		{"done when consumed", job.AckNone, time.Minute, 0, 0, 0, []string{"consumed"}},
		{"asked for", job.AckNone, time.Minute, 0, time.Hour, time.Hour, []string{"pending", "pending", "pending"}},
		{"required", job.AckRequired, time.Minute, 0, 0, time.Minute, []string{"pending", "pending"}},
		{"required, by default", job.AckRequired, 0, 0, 0, home.DefaultLease, []string{"pending"}},
		{"required, longer", job.AckRequired, time.Minute, 0, time.Hour, time.Hour, []string{"pending"}},
		{"no attempts left", job.AckRequired, time.Minute, 2, 0, time.Minute,
			[]string{"pending", `consumed error; transient; message "lease expired, no attempts left"`}},
		{"silence is success", job.AckTimeout, time.Minute, 2, 0, time.Minute, []string{`consumed completed; message "no report"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d dial
			dir := fastDir(t)
			s, q := openWith(t, dir, queuefs.Options{Now: d.now}, func(i *home.QueueInfo) {
				i.Acknowledge, i.Lease, i.MaxAttempts = c.ack, c.lease, c.most
			})
			submit(t, q, job.Meta{}, "x")
			for n, want := range c.ends {
				j := takeOne(t, q, c.asked)
				if j.Attempts != n+1 || (j.Token != "") != (c.lasts > 0) || c.lasts > 0 && !j.Lease.Ends.Equal(d.now().Add(c.lasts)) {
					t.Errorf("got attempt %d, token %q, lease %v", j.Attempts, j.Token, j.Lease)
				}
				text, _, err := q.JobFile(1, job.Consumed)
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
				wantErr(t, errOf(q.Conclude(ctx, 1, j.Token, job.Conclusion{Outcome: job.Completed})), queuefs.ErrLease, "late report")
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
	s, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *home.QueueInfo) {
		i.Acknowledge, i.Lease, i.MaxAttempts = job.AckRequired, time.Minute, 2
	})
	submit(t, q, job.Meta{}, "x")
	for n := range 4 {
		j := takeOne(t, q, 0)
		back := sure(q.Return(ctx, j.ID, j.Token, "not now"))(t)
		if back.Status != job.Pending || back.Outcome != 0 || back.Attempts != n+1 {
			t.Errorf("got %+v", back)
		}
	}
	takeOne(t, q, 0)
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	if j, err := q.Job(1); err != nil || j.Outcome != job.Failed || !j.Transient {
		t.Errorf("got %+v, %v", j, err)
	}
}

// waysToLeave are the ways a home is left, and may be opened again.
var waysToLeave = []string{"crash", "files", "checkpoint", "stop", "rebuild"}

// leave leaves a home in one of these ways, and returns the directory to open.
func leave(t *testing.T, how, dir string, s *queuefs.Service, d *dial) string {
	t.Helper()
	switch how {
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
	if how == "rebuild" {
		must(t, errOf(check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true, Now: d.now})))
	}
	return dir
}

// TestLeasesOutliveTheProcess ends leases after the home was opened again, in
// each way it can have been left.
func TestLeasesOutliveTheProcess(t *testing.T) {
	for _, left := range waysToLeave {
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
			must(t, errOf(q.Extend(ctx, 5, token, time.Hour)))
			dir = leave(t, left, dir, s, &d)
			s, q = openHome(t, dir, o)
			for _, step := range []struct {
				by     time.Duration
				leased []job.ID
			}{
				{0, []job.ID{1, 2, 3, 4, 5}},
				{2 * time.Minute, []job.ID{1, 2, 3, 5}},
				{2 * time.Minute, []job.ID{1, 5}},
				{time.Minute, []job.ID{5}},
			} {
				d.turn(step.by)
				must(t, s.Expire(ctx))
				if got := q.IDs(index.Filter{Status: job.Consumed}); !slices.Equal(got, step.leased) {
					t.Errorf("after %v more: got %v want %v", step.by, got, step.leased)
				}
				counted(t, q)
			}
			if _, err := q.Conclude(ctx, 5, token, job.Conclusion{Outcome: job.Completed}); err != nil {
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
				_, err = q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Completed, Message: fmt.Sprint(n)})
			case 1:
				_, err = q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Failed, Message: fmt.Sprint(n)})
			case 2:
				_, err = q.Return(ctx, 1, token, fmt.Sprint(n))
			default:
				_, err = q.Abort(ctx, 1, fmt.Sprint(n))
				if errors.Is(err, job.ErrConflict) {
					return
				}
				// What was returned is pending, and may be aborted as such.
				if err == nil {
					if j, _ := q.Job(1); j.Status == job.Deleted {
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
	done := map[job.ID]int{}
	var left atomic.Int64
	left.Store(jobs)
	ended, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			for k := 0; left.Load() > 0; k++ {
				taken, err := q.TakeWait(ended, queuefs.Take{By: fmt.Sprint(n), Max: 1 + n%3, Lease: time.Minute})
				if errors.Is(err, ledger.ErrEmpty) {
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
						if _, err = q.Conclude(ctx, j.ID, j.Token, job.Conclusion{Outcome: job.Completed}); err == nil {
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
		fillQueue(t, q, 2, 1)
		for id := job.ID(1); id <= 2; id++ {
			must(t, errOf(q.Hold(ctx, id, "")))
		}
		if j, err := q.Peek(); !errors.Is(err, ledger.ErrEmpty) {
			t.Errorf("peek: got %v, %v", j.ID, err)
		}
		back := make(chan taking, 10)
		wait(ctx, q, 0, 5, back)
		wait(ctx, q, 1, 1, back)
		expect(t, back)
		submit(t, q, job.Meta{}, "x")
		expect(t, back, taking{who: 0, jobs: []job.ID{3}})
		must(t, errOf(q.Release(ctx, 2)))
		expect(t, back, taking{who: 1, jobs: []job.ID{2}})
		pause := func(at time.Time) {
			t.Helper()
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Paused = at }))))
		}
		pause(time.Now())
		wait(ctx, q, 2, 1, back)
		must(t, errOf(q.Release(ctx, 1)))
		submit(t, q, job.Meta{}, "y")
		expect(t, back)
		wantErr(t, errOf(q.Next(ctx, "hasty")), ledger.ErrEmpty, "next of a paused queue")
		pause(time.Time{})
		expect(t, back, taking{who: 2, jobs: []job.ID{1}})
		takes(t, q, 4)
	})
}

func TestBadLeasesAreRefused(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	fillQueue(t, q, 1, 1)
	for _, d := range []time.Duration{-1, -time.Hour, home.MaxLease + 1} {
		wantErr(t, errOf(q.Take(ctx, queuefs.Take{Lease: d})), job.ErrBadName, "take for %v", d)
		wantErr(t, errOf(q.Extend(ctx, 1, "", d)), job.ErrBadName, "extend by %v", d)
	}
	j := takeOne(t, q, home.MaxLease)
	for _, r := range []job.Conclusion{
		{}, {Outcome: job.Aborted}, {Outcome: job.Completed, Transient: true}, {Outcome: 9},
		{Outcome: job.Failed, RetryIn: new(time.Second)},
		{Outcome: job.Failed, Transient: true, RetryIn: new(time.Duration(-1))},
		{Outcome: job.Failed, Transient: true, RetryIn: new(home.MaxLease + 1)},
		{Outcome: job.Completed, RetryIn: new(time.Second)},
	} {
		wantErr(t, errOf(q.Conclude(ctx, 1, j.Token, r)), job.ErrBadName, "%+v", r)
	}
	for _, token := range []string{"", "x", j.Token + "=", j.Token[:21], j.Lease.Key, strings.ToUpper(j.Token)} {
		wantErr(t, errOf(q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Completed})), queuefs.ErrLease, "token %q", token)
	}
	long := strings.Repeat("x", job.MaxMessage+1)
	wantErr(t, errOf(q.Conclude(ctx, 1, j.Token, job.Conclusion{Outcome: job.Failed, Message: long})), job.ErrTooBig, "long message")
	got, err := q.Conclude(ctx, 1, j.Token, job.Conclusion{Outcome: job.Failed, Message: "a\r\nb\x00\xff\t"})
	// It is for good, with attempts left.
	if want := "a\nb\uFFFD\uFFFD\t"; err != nil || got.Message != want || got.Status != job.Consumed || got.Transient {
		t.Errorf("got %+v, %v want %q", got, err, want)
	}
}

// TestExtendedByTheQueue extends leases without a time of their own: the queue has it,
// whether it wants reports or not.
func TestExtendedByTheQueue(t *testing.T) {
	for _, ack := range []job.Acknowledge{job.AckNone, job.AckRequired, job.AckTimeout} {
		for set10m, want := range map[time.Duration]time.Duration{0: home.DefaultLease, 10 * time.Minute: 10 * time.Minute} {
			clock := newClock()
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Acknowledge, i.Lease = ack, set10m }))))
			submit(t, q, job.Meta{}, "four")
			taken := sure(q.Take(ctx, queuefs.Take{By: "w", Lease: time.Minute}))(t)
			clock.forward(30 * time.Second)
			j, err := q.Extend(ctx, 1, taken[0].Token, 0)
			if got := j.Lease.Ends.Sub(clock.now()); err != nil || got != want {
				t.Errorf("%v, lease %v: extended by %v, %v; want %v", ack, set10m, got, err, want)
			}
			closeHome(t, s)
		}
	}
}

// An attempt of a job fails for now.
type attempt struct {
	lapse   bool // its lease ends without a report
	retryIn *time.Duration
	wait    time.Duration // until the next attempt
	last    bool
}

// TestAttemptsAreMade has each attempt of a job fail in its own way, until the last.
func TestAttemptsAreMade(t *testing.T) {
	in := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		name     string
		set      func(*home.QueueInfo)
		attempts []attempt
	}{
		{"by default", func(*home.QueueInfo) {},
			[]attempt{{wait: 10 * time.Second}, {wait: 20 * time.Second}, {lapse: true}, {wait: 80 * time.Second}}},
		{"by the queue", func(i *home.QueueInfo) {
			i.RetryDelay, i.RetryFactor, i.RetryMax, i.MaxAttempts = time.Second, 3, 5*time.Second, 5
		}, []attempt{{wait: time.Second}, {lapse: true, wait: 3 * time.Second}, {wait: 5 * time.Second}, {wait: 5 * time.Second}, {last: true}}},
		{"the last lapses", func(i *home.QueueInfo) { i.MaxAttempts = 2 },
			[]attempt{{wait: 10 * time.Second}, {lapse: true, last: true}}},
		{"as the consumer says", func(i *home.QueueInfo) { i.MaxAttempts = 3 },
			[]attempt{{retryIn: in(0)}, {retryIn: in(time.Hour), wait: time.Hour}, {retryIn: in(time.Hour), last: true}}},
		{"only one", func(i *home.QueueInfo) { i.MaxAttempts = 1 }, []attempt{{last: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var d dial
			dir := fastDir(t)
			s, q := openWith(t, dir, queuefs.Options{Now: d.now}, c.set)
			fillQueue(t, q, 1, 1)
			for n, a := range c.attempts {
				j := takeOne(t, q, time.Minute)
				if j.Attempts != n+1 || j.Message != "" {
					t.Errorf("attempt %d: got %+v", n+1, j)
				}
				message := fmt.Sprintf(`message "now %d"`, n+1)
				if a.lapse {
					d.turn(time.Minute)
					must(t, s.Expire(ctx))
					message = ""
				} else {
					_, err := q.Conclude(ctx, 1, j.Token, job.Conclusion{Outcome: job.Failed, Message: fmt.Sprint("now ", n+1), Transient: true, RetryIn: a.retryIn})
					must(t, err)
				}
				want := []string{"pending " + message}
				switch {
				case a.last && a.lapse:
					want = []string{"consumed error", "transient", `message "lease expired, no attempts left"`}
				case a.last:
					want = []string{"consumed error", "transient", message}
				case a.wait > 0:
					want = []string{`pending held "waits for another attempt"`, "until " + job.FormatTime(d.now().Add(a.wait)), message}
				}
				if got, want := standing(t, q, 1), strings.TrimRight(strings.Join(want, "; "), "; "); got != want {
					t.Errorf("after attempt %d: got %s want %s", n+1, got, want)
				}
				d.turn(a.wait)
				must(t, s.Expire(ctx))
			}
			everywhere(t, s, dir)
		})
	}
}

// TestARequeueGivesAllAttempts puts a job back that has used its attempts up.
func TestARequeueGivesAllAttempts(t *testing.T) {
	var d dial
	_, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *home.QueueInfo) { i.MaxAttempts = 2 })
	fillQueue(t, q, 1, 1)
	for series := range 2 {
		for n := range 2 {
			j := takeOne(t, q, time.Minute)
			if j.Attempts != n+1 {
				t.Errorf("series %d: attempt %d, want %d", series, j.Attempts, n+1)
			}
			_, err := q.Conclude(ctx, 1, j.Token, job.Conclusion{Outcome: job.Failed, Transient: true, RetryIn: new(time.Duration)})
			must(t, err)
		}
		if got := standing(t, q, 1); got != "consumed error; transient" {
			t.Errorf("got %s", got)
		}
		must(t, errOf(q.Requeue(ctx, 1)))
	}
}

// available returns the jobs to be taken now, in their order.
func available(t testing.TB, q *queuefs.Queue) (ids []job.ID) {
	t.Helper()
	jobs := sure(q.List(index.Filter{Status: job.Pending, Limit: 1000}))(t)
	for _, j := range jobs {
		if j.Held.IsZero() {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func TestHoldsEndByThemselves(t *testing.T) {
	var d dial
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: d.now})
	at := func(m int) time.Time { return d.now().Add(time.Duration(m) * time.Minute) }
	fillQueue(t, q, 3, 1)
	j, err := q.HoldUntil(ctx, 2, "why", at(10))
	if err != nil || j.HeldFor != "why" || !j.HeldUntil.Equal(at(10)) || j.Held.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	if j := submit(t, q, job.Meta{NotBefore: at(5)}, "x"); !j.HeldUntil.Equal(at(5)) || j.Held.IsZero() || j.HeldFor != "" {
		t.Errorf("got %+v", j)
	}
	if j := submit(t, q, job.Meta{NotBefore: at(-1)}, "x"); !j.HeldUntil.IsZero() || !j.Held.IsZero() {
		t.Errorf("not before a time in the past: got %+v", j)
	}
	if got := counted(t, q); got.Held != 2 {
		t.Errorf("got %d jobs on hold", got.Held)
	}
	seq := q.Seq()
	for _, past := range []time.Time{at(0), at(-1), time.Unix(1<<40, 0)} {
		if _, err := q.HoldUntil(ctx, 1, "", past); !errors.Is(err, job.ErrBadName) || q.Seq() != seq {
			t.Errorf("until %v: got %v", past, err)
		}
	}
	for _, step := range []struct {
		turn      time.Duration
		available []job.ID
		events    int
	}{
		{0, []job.ID{1, 3, 5}, 0},
		{5*time.Minute - time.Microsecond, []job.ID{1, 3, 5}, 0},
		{time.Microsecond, []job.ID{1, 3, 4, 5}, 1},
		{5 * time.Minute, []job.ID{1, 2, 3, 4, 5}, 1}, // in its old place
		{time.Hour, []job.ID{1, 2, 3, 4, 5}, 0},
	} {
		d.turn(step.turn)
		seq := q.Seq()
		must(t, s.Expire(ctx))
		if got := available(t, q); !slices.Equal(got, step.available) || int(q.Seq()-seq) != step.events {
			t.Errorf("after %v more: got %v by %d events, want %v", step.turn, got, q.Seq()-seq, step.available)
		}
		events := sure(q.Events(seq, 100))(t)
		for _, e := range events {
			if e.Kind != job.Release {
				t.Errorf("got %v", e.Kind)
			}
		}
	}
	everywhere(t, s, dir)
}

// TestTheEndOfAHoldChanges gives a job on hold another end, none, and one again.
func TestTheEndOfAHoldChanges(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	fillQueue(t, q, 1, 1)
	hold := func(until time.Time) {
		t.Helper()
		must(t, errOf(q.HoldUntil(ctx, 1, "", until)))
	}
	held := func(want bool) {
		t.Helper()
		must(t, s.Expire(ctx))
		if got := counted(t, q).Held == 1; got != want {
			t.Errorf("on hold: %v", got)
		}
	}
	start := d.now()
	hold(start.Add(time.Minute))
	seq := q.Seq()
	hold(start.Add(time.Minute))
	if q.Seq() != seq {
		t.Error("the same end was an event")
	}
	hold(start.Add(2 * time.Minute))
	d.turn(time.Minute)
	held(true)
	must(t, errOf(q.Hold(ctx, 1, "for good")))
	d.turn(time.Hour)
	held(true)
	hold(d.now().Add(time.Second))
	if j, err := q.Job(1); err != nil || j.HeldFor != "for good" || !j.Held.Before(start.Add(time.Second)) {
		t.Errorf("got %+v, %v", j, err)
	}
	d.turn(time.Second)
	held(false)
	hold(d.now().Add(time.Second))
	must(t, errOf(q.Release(ctx, 1)))
	hold(d.now().Add(time.Second))
	must(t, errOf(q.Delete(ctx, 1)))
	d.turn(time.Second)
	seq = q.Seq()
	must(t, s.Expire(ctx))
	if q.Seq() != seq {
		t.Error("a hold that was over ended again")
	}
}

// TestTheEndOfAHoldServesWhoWaits has a consumer wait for a job on hold.
func TestTheEndOfAHoldServesWhoWaits(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	submit(t, q, job.Meta{NotBefore: d.now().Add(time.Minute)}, "x")
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := q.NextWait(ctx, "w", 1)
		got <- err
	}()
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	must(t, <-got)
}

// TestHoldsOutliveTheProcess ends holds after the home was opened again, in each
// way it can have been left.
func TestHoldsOutliveTheProcess(t *testing.T) {
	for _, left := range waysToLeave {
		t.Run(left, func(t *testing.T) {
			var d dial
			dir := fastDir(t)
			o := queuefs.Options{Now: d.now}
			s, q := openHome(t, dir, o)
			fillQueue(t, q, 5, 1)
			for id := range job.ID(4) {
				_, err := q.HoldUntil(ctx, id+1, "", d.now().Add(time.Duration(5-id)*time.Minute)) // 4 ends first
				must(t, err)
			}
			must(t, errOf(q.HoldUntil(ctx, 3, "", d.now().Add(10*time.Minute))))
			must(t, errOf(q.Hold(ctx, 2, "")))
			dir = leave(t, left, dir, s, &d)
			s, q = openHome(t, dir, o)
			for _, step := range []struct {
				by        time.Duration
				available []job.ID
			}{
				{0, []job.ID{5}},
				{2 * time.Minute, []job.ID{4, 5}},
				{3 * time.Minute, []job.ID{1, 4, 5}},
				{5 * time.Minute, []job.ID{1, 3, 4, 5}},
				{time.Hour, []job.ID{1, 3, 4, 5}}, // 2 has no end
			} {
				d.turn(step.by)
				must(t, s.Expire(ctx))
				if got := available(t, q); !slices.Equal(got, step.available) {
					t.Errorf("after %v more: got %v want %v", step.by, got, step.available)
				}
				counted(t, q)
			}
			everywhere(t, s, dir)
		})
	}
}

// TestHoldsFollowTheClock sets the clock back, then far ahead: a hold ends when the
// clock shows its time.
func TestHoldsFollowTheClock(t *testing.T) {
	var d dial
	s, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *home.QueueInfo) { i.RetryDelay = time.Second })
	submit(t, q, job.Meta{NotBefore: d.now().Add(time.Hour)}, "x")
	d.turn(-24 * time.Hour)
	if j := submit(t, q, job.Meta{NotBefore: d.now().Add(time.Hour)}, "x"); j.HeldUntil.IsZero() {
		t.Errorf("before the time of the last event: got %+v", j)
	}
	submit(t, q, job.Meta{}, "x")
	taken := takeOne(t, q, time.Minute)
	j, err := q.Conclude(ctx, 3, taken.Token, job.Conclusion{Outcome: job.Failed, Transient: true})
	if err != nil || !j.HeldUntil.Equal(d.now().Add(time.Second)) {
		t.Errorf("got %+v, %v", j, err)
	}
	for _, step := range []struct {
		by        time.Duration
		available []job.ID
	}{{0, nil}, {time.Second, []job.ID{3}}, {time.Hour, []job.ID{2, 3}}, {365 * 24 * time.Hour, []job.ID{1, 2, 3}}} {
		d.turn(step.by)
		must(t, s.Expire(ctx))
		if got := available(t, q); !slices.Equal(got, step.available) {
			t.Errorf("after %v more: got %v want %v", step.by, got, step.available)
		}
	}
}

// TestManyHoldsEndAtOnce ends more holds than one batch of events has.
func TestManyHoldsEndAtOnce(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	const batches, each = 5, 500
	const n = batches * each
	for range batches {
		sub := q.Begin()
		for range each {
			must(t, errOf(sub.Add(job.Meta{})))
		}
		must(t, sub.NotBefore(d.now().Add(time.Minute)))
		must(t, errOf(sub.Commit(ctx)))
	}
	if got := counted(t, q); got.Held != n {
		t.Errorf("got %d on hold", got.Held)
	}
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	if got := counted(t, q); got.Held != 0 || q.Seq() != 2*n {
		t.Errorf("got %d on hold after %d events", got.Held, q.Seq())
	}
}
