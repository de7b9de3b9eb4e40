package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// A crash at any step of an operation leaves a home that check finds whole: the next opening
// finishes the operation, or it has not happened. Nobody else is accused of it.
func TestCheckAfterACrashAtAnyStep(t *testing.T) {
	for name, do := range map[string]func(s *queuefs.Service, q *queuefs.Queue) error{
		"set": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Description = "changed"; return nil })
			return err
		},
		"callback": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Callback = "http://127.0.0.1:1/secret"; return nil })
			return err
		},
		"create": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"})
			return err
		},
		"remove": func(s *queuefs.Service, q *queuefs.Queue) error { return s.RemoveQueue(ctx, "empty") },
		"take": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Next(ctx, "w")
			return err
		},
		"hold": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Hold(ctx, 2, "why")
			return err
		},
		"cull": func(s *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Delete(ctx, 2)
			for _, e := range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
				err = errors.Join(err, e)
			}
			return errors.Join(err, s.Checkpoint(ctx))
		},
	} {
		for _, reopened := range []bool{false, true} { // before the operation
			t.Run(fmt.Sprintf("%s reopened %v", name, reopened), func(t *testing.T) {
				dir := filepath.Join(fastDir(t), "home")
				armed, steps := false, 0
				var copies []string
				snap := func(step string, do func() error) error {
					if armed {
						steps++
						copies = append(copies, copyHome(t, dir))
					}
					err := do()
					if armed {
						copies = append(copies, copyHome(t, dir))
					}
					return err
				}
				o := queuefs.Options{Fault: snap}
				s, q := openHome(t, dir, o)
				_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "empty"})
				must(t, err)
				submit(t, q, queuefs.Meta{}, "x")
				submit(t, q, queuefs.Meta{}, "y")
				if reopened {
					closeHome(t, s)
					s, q = openHome(t, dir, o)
				}
				armed = true
				err = do(s, q)
				armed = false
				must(t, err)
				closeHome(t, s)
				if steps == 0 {
					t.Fatal("the operation has no steps")
				}
				for i, copied := range copies {
					r, err := check.Home(copied, check.Options{Segment: segmentSize})
					must(t, err)
					if len(r.Problems) > 0 {
						t.Errorf("copy %d: problems %v", i, r.Problems)
					}
				}
			})
		}
	}
}

func TestCheckNamesPropertiesThatWereEdited(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	path := filepath.Join(dir, "queues/jobs/queue-info.txt")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(text, "description: by hand\n"...), 0o666))
	r, err := check.Home(dir, check.Options{Segment: segmentSize})
	must(t, err)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "not taken in yet") {
		t.Errorf("problems after an edit: %v", r.Problems)
	}
}
