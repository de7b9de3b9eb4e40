package queuefs

import "testing"

// Of the jobs that are behind, fileMany writes those that nobody else does: under
// a load in which every submission writes files, a checkpoint would else write as
// many again, and last twice as long.
func TestFilesThatOthersWriteAreNotWaitedFor(t *testing.T) {
	s := crashed(t, 1)
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	q, err := s.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	submitMany(t, q, 3*filedAtOnce)
	if err := q.fileMany(func() bool {
		submitMany(t, q, filedAtOnce)
		if n, err := q.fileSome(filedAtOnce); n != filedAtOnce || err != nil {
			t.Errorf("others wrote the files of %d jobs: %v", n, err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	// Others, this, and others again.
	if got := len(q.backlog.dirty); got != 2*filedAtOnce {
		t.Errorf("%d jobs are behind, want %d: those that came meanwhile", got, 2*filedAtOnce)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
