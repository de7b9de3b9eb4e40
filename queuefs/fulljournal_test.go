package queuefs_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// TestAFullDiskIsFreedByConsumingAndCulling fills a file system by jobs that come
// faster than their files can be written, and has no other room than what those
// leave that are done. Also where others have taken all the rest.
func TestAFullDiskIsFreedByConsumingAndCulling(t *testing.T) {
	for name, taken := range map[string]bool{"by jobs": false, "by others, too": true} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, "64m")
			home := filepath.Join(dir, "home")
			o := queuefs.Options{Segment: 4 << 20}
			s, q := openHome(t, home, o)
			f := newFollower(t)
			f.follow(s)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for {
						sub := q.Begin()
						d, err := sub.Add(queuefs.Meta{})
						if err == nil {
							_, err = d.Write([]byte(strings.Repeat("x", 1000)))
						}
						if err == nil {
							_, err = sub.Commit(ctx)
						}
						sub.Discard()
						if err != nil {
							if !errors.Is(err, queuefs.ErrNoSpace) || errors.Is(err, queuefs.ErrFailed) {
								t.Errorf("full: got %v", err)
							}
							return
						}
					}
				})
			}
			wg.Wait()
			jobs := q.State().Pending
			if jobs < 1000 {
				t.Errorf("room for %d jobs", jobs)
			}
			if taken {
				maintained(t, s)
				fill(t, dir, 0)
			}
			refused, consumed := 0, int64(0)
			free := func() {
				t.Helper()
				for _, err := range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
					if err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
						t.Fatal(err)
					}
				}
				if err := s.Maintain(ctx); err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
					t.Fatal(err)
				}
			}
			for consumed < jobs && refused < 100 {
				_, err := q.Next(ctx, "w")
				switch {
				case err == nil:
					consumed++
				case errors.Is(err, queuefs.ErrNoSpace):
					refused++
					free()
				default:
					t.Fatal(err)
				}
			}
			if consumed < jobs || refused > 0 && !taken {
				t.Errorf("%d of %d jobs consumed, %d times refused", consumed, jobs, refused)
			}
			free()
			if n := q.State().Consumed; n > 0 {
				t.Errorf("%d jobs are not culled", n)
			}
			submit(t, q, queuefs.Meta{}, "again")
			closeHome(t, s)
			r, err := check.Home(home, check.Options{Segment: o.Segment})
			if err != nil || r.Jobs != 1 || len(r.Problems)+len(r.Mended) > 0 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}
