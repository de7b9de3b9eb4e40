package queuefs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
)

// Of callers at the same time with one identifier or one name, one makes the queue.
func TestOneOfManyCallersMakesAQueue(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}))
	s := openBare(t, dir, queuefs.Options{Segment: segmentSize})
	var made [10]atomic.Int64
	var wg sync.WaitGroup
	for c := range 80 {
		wg.Go(func() {
			n := c % len(made)
			info := queuefs.QueueInfo{Identifier: fmt.Sprint("q", n)}
			if n%2 == 0 { // of its own identifier, but with a name of others
				info = queuefs.QueueInfo{Identifier: fmt.Sprint("q", n, "-", c), Name: fmt.Sprint("name ", n)}
			}
			switch _, err := s.CreateQueue(ctx, info); {
			case err == nil:
				made[n].Add(1)
			case !errors.Is(err, queuefs.ErrQueueExists):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range made {
		if got := made[n].Load(); got != 1 {
			t.Errorf("%d: made %d times", n, got)
		}
	}
	if got := len(s.Queues()); got != len(made) {
		t.Errorf("%d queues", got)
	}
	closeHome(t, s)
}
