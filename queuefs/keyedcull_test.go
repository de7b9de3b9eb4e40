package queuefs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/keys"
)

// A job consumed with a key is there for the same request once more: it would be lost with
// its answer else, and the request would take another one.
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
	now.Add((keys.Remembered + time.Second).Microseconds())
	if got := cullQueue(t, s, "jobs"); len(got) != 2 {
		t.Errorf("culled %v", got)
	}
	closeHome(t, s)
}
