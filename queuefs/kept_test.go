package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cutie/queuefs"
)

// What culling leaves is counted: here jobs 1 to 8, consumed an hour from each other, of
// which 1, 2 and 7 are spared.
func TestWhatCullingLeavesIsCounted(t *testing.T) {
	for _, tt := range []struct {
		keep   queuefs.Thresholds
		spared int
		culled []queuefs.JobID
	}{
		{queuefs.Thresholds{Size: 8}, 0, nil},
		{queuefs.Thresholds{Size: 6}, 0, []queuefs.JobID{3, 4}},
		{queuefs.Thresholds{Size: 2}, 1, []queuefs.JobID{3, 4, 5, 6, 8}}, // six are too many
		{queuefs.Thresholds{Size: 1}, 2, []queuefs.JobID{3, 4, 5, 6, 8}},
		{queuefs.Thresholds{}, 3, []queuefs.JobID{3, 4, 5, 6, 8}},
		{queuefs.Thresholds{Size: 6, Age: 4}, 0, []queuefs.JobID{3, 4}}, // then they are six
		{queuefs.Thresholds{Size: 5, Age: 4}, 2, []queuefs.JobID{3, 4}},
		{queuefs.Thresholds{Size: 5, Age: 2}, 0, []queuefs.JobID{3, 4, 5, 6}},
		{queuefs.Thresholds{Age: 7}, 1, nil}, // 1 is older
		{queuefs.Thresholds{Age: 100}, 0, nil},
	} {
		t.Run(fmt.Sprint(tt.keep), func(t *testing.T) {
			clock := newClock()
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock.now})
			defer closeHome(t, s)
			spared := []queuefs.JobID{1, 2, 7}
			for id := queuefs.JobID(1); id <= 8; id++ {
				m := queuefs.Meta{}
				if slices.Contains(spared, id) {
					m.Destruction = clock.now().Add(1000 * time.Hour)
				}
				submit(t, q, m, "x")
				_, err := q.Next(ctx, "w")
				must(t, err)
				clock.forward(time.Hour)
			}
			submit(t, q, queuefs.Meta{}, "pending")
			o := queuefs.CullOptions{Queue: "jobs", Keep: &tt.keep}
			want := []queuefs.Kept{{Queue: "jobs", Spared: tt.spared}}
			if tt.spared == 0 {
				want = nil
			}
			for _, o.Dry = range []bool{true, false} {
				var got []queuefs.JobID
				for _, c := range culled(t, s, o) {
					got = append(got, c.Job)
				}
				if !slices.Equal(got, tt.culled) {
					t.Errorf("dry %v: culled %v, want %v", o.Dry, got, tt.culled)
				}
				// Thresholds of the queue have none of it.
				for _, o := range []queuefs.CullOptions{o, {}} {
					kept, err := s.Kept(ctx, o)
					must(t, err)
					if o.Keep == nil {
						if len(kept) > 0 {
							t.Errorf("by the thresholds of the queue: %+v are kept", kept)
						}
					} else if !slices.Equal(kept, want) {
						t.Errorf("dry %v: got %+v, want %+v", o.Dry, kept, want)
					}
				}
			}
			if len(want) == 0 {
				return
			}
			for _, id := range spared {
				destroyAt(t, q, id, time.Time{})
			}
			culled(t, s, o)
			if kept, err := s.Kept(ctx, o); err != nil || len(kept) > 0 {
				t.Errorf("at last: %+v, %v", kept, err)
			}
		})
	}
}

func TestKeptRefuses(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	if _, err := s.Kept(ctx, queuefs.CullOptions{Keep: &queuefs.Thresholds{}}); !errors.Is(err, queuefs.ErrBadName) {
		t.Errorf("thresholds of all queues: got %v", err)
	}
	if _, err := s.Kept(ctx, queuefs.CullOptions{Queue: "none"}); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("no queue: got %v", err)
	}
	submit(t, q, queuefs.Meta{}, "x")
	_, err := q.Next(ctx, "w")
	must(t, err)
	over, end := context.WithCancel(ctx)
	end()
	if _, err := s.Kept(over, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got %v", err)
	}
}
