package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
)

// A crowded disk has no room for anything new while it is full.
type crowded struct{ full bool }

func (c *crowded) step(name string, do func() error) error {
	verb, _, _ := strings.Cut(name, " ")
	switch verb {
	case "put", "rewrite", "stage", "temp", "mkdir", "prepare":
		if c.full {
			return syscall.ENOSPC
		}
	}
	return do()
}

// filesOf lists the files of the queues that are of jobs, and the payloads that
// never got a name.
func filesOf(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	for name := range strings.Lines(tree(t, dir)) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, "queue-info.txt") {
			names = append(names, name)
		}
	}
	temps, err := filepath.Glob(dir + "/cutie-tmp/*")
	if err != nil {
		t.Fatal(err)
	}
	for range temps {
		names = append(names, "payload without a name")
	}
	return strings.Join(names, "\n")
}

// On a full disk the files of culled jobs go although those of others cannot be
// written, in the pace of a calm day as at a checkpoint.
func TestCullingMakesRoomOnAFullDisk(t *testing.T) {
	for name, passes := range map[string]time.Duration{"calm": time.Second, "checkpoint": time.Minute} {
		t.Run(name, func(t *testing.T) {
			var disk crowded
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			o := queuefs.Options{Fault: disk.step, Now: func() time.Time { return now }}
			dir := fastDir(t)
			s, q := openHome(t, dir, o)
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 })); err != nil {
				t.Fatal(err)
			}
			maintain := func(want error) {
				t.Helper()
				now = now.Add(passes)
				if err := s.Maintain(ctx); !errors.Is(err, want) {
					t.Fatalf("maintain: got %v, want %v", err, want)
				}
			}
			for range 3 {
				submit(t, q, queuefs.Meta{}, "small")
			}
			maintain(nil)
			large := submit(t, q, queuefs.Meta{}, strings.Repeat("large", 40_000))
			for range 10 {
				submit(t, q, queuefs.Meta{}, "these cannot be written")
			}
			disk.full = true
			for range 2 {
				if _, err := q.Next(ctx, "w"); err != nil {
					t.Fatal(err)
				}
			}
			maintain(queuefs.ErrNoSpace)
			for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				if err != nil || c.Job > 2 {
					t.Fatalf("culled %v, %v", c, err)
				}
			}
			maintain(queuefs.ErrNoSpace)
			if got := filesOf(t, dir); strings.Contains(got, "j000000000001") || strings.Contains(got, "j000000000002") || !strings.Contains(got, "j000000000003") {
				t.Errorf("got %s", got)
			}
			// What was never filed goes, too.
			for range 2 {
				if _, err := q.Next(ctx, "w"); err != nil {
					t.Fatal(err)
				}
			}
			for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			maintain(queuefs.ErrNoSpace)
			if got := filesOf(t, dir); got != "" {
				t.Errorf("got %s", got)
			}
			if _, err := q.Job(large.ID); !errors.Is(err, queuefs.ErrNoJob) {
				t.Errorf("got %v", err)
			}
			disk.full = false
			maintain(nil)
			if got := filesOf(t, dir); strings.Count(got, "jobs/payload/") != 10 || strings.Count(got, "jobs/pending/") != 10 {
				t.Errorf("got %s", got)
			}
			closeHome(t, s)
		})
	}
}

// TestAFullDiskIsFreedByCulling fills a file system with processed jobs, and
// has no other room than what they leave.
func TestAFullDiskIsFreedByCulling(t *testing.T) {
	dir := mount(t, "8m")
	now := time.Now()
	o := queuefs.Options{Segment: 4 * smallSegment, Behind: 300 << 10,
		Now: func() time.Time { return now }} // so upkeep takes the day for a calm one
	home := filepath.Join(dir, "home")
	s, q := openHome(t, home, o)
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 })); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		submit(t, q, queuefs.Meta{}, strings.Repeat("y", 60<<10))
		if _, err := q.Next(ctx, "w"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, 0)
	w := tryForSpace(t, s, q, world{"jobs": jobs{byID: map[queuefs.JobID]fact{}}}, 10_000)
	n := 0
	for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := s.Maintain(ctx); err != nil || n != 20 {
		t.Errorf("%d culled, maintain: %v", n, err)
	}
	j := submit(t, q, queuefs.Meta{}, "again")
	w = w.set("jobs", j.ID, func(f *fact) { *f = fact{status: queuefs.Pending, payload: "again"} })
	if d := w.difference(observe(t, s)); d != "" {
		t.Error(d)
	}
	closeHome(t, s)
	if _, err := os.Stat(filepath.Join(dir, "ballast")); err != nil {
		t.Error(err)
	}
	v := verifier{TB: t, dir: home, o: o}
	v.checkFiles(w)
}
