package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
)

// Nothing is acknowledged in a home that was removed: the files that are open still take
// what is written, and nobody finds it again.
func TestAHomeRemovedWhileItIsOpenTakesNoMoreJobs(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "x")
	must(t, os.RemoveAll(dir))
	sub := q.Begin()
	d, err := sub.Add(queuefs.Meta{})
	must(t, err)
	_, err = d.Write([]byte("y"))
	must(t, err)
	if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrFailed) {
		t.Errorf("acknowledged, or refused with %v", err)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "was removed by other programs") {
		t.Errorf("the service says %v", err)
	}
	if err := s.Close(); err == nil {
		t.Error("closed as if nothing had happened")
	}
}
