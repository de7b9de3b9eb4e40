package queuefs

import (
	"testing"
)

// crashed returns a service with a queue whose jobs a crash left without files.
func crashed(t *testing.T, jobs int) *Service {
	t.Helper()
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
	submitMany(t, q, jobs)
	if got := s.found.Load(); got != 0 {
		t.Errorf("a new home was found with %d jobs behind", got)
	}
	if err := s.closeFiles(); err != nil { // as after a crash: no checkpoint
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func submitMany(t *testing.T, q *Queue, jobs int) {
	t.Helper()
	sub := q.Begin()
	for range jobs {
		if _, err := sub.Add(Meta{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sub.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What a crash left to be written holds nobody back.
func TestFilesFoundBehindHoldNobodyBack(t *testing.T) {
	s := crashed(t, 3)
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
	submitMany(t, s.Queues()[0], 3)
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
