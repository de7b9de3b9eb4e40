package queuefs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
)

// Culling leaves jobs to the repeated request of a consumer with a key, until the time for
// it or the work is over.
func TestAJobConsumedWithAKeyIsNotCulledWhileItMayBeAskedFor(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixMicro())
	o := queuefs.Options{Now: func() time.Time { return time.UnixMicro(now.Load()) }}
	dir := fastDir(t)
	s, q := openHome(t, dir, o)
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	take := func(want string) {
		t.Helper()
		taken, err := q.Take(ctx, queuefs.Take{Key: "k", Max: 2})
		if err != nil || takenIDs(taken) != want {
			t.Fatalf("got %v, %v", taken, err)
		}
	}
	none := func() {
		t.Helper()
		if got := cullQueue(t, s, "jobs"); len(got) > 0 {
			t.Fatalf("culled %v", got)
		}
	}
	take("1 2")
	none()
	take("1 2 again")
	closeHome(t, s)
	s, q = openHome(t, dir, o)
	none()
	take("1 2 again")
	now.Add((queuefs.KeyRemembered + time.Second).Microseconds())
	if got := cullQueue(t, s, "jobs"); len(got) != 2 {
		t.Errorf("culled %v", got)
	}
	taken, err := q.Take(ctx, queuefs.Take{Key: "other", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	none()
	if _, err := q.Conclude(ctx, taken[0].ID, taken[0].Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err != nil {
		t.Fatal(err)
	}
	if got := cullQueue(t, s, "jobs"); len(got) != 1 {
		t.Errorf("after the work: culled %v", got)
	}
	closeHome(t, s)
}
