package queuefs_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

// TestThresholdsOfACall culls a queue that has none of its own, and one whose
// own would take more.
func TestThresholdsOfACall(t *testing.T) {
	for _, own := range []int64{-1, 0} {
		clock := newClock()
		s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
		_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = own, own }))
		must(t, err)
		for range 6 {
			submit(t, q, queuefs.Meta{}, "x")
			_, err := q.Next(ctx, "w")
			must(t, err)
			clock.forward(time.Hour)
		}
		for _, tt := range []struct {
			keep queuefs.Thresholds
			want []queuefs.JobID
		}{
			{queuefs.Thresholds{Size: 6}, nil},
			{queuefs.Thresholds{Size: 5}, []queuefs.JobID{1}},
			{queuefs.Thresholds{Age: 4}, []queuefs.JobID{2}},
			{queuefs.Thresholds{Size: 4, Age: 1}, nil},
			{queuefs.Thresholds{Size: 3, Age: 3}, []queuefs.JobID{3}},
			{queuefs.Thresholds{}, []queuefs.JobID{4, 5, 6}},
		} {
			for _, dry := range []bool{true, false} {
				var got []queuefs.JobID
				for _, c := range culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &tt.keep, Dry: dry}) {
					got = append(got, c.Job)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%+v of a queue that keeps %d, dry %v: got %v, want %v", tt.keep, own, dry, got, tt.want)
				}
			}
		}
		if i := q.Info(); i.CullingSize != own || i.CullingAge != own {
			t.Errorf("the queue has %d, %d now", i.CullingSize, i.CullingAge)
		}
		for _, bad := range []queuefs.CullOptions{
			{Keep: &queuefs.Thresholds{}}, // of all queues
			{Queue: "jobs", Keep: &queuefs.Thresholds{Size: -1}},
			{Queue: "jobs", Keep: &queuefs.Thresholds{Age: -1}},
			{Queue: "jobs", Keep: &queuefs.Thresholds{Age: math.MaxInt64}},
		} {
			n := 0
			for _, err := range s.Cull(ctx, bad) {
				if n++; !errors.Is(err, queuefs.ErrBadName) {
					t.Errorf("%+v: got %v", bad, err)
				}
			}
			if n != 1 {
				t.Errorf("%+v: gave %d times", bad, n)
			}
		}
		closeHome(t, s)
	}
}

// TestAFullDiskIsFreedWithoutThresholds fills a file system with processed jobs
// of a queue that keeps all. Its thresholds cannot be changed then, but a call
// may have some.
func TestAFullDiskIsFreedWithoutThresholds(t *testing.T) {
	dir := mount(t, "8m")
	now := time.Now()
	o := queuefs.Options{Segment: 4 * smallSegment, Behind: 300 << 10,
		Now: func() time.Time { return now }} // so upkeep takes the day for a calm one
	s, q := openHome(t, filepath.Join(dir, "home"), o)
	for range 20 {
		submit(t, q, queuefs.Meta{}, strings.Repeat("y", 60<<10))
		_, err := q.Next(ctx, "w")
		must(t, err)
	}
	must(t, s.Checkpoint(ctx))
	fill(t, dir, 0)
	tryForSpace(t, s, q, world{"jobs": jobs{byID: map[queuefs.JobID]fact{}}}, 10_000)
	lower := func() error {
		_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize = 5 }))
		return err
	}
	if err := lower(); !errors.Is(err, queuefs.ErrNoSpace) {
		t.Errorf("set without room: got %v", err)
	}
	if got := culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 5}}); len(got) != 15 {
		t.Errorf("%d culled, want 15", len(got))
	}
	must(t, s.Maintain(ctx))
	must(t, lower())
	submit(t, q, queuefs.Meta{}, "again")
	closeHome(t, s)
}
