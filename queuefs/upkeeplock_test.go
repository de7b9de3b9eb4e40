package queuefs_test

import (
	"testing"
	"time"

	"cutie/queuefs"
)

// slow is a follower that takes its time: Flush says that it has begun, and
// ends when it is let go.
type slow struct {
	begun, end chan struct{}
	forgot     chan string
}

func (f *slow) Flush() error {
	select {
	case f.begun <- struct{}{}:
		<-f.end
	case <-f.end: // for good
	}
	return nil
}

func (f *slow) Synced() error { return nil }

func (f *slow) Forget(queue string) error {
	f.forgot <- queue
	return nil
}

// TestPropertiesDoNotWaitForACheckpoint changes properties, and makes a queue,
// while a follower keeps a checkpoint from its end. Only a queue of a name that
// was in use before waits: the follower has to forget the former one.
func TestPropertiesDoNotWaitForACheckpoint(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "former"}); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveQueue(ctx, "former"); err != nil {
		t.Fatal(err)
	}
	f := &slow{begun: make(chan struct{}), end: make(chan struct{}), forgot: make(chan string, 9)}
	s.Follow(f)
	submit(t, q, queuefs.Meta{}, "x")
	checkpointed := make(chan error)
	go func() { checkpointed <- s.Checkpoint(ctx) }()
	<-f.begun

	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetQueue(ctx, "new", set(func(i *queuefs.QueueInfo) { i.Name = "a name" })); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Description = "changed" })); err != nil {
		t.Fatal(err)
	}
	if err := s.SetService(ctx, func(i *queuefs.ServiceInfo) error { i.Name = "changed"; return nil }); err != nil {
		t.Fatal(err)
	}
	n, err := s.Queue("a name")
	if err != nil {
		t.Fatal(err)
	}
	submit(t, n, queuefs.Meta{}, "y")
	again := make(chan error)
	go func() {
		_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "former"})
		again <- err
	}()
	select {
	case err := <-again:
		t.Fatalf("made under a name in use before, during a checkpoint: %v", err)
	case id := <-f.forgot:
		t.Fatalf("%s forgotten during a checkpoint", id)
	case <-time.After(50 * time.Millisecond): // it has had time to go wrong
	}
	close(f.end)
	if err := <-checkpointed; err != nil {
		t.Fatal(err)
	}
	if err := <-again; err != nil {
		t.Fatal(err)
	}
	if id := <-f.forgot; id != "former" {
		t.Errorf("%s forgotten", id)
	}

	closeHome(t, s)
	if s, err = queuefs.Open(dir, queuefs.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"jobs", "new", "former"} {
		if _, err := s.Queue(id); err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Queue("new"); err != nil || n.Info().Name != "a name" || n.State().Pending != 1 {
		t.Errorf("the queue made during a checkpoint has not kept what it had: %v", err)
	}
	if s.Info().Name != "changed" {
		t.Error("the service has lost a property")
	}
}
