package queuefs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// TestACrashBeforeTheFirstCheckpoint opens a home whose index has nothing of the
// queue yet, although the jobs have files. The journal has all of them, so no
// file is read: there may be a million. Where it does not, the files count.
func TestACrashBeforeTheFirstCheckpoint(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	for range 3 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "payload")
	}
	_, err := q.Next(ctx, "w")
	must(t, err)
	must(t, s.Maintain(ctx)) // it is calm: files are written
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	pending := filepath.Join(crashed, "queues/jobs/pending")
	if names, err := os.ReadDir(pending); err != nil || len(names) != 2 {
		t.Fatalf("%d files are pending: %v", len(names), err)
	}
	for name, c := range map[string]struct {
		damage  func(dir string)
		rebuild bool
		report  string // what each problem has, if there is to be one
	}{
		"as it is": {func(string) {}, false, ""},
		"a file nobody reads": {func(dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/pending/j000000000002"), []byte("not a job file"), 0o666))
		}, false, ""},
		"no journal": {func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) }, false, "brought by other hands"},
		"rebuilt":    {func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyHome(t, crashed)
			c.damage(dir)
			if c.rebuild {
				r, err := check.Home(dir, check.Options{Rebuild: true, AcceptLoss: true, Segment: smallSegment})
				if err != nil || len(r.Problems) > 0 || r.Jobs != 3 {
					t.Fatalf("rebuild: %+v, %v", r, err)
				}
			}
			told := 0
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, AcceptLoss: c.report != "", Report: func(p queuefs.Problem) {
				if p.Path == "log/journal" && c.report != "" {
					return
				}
				if told++; c.report == "" || !strings.Contains(p.Text, c.report) {
					t.Errorf("reported: %v", p)
				}
			}})
			if d := want.difference(observe(t, s)); d != "" {
				t.Error(d)
			}
			if c.report != "" && told != 3 {
				t.Errorf("%d problems, want one for each job", told)
			}
			if j := submit(t, q, queuefs.Meta{}, "next"); j.ID != 4 {
				t.Errorf("the next job is %v", j.ID)
			}
			closeHome(t, s)
			r, err := check.Home(dir, check.Options{Segment: smallSegment})
			if err != nil || len(r.Problems)+len(r.Mended) > 0 || r.Jobs != 4 {
				t.Errorf("check: %+v, %v", r, err)
			}
		})
	}
}
