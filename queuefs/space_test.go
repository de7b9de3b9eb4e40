package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cutie/queuefs"
)

// mount gives a file system of its own with so many octets, or skips the test.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("cutie-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs a small file system to fill, and may not mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all room there is, but for so many octets, and that of the reserve.
func fill(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "home/cutie-reserve")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for chunk := make([]byte, 64<<10); ; {
		k, err := f.Write(chunk)
		n += int64(k)
		if err != nil {
			if chunk = chunk[:len(chunk)/2]; len(chunk) < 512 {
				break
			}
		}
	}
	if err := errors.Join(f.Truncate(max(n-leave, 0)), f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() { os.Remove(name) }
}

// tryForSpace submits until there is no room, and returns what was taken.
func tryForSpace(t *testing.T, s *queuefs.Service, q *queuefs.Queue, w world, size int) world {
	t.Helper()
	for range 10000 {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{Filename: "f"})
		if err == nil {
			_, err = io.WriteString(d, strings.Repeat("x", size))
		}
		var jobs []queuefs.Job
		if err == nil {
			jobs, err = sub.Commit(ctx)
		}
		sub.Discard()
		switch {
		case errors.Is(err, queuefs.ErrNoSpace) && !errors.Is(err, queuefs.ErrFailed):
			return w
		case err != nil:
			t.Fatalf("full: got %v", err)
		}
		w = w.set("jobs", jobs[0].ID, func(f *fact) {
			*f = fact{status: queuefs.Pending, filename: "f", payload: strings.Repeat("x", size)}
		})
		if err := s.Maintain(ctx); err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
			t.Fatalf("maintain: %v", err)
		}
	}
	t.Fatal("there is no end to the room")
	return nil
}

// TestFullDisk fills a file system and frees it again, with jobs that are in
// the journal, and with jobs that have files.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int   // of a payload
		leave int64 // octets
	}{
		{"small jobs", 1000, 2 << 20},
		{"small jobs, no room at all", 1000, 0},
		{"payloads in files", 60 << 10, 2 << 20},
		{"payloads in files, no room at all", 60 << 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := mount(t, "8m")
			o := queuefs.Options{Segment: 4 * smallSegment, Behind: 300 << 10}
			home := filepath.Join(dir, "home")
			s, q := openHome(t, home, o)
			w := world{"jobs": jobs{byID: map[queuefs.JobID]fact{}}}
			for range 10 {
				j := submit(t, q, queuefs.Meta{Filename: "f"}, strings.Repeat("y", c.size))
				w = w.set("jobs", j.ID, func(f *fact) {
					*f = fact{status: queuefs.Pending, filename: "f", payload: strings.Repeat("y", c.size)}
				})
			}
			free := fill(t, dir, c.leave)
			w = tryForSpace(t, s, q, w, c.size)
			if d := w.difference(observe(t, s)); d != "" {
				t.Errorf("full: %s", d)
			}
			if s.Err() != nil {
				t.Fatalf("full: the service failed: %v", s.Err())
			}
			// Opened on the full file system it has lost nothing either.
			if err := s.Close(); err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
				t.Errorf("close: %v", err)
			}
			s, err := queuefs.Open(home, o)
			if err == nil {
				if d := w.difference(observe(t, s)); d != "" {
					t.Errorf("opened while full: %s", d)
				}
				w = tryForSpace(t, s, s.Queues()[0], w, c.size)
			} else if !errors.Is(err, queuefs.ErrNoSpace) {
				t.Errorf("open: %v", err)
			}
			free()
			if err != nil {
				if s, err = queuefs.Open(home, o); err != nil {
					t.Fatal(err)
				}
			}
			// With room it goes on by itself, after the usual upkeep.
			if err := s.Maintain(ctx); err != nil {
				t.Errorf("maintain: %v", err)
			}
			q = s.Queues()[0]
			j := submit(t, q, queuefs.Meta{Filename: "f"}, "again")
			w = w.set("jobs", j.ID, func(f *fact) { *f = fact{status: queuefs.Pending, filename: "f", payload: "again"} })
			if d := w.difference(observe(t, s)); d != "" {
				t.Errorf("with room again: %s", d)
			}
			closeHome(t, s)
			v := verifier{TB: t, dir: home, o: o}
			v.checkFiles(w)
		})
	}
}

