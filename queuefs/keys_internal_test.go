package queuefs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs/job"
)

var errGateClosed = errors.New("stopped")

// gateSleep is as that of a gate that closes with stopped.
func gateSleep(stopped <-chan struct{}) func(context.Context, <-chan struct{}) error {
	return func(ctx context.Context, wake <-chan struct{}) error {
		select {
		case <-wake:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-stopped:
			return errGateClosed
		}
	}
}

// TestOneRequestAtATimeHasAKey has many requests with several keys in any order, and no
// two of them with one key at the same time.
func TestOneRequestAtATimeHasAKey(t *testing.T) {
	var (
		c    keyClaims
		all  sync.WaitGroup
		busy [4]atomic.Int32
		done atomic.Int32
	)
	for n := range 200 {
		all.Go(func() {
			sums := []job.KeySum{job.KeySum(1 + n%4), job.KeySum(1 + (n+1+n%3)%4)}
			release, err := c.claim(t.Context(), sums, gateSleep(nil))
			if err != nil {
				t.Error(err)
				return
			}
			for _, k := range sums {
				if busy[k-1].Add(1) != 1 {
					t.Errorf("key %d is claimed twice", k)
				}
			}
			for _, k := range sums {
				busy[k-1].Add(-1)
			}
			done.Add(1)
			release()
		})
	}
	all.Wait()
	if done.Load() != 200 {
		t.Errorf("%d requests came through", done.Load())
	}
}

func TestAWaitForAKeyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c keyClaims
		first, err := c.claim(t.Context(), []job.KeySum{1, 2}, gateSleep(nil))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = c.claim(t.Context(), []job.KeySum{2, 3}, gateSleep(nil))
		if waited := time.Since(start); !errors.Is(err, ErrKeyBusy) || waited != keyWait {
			t.Errorf("got %v after %v", err, waited)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.claim(short, []job.KeySum{1}, gateSleep(nil)); !errors.Is(err, ErrKeyBusy) {
			t.Errorf("at the end of its time: got %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err = c.claim(gone, []job.KeySum{1}, gateSleep(nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that has gone: got %v", err)
		}
		stopped := make(chan struct{})
		close(stopped)
		if _, err = c.claim(t.Context(), []job.KeySum{1}, gateSleep(stopped)); err != errGateClosed {
			t.Errorf("of a stopped service: got %v", err)
		}
		// 3 was never claimed.
		third, err := c.claim(t.Context(), []job.KeySum{3}, gateSleep(nil))
		if err != nil {
			t.Fatal(err)
		}
		third()
		first()
		again, err := c.claim(t.Context(), []job.KeySum{1, 2, 3}, gateSleep(nil))
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}

func at(s int) time.Time { return time.UnixMicro(1e15).UTC().Add(time.Duration(s) * time.Second) }

func wantJobs(t *testing.T, x *keyTakes, key, want string) {
	t.Helper()
	if got := fmt.Sprint(x.with(key)); got != want {
		t.Errorf("key %s: got %s, want %s", key, got, want)
	}
}

// Changes come in after their commit, so a requeue may come in after the take that
// followed it.
func TestALateChangeForgetsNoLaterTake(t *testing.T) {
	var x keyTakes
	pending := func(seq job.Seq) *job.Job { return &job.Job{ID: 1, Seq: seq, Status: job.Pending} }
	taken := func(seq job.Seq) *job.Job {
		return &job.Job{ID: 1, Seq: seq, Status: job.Consumed, ConsumerKey: "a", Consumed: at(int(seq)), Lease: job.Lease{Ends: at(100)}}
	}
	x.follow(pending(1), taken(2))
	x.follow(pending(3), taken(4))
	x.follow(taken(2), pending(3))
	wantJobs(t, &x, "a", "[j000000000001]")
	x.follow(taken(4), taken(5)) // the lease is extended
	x.follow(taken(5), pending(6))
	wantJobs(t, &x, "a", "[]")
}

func TestTakesAreRememberedForATime(t *testing.T) {
	var x keyTakes
	none := func(id job.ID) *job.Job { return &job.Job{ID: id} }
	take := func(id job.ID, key string, s int, lease time.Time) *job.Job {
		j := &job.Job{ID: id, Status: job.Consumed, ConsumerKey: key, Consumed: at(s), Lease: job.Lease{Ends: lease}}
		x.follow(none(id), j)
		return j
	}
	take(2, "a", 0, time.Time{})
	take(1, "a", 0, time.Time{})
	b := take(3, "b", 0, at(100))
	take(4, "c", 0, at(100))
	take(5, "", 0, at(100))
	wantJobs(t, &x, "a", "[j000000000001 j000000000002]")
	wantJobs(t, &x, "b", "[j000000000003]")
	wantJobs(t, &x, "", "[]")

	longer := *b
	longer.Lease.Ends = at(500)
	x.follow(b, &longer)
	take(6, "d", 200, at(201))
	wantJobs(t, &x, "b", "[j000000000003]")
	wantJobs(t, &x, "c", "[]") // its lease is over
	wantJobs(t, &x, "a", "[j000000000001 j000000000002]")
	take(7, "e", 300, at(301))
	wantJobs(t, &x, "a", "[]") // after five minutes

	done := longer
	done.ConsumerKey = ""
	x.follow(&longer, &done)
	wantJobs(t, &x, "b", "[]")

	// The key is free again, and has none of the jobs of before.
	take(8, "a", 400, time.Time{})
	wantJobs(t, &x, "a", "[j000000000008]")
	take(9, "a", 900, time.Time{})
	wantJobs(t, &x, "a", "[j000000000009]")
}
