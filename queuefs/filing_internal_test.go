package queuefs

import (
	"testing"
)

// Of the jobs that are behind, Many writes those that nobody else does: under
// a load in which every submission writes files, a checkpoint would else write as
// many again, and last twice as long.
func TestFilesThatOthersWriteAreNotWaitedFor(t *testing.T) {
	s := crashed(t, 3)
	if got := s.Behind(); got != 3 {
		t.Errorf("a crash left %d jobs behind, want 3", got)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	q, err := s.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	submitMany(t, q, 3*filesAtOnce)
	if err := q.fileMany(func() bool {
		submitMany(t, q, filesAtOnce)
		if n, err := q.fileSome(filesAtOnce); n != filesAtOnce || err != nil {
			t.Errorf("others wrote the files of %d jobs: %v", n, err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	// Others, this, and others again.
	if got := backlogOf(q); got != 2*filesAtOnce {
		t.Errorf("%d jobs are behind, want %d: those that came meanwhile", got, 2*filesAtOnce)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func backlogOf(q *Queue) int {
	n, _ := q.ledger.Backlog()
	return n
}

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
