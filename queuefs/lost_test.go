package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
)

// A queue whose directory is missing, or empty as the place of a volume that is not mounted,
// is not made anew in its place, and is served again with the directory back.
func TestALostQueueIsNeverMadeAnew(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		for _, empty := range []bool{true, false} {
			t.Run(fmt.Sprintf("stopped %v empty %v", stopped, empty), func(t *testing.T) {
				dir := filepath.Join(fastDir(t), "home")
				s, q := openHome(t, dir, queuefs.Options{})
				other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
				must(t, err)
				submit(t, q, queuefs.Meta{}, "before the checkpoint")
				must(t, s.Checkpoint(ctx))
				submit(t, q, queuefs.Meta{}, "after the checkpoint")
				submit(t, other, queuefs.Meta{}, "of another queue")
				if stopped {
					closeHome(t, s)
				} else {
					copied := copyHome(t, dir)
					closeHome(t, s)
					dir = copied
				}
				aside := filepath.Join(dir, "aside")
				must(t, os.Rename(filepath.Join(dir, "queues/jobs"), aside))
				if empty {
					must(t, os.Mkdir(filepath.Join(dir, "queues/jobs"), 0o777))
				}
				for range 3 { // the journal is released meanwhile, as far as it may be
					var reports []string
					s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p queuefs.Problem) { reports = append(reports, p.String()) }})
					must(t, err)
					for range 3 {
						reload(t, s)
					}
					if _, err := s.Ask("jobs"); !isLost(err) || !strings.Contains(err.Error(), "cutie rmqueue --lost jobs") {
						t.Errorf("a request is refused with %v", err)
					}
					if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"}); !isLost(err) {
						t.Errorf("made anew: %v", err)
					}
					if lost := s.Lost(); len(lost) != 1 || lost[0].Queue != "jobs" || lost[0].Back {
						t.Errorf("lost queues: %v", lost)
					}
					if got := strings.Join(reports, "\n"); !strings.HasPrefix(got, "queues/jobs: directory lost") || strings.Contains(got, "\n") {
						t.Errorf("reports: %s", got)
					}
					if exists(dir, "queues/jobs/pending") || exists(dir, "queues/jobs") != empty {
						t.Error("a directory was made")
					}
					q, err := s.Queue("other")
					must(t, err)
					submit(t, q, queuefs.Meta{}, "meanwhile")
					must(t, s.Checkpoint(ctx))
					closeHome(t, s)
				}
				if empty {
					must(t, os.Remove(filepath.Join(dir, "queues/jobs")))
				}
				s, err = queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
				must(t, err)
				must(t, os.Rename(aside, filepath.Join(dir, "queues/jobs")))
				reload(t, s)
				if lost := s.Lost(); len(lost) != 1 || !lost[0].Back {
					t.Errorf("lost queues with the directory back: %v", lost)
				}
				if err := s.RemoveLost(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotLost) {
					t.Errorf("removed with the directory back: %v", err)
				}
				closeHome(t, s)
				s, q = openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Errorf("with the directory back: %s", p) }})
				defer closeHome(t, s)
				if len(s.Lost()) > 0 || payload(t, q, 1) != "before the checkpoint" || payload(t, q, 2) != "after the checkpoint" {
					t.Errorf("lost %v, jobs %q and %q", s.Lost(), payload(t, q, 1), payload(t, q, 2))
				}
				if j := submit(t, q, queuefs.Meta{}, "new"); j.ID != 3 || q.Seq() != 3 {
					t.Errorf("the next job is %v, event %d", j.ID, q.Seq())
				}
			})
		}
	}
}

// isLost reports whether an error is a [*queuefs.LostError].
func isLost(err error) bool {
	_, ok := errors.AsType[*queuefs.LostError](err)
	return ok
}

func TestALostQueueIsRemovedForGood(t *testing.T) {
	for _, way := range []string{"removed", "line taken out"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			s, q := openHome(t, dir, queuefs.Options{})
			submit(t, q, queuefs.Meta{}, "x")
			if err := s.RemoveLost(ctx, "jobs"); !errors.Is(err, queuefs.ErrNotLost) {
				t.Errorf("a served queue: %v", err)
			}
			if err := s.RemoveLost(ctx, "none"); !errors.Is(err, queuefs.ErrNoQueue) {
				t.Errorf("no queue: %v", err)
			}
			closeHome(t, s)
			must(t, os.RemoveAll(filepath.Join(dir, "queues/jobs")))
			s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
			must(t, err)
			defer closeHome(t, s)
			if way == "removed" {
				must(t, s.RemoveLost(ctx, "jobs"))
			} else {
				reload(t, s)
				write(t, filepath.Join(dir, "queues.txt"), "# none\n")
				reload(t, s)
				reload(t, s)
			}
			if _, err := s.Queue("jobs"); !errors.Is(err, queuefs.ErrNoQueue) || len(s.Lost()) > 0 {
				t.Errorf("after it: %v, lost %v", err, s.Lost())
			}
			if list, err := os.ReadFile(filepath.Join(dir, "queues.txt")); err != nil || strings.Contains(string(list), "jobs") {
				t.Errorf("queues.txt is %q, %v", list, err)
			}
			q, err = s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"})
			must(t, err)
			if j := submit(t, q, queuefs.Meta{}, "y"); j.ID != 2 {
				t.Errorf("a later queue of the name begins with %v", j.ID)
			}
		})
	}
}

// Listing a queue that was removed makes another one, as listing a new one does.
func TestAListedQueueThatWasRemovedIsMadeAtTheOpening(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	must(t, s.RemoveQueue(ctx, "jobs"))
	closeHome(t, s)
	write(t, filepath.Join(dir, "queues.txt"), "jobs\n")
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	must(t, err)
	defer closeHome(t, s)
	if _, err := s.Ask("jobs"); err != nil {
		t.Error(err)
	}
}
