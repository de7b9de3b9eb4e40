package queuefs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A queue that is brought while the disk is full cannot be taken in, which
// is tried again at every Reload: what it counted of dirty jobs stays counted.
func TestAQueueThatCannotBeTakenInCountsForNothing(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "home")
	if err := Init(dir, ServiceInfo{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	var full atomic.Bool
	now := time.Now()
	s, err := Open(dir, Options{Segment: 1 << 20, Now: func() time.Time { return now }, Fault: func(step string, do func() error) error {
		if full.Load() && step == "mkdir corrupt" {
			return syscall.ENOSPC
		}
		return do()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q, err := s.CreateQueue(ctx, QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	sub := q.Begin()
	d, err := sub.Add(Meta{})
	if err != nil {
		t.Fatal(err)
	}
	d.Write([]byte("x"))
	if _, err := sub.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	// A copy of it, one job moved and one file that makes no sense.
	other := filepath.Join(dir, "queues/other")
	if err := os.CopyFS(other, os.DirFS(filepath.Join(dir, "queues/jobs"))); err != nil {
		t.Fatal(err)
	}
	info := filepath.Join(other, "queue-info.txt")
	b, _ := os.ReadFile(info)
	os.WriteFile(info, []byte(strings.ReplaceAll(string(b), "jobs", "other")), 0o666)
	os.Rename(filepath.Join(other, "pending/j000000000001"), filepath.Join(other, "consumed/j000000000001"))
	os.WriteFile(filepath.Join(other, "pending/j000000000002"), []byte("what is this"), 0o666)
	os.WriteFile(filepath.Join(dir, "queues.txt"), []byte("jobs\nother\n"), 0o666)
	full.Store(true)
	for range 6 {
		now = now.Add(time.Second)
		_, _ = s.Reload(ctx) // it says that there is no room
	}
	if n := s.Behind(); n != 0 {
		t.Errorf("%d jobs are dirty, want none: the queue is not served", n)
	}
}
