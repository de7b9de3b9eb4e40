package queuefs_test

import (
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
)

// TestWhatIsOnItsWayIsNotCulled takes jobs whose payloads are to be read, and culls
// before they have been.
func TestWhatIsOnItsWayIsNotCulled(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	large := strings.Repeat("payload ", 100<<10)
	for _, payload := range []string{large, "small", large} {
		submit(t, q, queuefs.Meta{}, payload)
	}
	cull := func(want ...queuefs.JobID) {
		t.Helper()
		o := queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}
		var ids []queuefs.JobID
		for _, c := range culled(t, s, o) {
			ids = append(ids, c.Job)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("culled %v, want %v", ids, want)
		}
		if kept, err := s.Kept(ctx, o); err != nil || len(kept) > 0 {
			t.Errorf("got %v, %v", kept, err)
		}
	}
	take := func(n int) []queuefs.Taken {
		t.Helper()
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: n, Keep: true})
		if err != nil || len(taken) != n {
			t.Fatalf("took %d, %v", len(taken), err)
		}
		return taken
	}
	first := take(3)
	cull(2) // which is at hand
	if _, err := q.Requeue(ctx, 1); err != nil {
		t.Fatal(err)
	}
	second := take(1)
	cull()
	q.Given(first)
	cull(3)
	q.Given(second)
	cull(1)

	// Who does not ask for it keeps nothing.
	submit(t, q, queuefs.Meta{}, large)
	if _, err := q.Take(ctx, queuefs.Take{By: "w"}); err != nil {
		t.Fatal(err)
	}
	cull(4)
	closeHome(t, s)
}
