package queuefs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

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
		set      func(*queuefs.QueueInfo)
		attempts []attempt
	}{
		{"by default", func(*queuefs.QueueInfo) {},
			[]attempt{{wait: 10 * time.Second}, {wait: 20 * time.Second}, {lapse: true}, {wait: 80 * time.Second}}},
		{"by the queue", func(i *queuefs.QueueInfo) {
			i.RetryDelay, i.RetryFactor, i.RetryMax, i.MaxAttempts = time.Second, 3, 5*time.Second, 5
		}, []attempt{{wait: time.Second}, {lapse: true, wait: 3 * time.Second}, {wait: 5 * time.Second}, {wait: 5 * time.Second}, {last: true}}},
		{"the last lapses", func(i *queuefs.QueueInfo) { i.MaxAttempts = 2 },
			[]attempt{{wait: 10 * time.Second}, {lapse: true, last: true}}},
		{"as the consumer says", func(i *queuefs.QueueInfo) { i.MaxAttempts = 3 },
			[]attempt{{retryIn: in(0)}, {retryIn: in(time.Hour), wait: time.Hour}, {retryIn: in(time.Hour), last: true}}},
		{"only one", func(i *queuefs.QueueInfo) { i.MaxAttempts = 1 }, []attempt{{last: true}}},
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
					_, err := q.Conclude(ctx, 1, j.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: fmt.Sprint("now ", n+1), Transient: true, RetryIn: a.retryIn})
					must(t, err)
				}
				want := []string{"pending " + message}
				switch {
				case a.last && a.lapse:
					want = []string{"consumed error", "transient", `message "lease expired, no attempts left"`}
				case a.last:
					want = []string{"consumed error", "transient", message}
				case a.wait > 0:
					want = []string{`pending held "waits for another attempt"`, "until " + queuefs.FormatTime(d.now().Add(a.wait)), message}
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
	s, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *queuefs.QueueInfo) { i.MaxAttempts = 2 })
	defer closeHome(t, s)
	fillQueue(t, q, 1, 1)
	for series := range 2 {
		for n := range 2 {
			j := takeOne(t, q, time.Minute)
			if j.Attempts != n+1 {
				t.Errorf("series %d: attempt %d, want %d", series, j.Attempts, n+1)
			}
			_, err := q.Conclude(ctx, 1, j.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Transient: true, RetryIn: new(time.Duration)})
			must(t, err)
		}
		if got := standing(t, q, 1); got != "consumed error; transient" {
			t.Errorf("got %s", got)
		}
		_, err := q.Requeue(ctx, 1)
		must(t, err)
	}
}

// TestFatalFailuresAreNotRetried reports a failure for good, with attempts left.
func TestFatalFailuresAreNotRetried(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Minute).Token
	second := time.Second
	for _, r := range []queuefs.Conclusion{
		{Outcome: queuefs.Failed, RetryIn: &second},
		{Outcome: queuefs.Failed, Transient: true, RetryIn: new(time.Duration(-1))},
		{Outcome: queuefs.Failed, Transient: true, RetryIn: new(queuefs.MaxLease + 1)},
		{Outcome: queuefs.Completed, RetryIn: &second},
	} {
		if _, err := q.Conclude(ctx, 1, token, r); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("%+v: got %v", r, err)
		}
	}
	_, err := q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no"})
	must(t, err)
	if got := standing(t, q, 1); got != `consumed error; message "no"` {
		t.Errorf("got %s", got)
	}
}
