package queuefs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cutie/queuefs"
)

// What a cull leaves that was broken off is due for the next one at once, and not
// only when the oldest of what was too young is.
func TestACullThatWasBrokenOffGoesOn(t *testing.T) {
	const jobs = 3000
	keep := queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Age: 2}}
	for _, how := range []string{"context", "caller", "retained"} {
		t.Run(how, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			asked, stop := 0, func() {} // of each job with a retention it is asked whether that has ended
			var meta queuefs.Meta
			if how == "retained" {
				meta.Destruction = now.Add(time.Hour)
			}
			s, q := openHome(t, fastDir(t), queuefs.Options{Now: func() time.Time {
				if asked++; asked == 1500 {
					stop()
				}
				now = now.Add(time.Microsecond)
				return now
			}})
			for range jobs / 500 {
				sub := q.Begin()
				for range 500 {
					if _, err := sub.Add(meta); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := sub.Commit(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for n := jobs; n > 0; {
				taken, err := q.NextN(ctx, "w", queuefs.MaxTake)
				if err != nil {
					t.Fatal(err)
				}
				n -= len(taken)
			}
			now = now.Add(3 * time.Hour)

			first, cancel := context.WithCancel(ctx)
			defer cancel()
			if asked = 0; how == "retained" {
				stop = cancel
			}
			culled := 0
			for _, err := range s.Cull(first, keep) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					break
				}
				if culled++; culled == 500 && how == "context" {
					cancel()
				}
				if culled == 500 && how == "caller" {
					break
				}
			}
			if culled == jobs {
				t.Fatal("it was not broken off")
			}
			// What was in the batch has gone, whether the caller was told or not.
			left := q.State().Consumed
			now = now.Add(time.Minute)
			culled = 0
			for _, err := range s.Cull(ctx, keep) {
				if err != nil {
					t.Fatal(err)
				}
				culled++
			}
			if int64(culled) != left || left == 0 {
				t.Errorf("%d jobs are culled, want the %d that were left", culled, left)
			}
			closeHome(t, s)
		})
	}
}
