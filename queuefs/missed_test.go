package queuefs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs"
)

// TestFilesNobodyMissesAreNotWritten counts the changes of directories for jobs that pass
// through before their files are due.
func TestFilesNobodyMissesAreNotWritten(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
		mu.Lock()
		steps = append(steps, step)
		mu.Unlock()
		return do()
	}})
	count := func(want string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, step := range steps {
			if step == want {
				n++
			}
		}
		return n
	}
	for range 3 {
		submit(t, q, queuefs.Meta{}, "small")
	}
	if _, err := q.NextN(ctx, "w", 2); err != nil {
		t.Fatal(err)
	}
	if got := culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 1}}); len(got) != 1 || got[0].Job != 1 {
		t.Fatalf("culled %v", got)
	}
	if got := s.Behind(); got != 2 {
		t.Errorf("%d jobs are behind after one of three was culled", got)
	}
	crashed := copyHome(t, dir)
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	// Of jobs 2 and 3 alone, and their last states.
	for step, want := range map[string]int{"put payload": 2, "put pending": 1, "put consumed": 1, "put deleted": 0, "rewrite pending": 0,
		"remove payload": 0, "remove pending": 0, "remove consumed": 0, "remove deleted": 0} {
		if got := count(step); got != want {
			t.Errorf("%s: %d times, want %d", step, got, want)
		}
	}
	want := observe(t, s)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		s, q := openHome(t, dir, queuefs.Options{})
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		if err := s.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		if ids := q.IDs(queuefs.ListOptions{}); !slices.Equal(ids, []queuefs.JobID{2, 3}) {
			t.Errorf("got %v", ids)
		}
		if got := tree(t, dir); strings.Contains(got, "j000000000001") {
			t.Errorf("files: got\n%s", got)
		}
		closeHome(t, s)
	}
}

// TestACulledJobWithFilesLosesThem culls a job whose files were written, and one whose
// payload waits in a temporary file.
func TestACulledJobWithFilesLosesThem(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "filed")
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	submit(t, q, queuefs.Meta{}, strings.Repeat("large", 50_000))
	if _, err := q.NextN(ctx, "w", 2); err != nil {
		t.Fatal(err)
	}
	if got := cullQueue(t, s, "jobs"); len(got) != 2 {
		t.Fatalf("culled %v", got)
	}
	if got := s.Behind(); got != 2 {
		t.Errorf("%d jobs are behind, want both: they have files", got)
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	s, _ = openHome(t, crashed, queuefs.Options{})
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		if got := tree(t, dir); got != "jobs/queue-info.txt" {
			t.Errorf("files: got\n%s", got)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "cutie-tmp")); err != nil || len(left) > 0 {
			t.Errorf("temporary files: %v, %v", left, err)
		}
	}
}