// fillPages submits as many jobs as pages have, in batches.
func fillPages(t *testing.T, q *queuefs.Queue, pages, size int) {
	t.Helper()
	const batch = 256
	for range pages * queuefs.PageJobs / batch {
		sub := q.Begin()
		for range batch {
			d, err := sub.Add(queuefs.Meta{})
			if err == nil {
				_, err = d.Write(make([]byte, size))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// maintained does the upkeep until there is none left, or no room for it.
func maintained(t *testing.T, s *queuefs.Service) {
	t.Helper()
	for range 40 {
		if err := s.Maintain(ctx); err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
			t.Fatal(err)
		}
	}
}

// Packs take no room that files of jobs need.
func TestPacksMakeRoomForFiles(t *testing.T) {
	top := mount(t, "200m")
	s, q := openHome(t, filepath.Join(top, "home"), queuefs.Options{Segment: 1 << 26})
	defer closeHome(t, s)
	const pages = 3
	fillPages(t, q, pages, 6000)
	fill(t, top, pages*queuefs.PageJobs*(4096+8192)+2<<20)
	maintained(t, s)
	if n := s.Behind(); n != 0 {
		t.Errorf("%d jobs have no files", n)
	}
	submit(t, q, queuefs.Meta{}, "x")
}

// Packs take no room that the journal needs, nor does that wait for the next
// checkpoint, which lets go of old segments.
func TestPacksMakeRoomForJournal(t *testing.T) {
	top := mount(t, "200m")
	s, q := openHome(t, filepath.Join(top, "home"), queuefs.Options{Segment: 3 << 20})
	defer closeHome(t, s)
	large := submit(t, q, queuefs.Meta{Sidecar: strings.Repeat("s", queuefs.MaxSidecar)}, "")
	fillPages(t, q, 2, 1000)
	maintained(t, s)
	fill(t, top, 5<<19) // too little for a segment, but for the packs
	// Changes of a job that has its files take room in the journal only.
	again := func() error {
		_, err := q.Delete(ctx, large.ID)
		if err == nil {
			_, err = q.Requeue(ctx, large.ID)
		}
		return err
	}
	n := 0
	for ; n < 100; n++ {
		if err := again(); errors.Is(err, queuefs.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n == 100 {
		t.Fatal("there is no end to the room")
	}
	maintained(t, s)
	if err := again(); err != nil {
		t.Error(err)
	}
}

// TestAFewFilesAreNotAFewOctets fills a file system that has more room than it may
// have files.
func TestAFewFilesAreNotAFewOctets(t *testing.T) {
	const files = 4000
	dir := mount(t, fmt.Sprintf("400m,nr_inodes=%d", files))
	home := filepath.Join(dir, "home")
	s, q := openHome(t, home, queuefs.Options{})
	w := tryForSpace(t, s, q, world{"jobs": jobs{byID: map[queuefs.JobID]fact{}}}, 30_000)
	taken := len(w["jobs"].byID)
	if taken < files/2-200 {
		t.Errorf("%d jobs are taken where %d files may be", taken, files)
	}
	if d := w.difference(observe(t, s)); d != "" {
		t.Errorf("full: %s", d)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Ffree < 10 {
		t.Errorf("%d files are left, %v", st.Ffree, err)
	}
	for range taken {
		if _, err := q.Next(ctx, "w"); err != nil {
			t.Fatal(err)
		}
	}
	culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}})
	maintained(t, s)
	submit(t, q, queuefs.Meta{}, "again")
	closeHome(t, s)
}
