package queuefs_test

import (
	"errors"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
)

// Every change that finds another owner of the home fails as others do after it: with
// ErrFailed, and ErrFenced as the reason.
func TestEveryChangeOfAFormerOwnerFailsAlike(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *queuefs.Service, q *queuefs.Queue) error{
		"submit": func(_ *queuefs.Service, q *queuefs.Queue) error {
			_, err := trySubmit(q, "late")
			return err
		},
		"delete": func(_ *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Delete(ctx, 1)
			return err
		},
		"remove a queue": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.RemoveQueue(ctx, "bare") },
		"create a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"})
			return err
		},
		"create a queue with a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new", Callback: "https://a.example/secret?x=y"})
			return err
		},
		"set a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error {
				i.Description = "new"
				return nil
			})
			return err
		},
		"set a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error {
				i.Callback = "https://a.example/secret?x=y"
				return nil
			})
			return err
		},
		"set the service": func(s *queuefs.Service, _ *queuefs.Queue) error {
			return s.SetService(ctx, func(i *queuefs.ServiceInfo) error {
				i.Description = "new"
				return nil
			})
		},
		"checkpoint": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.Checkpoint(ctx) },
	} {
		m := new(objectstest.Memory)
		a := mustStored(t, fastDir(t)+"/a", m)
		a.Follow(current{}) // else journal is kept for an absent follower
		createQueue(t, a, queuefs.QueueInfo{Identifier: "bare"})
		q := createQueue(t, a, queuefs.QueueInfo{Identifier: "q"})
		for range 3 { // the next checkpoint releases journal
			submit(t, q, queuefs.Meta{}, "payload")
			must(t, a.ImageAhead(ctx))
		}
		b := mustStored(t, fastDir(t)+"/b", m)
		if err := change(a, q); !errors.Is(err, queuefs.ErrFailed) || !errors.Is(err, queuefs.ErrFenced) {
			t.Errorf("%s: got %v", name, err)
		}
		if a.Close() == nil {
			t.Errorf("%s: a fenced service is closed without an error", name)
		}
		closeHome(t, b)
	}
}
