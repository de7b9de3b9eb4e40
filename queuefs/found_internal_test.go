package queuefs

import (
	"testing"
)

// What a crash left to be written holds nobody back.
func TestFilesFoundBehindHoldNobodyBack(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.CreateQueue(t.Context(), QueueInfo{ID: "q", Name: "q", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(q *Queue) {
		t.Helper()
		sub := q.Begin()
		for range 3 {
			if _, err := sub.Add(Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	submit(q)
	if got := s.found.Load(); got != 0 {
		t.Errorf("a new home was found with %d jobs behind", got)
	}
	if err := s.closeFiles(); err != nil { // as after a crash: no checkpoint
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := s.found.Load(); got != 3 {
		t.Errorf("%d jobs were found behind, want 3", got)
	}
	// As if they were more.
	s.dirty.Add(3 * maxDirty)
	if !s.lagging() || !s.tooFar() {
		t.Error("so many may be behind")
	}
	s.found.Add(3 * maxDirty)
	if !s.lagging() || s.tooFar() {
		t.Error("those of a crash hold back")
	}
	submit(s.Queues()[0])
	s.dirty.Add(-3 * maxDirty)
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.found.Load(); got != 0 {
		t.Errorf("%d jobs count as found after a checkpoint", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
