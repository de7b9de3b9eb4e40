package queuefs_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"cutie/queuefs"
)

// A full disk keeps no home closed whose journal speaks of a queue that other
// hands have taken away. The journal stays until its last numbers are kept.
func TestNumbersOfAQueueTakenAwayAreKeptOnceThereIsRoom(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	must(t, os.RemoveAll(crashed+"/queues/jobs"))
	write(t, crashed+"/queues.txt", "")
	full := true
	o := queuefs.Options{Fault: func(step string, do func() error) error {
		if full && step == "append to small" {
			return syscall.ENOSPC
		}
		return do()
	}}
	create := func(s *queuefs.Service) (*queuefs.Queue, error) {
		return s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"})
	}
	for range 2 { // the second finds the journal as the first did
		s = openBare(t, crashed, o)
		if err := s.Checkpoint(ctx); !errors.Is(err, queuefs.ErrNoSpace) {
			t.Errorf("checkpoint: got %v", err)
		}
		if _, err := create(s); !errors.Is(err, queuefs.ErrNoSpace) {
			t.Errorf("create: got %v", err)
		}
		if err := s.Close(); !errors.Is(err, queuefs.ErrNoSpace) {
			t.Errorf("close: got %v", err)
		}
	}
	s = openBare(t, crashed, o)
	full = false
	closeHome(t, s)
	s = openBare(t, crashed, o)
	defer closeHome(t, s)
	q, err := create(s)
	if err != nil {
		t.Fatal(err)
	}
	if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != 4 || j.Seq != 4 {
		t.Errorf("got %v at event %d, want the fourth", j.ID, j.Seq)
	}
}
