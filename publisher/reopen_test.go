package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
)

// TestPublishingGoesOnAfterAFailedSync lets the n-th sync below resourcesync fail, and
// some after it. Submissions go on, the failure is told, and publishing goes on by itself.
func TestPublishingGoesOnAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"sync file", "sync dir pending", "sync dir jobs", "sync dir resourcesync"} {
		for _, times := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d", failing, times), func(t *testing.T) {
				later := time.Duration(0)
				s := newSource(t, publisher.Options{MaxEntries: 12, Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
				q := s.queue("jobs")
				activity(s, q, 0)
				must(t, s.pub.Close())
				left := times
				s.opts.Fault = func(step string, do func() error) error {
					if step == failing && left > 0 {
						left--
						return errors.Join(syscall.EIO, do())
					}
					return do()
				}
				s.openPublisher()
				failed := 0
				for range 30 {
					activity(s, q, 1) // submissions go on
					if err := s.pub.Tick(context.Background()); err != nil {
						if !errors.Is(err, syscall.EIO) {
							t.Fatal(err)
						}
						failed++
					}
					later += 2 * time.Minute
				}
				// An inventory in place counts, whatever its directory says.
				if left > 0 || failed == 0 && failing != "sync dir pending" {
					t.Fatalf("%d faults left, %d failures told", left, failed)
				}
				must(t, s.pub.Failure())
				must(t, s.svc.Checkpoint(context.Background()))
				s.settle()
				check := func() {
					t.Helper()
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						m.since = s.queue("jobs").Info().Created
						m.incremental(nil)
						m.compare(s.queue("jobs"))
					}
				}
				check()
				s.crash()
				check()
				if temps, _ := filepath.Glob(filepath.Join(s.dir, "resourcesync", "cutie-tmp-*")); len(temps) > 0 || len(s.problems) > 0 {
					t.Errorf("left behind %q, problems %q", temps, s.problems)
				}
			})
		}
	}
}
