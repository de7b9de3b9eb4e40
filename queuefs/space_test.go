package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/job"
)

// mount gives a file system of its own with so many octets, or skips the test.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("cutie-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs a small file system to fill, and may not mount one: %v", err)
	}
	t.Cleanup(func() {
		should(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return dir
}

// fill takes all room there is, but for so many octets, and that of the reserve.
func fill(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(dir, "home/cutie-reserve")))
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	must(t, err)
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
	must(t, errors.Join(f.Truncate(max(n-leave, 0)), f.Close()))
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
			must(t, err)
		}
		must(t, errOf(sub.Commit(ctx)))
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
	large := submit(t, q, queuefs.Meta{Sidecar: strings.Repeat("s", job.MaxSidecar)}, "")
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
	should(t, again())
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
	nextN(t, q, taken)
	culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}})
	maintained(t, s)
	submit(t, q, queuefs.Meta{}, "again")
}

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
	must(t, err)
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
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 }))))
			maintain := func(want error) {
				t.Helper()
				now = now.Add(passes)
				if err := s.Maintain(ctx); !errors.Is(err, want) {
					t.Fatalf("maintain: got %v, want %v", err, want)
				}
			}
			submitN(t, q, 3, queuefs.Meta{}, "small")
			maintain(nil)
			large := submit(t, q, queuefs.Meta{}, strings.Repeat("large", 40_000))
			submitN(t, q, 10, queuefs.Meta{}, "these cannot be written")
			disk.full = true
			nextN(t, q, 2)
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
			nextN(t, q, 2)
			for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				must(t, err)
			}
			maintain(queuefs.ErrNoSpace)
			if got := filesOf(t, dir); got != "" {
				t.Errorf("got %s", got)
			}
			wantErr(t, errOf(q.Job(large.ID)), queuefs.ErrNoJob, "")
			disk.full = false
			maintain(nil)
			if got := filesOf(t, dir); strings.Count(got, "jobs/payload/") != 10 || strings.Count(got, "jobs/pending/") != 10 {
				t.Errorf("got %s", got)
			}
			closeHome(t, s)
		})
	}
}

// A home without room for another event opens all the same; a change of the
// properties is told when there is room.
func TestChangedPropertiesAreToldWhenThereIsRoom(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment})
	f := newFollower(t)
	f.follow(s)
	_, first := q.InfoFile()
	const fill = 14 // events, of one block each, beside those of the head and the beginning
	submitN(t, q, fill, queuefs.Meta{}, "x")
	closeHome(t, s)
	edit(t, dir, properties(t, dir)+"maxAttempts: 3\n")
	// The next segment, as if it had never been prepared.
	if err := os.Remove(dir + "/log/journal/0000000000000002.log"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	full := true
	s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if full && step == "prepare segment" {
			return syscall.ENOSPC
		}
		return do()
	}})
	defer closeHome(t, s)
	f.follow(s)
	for range 2 {
		if q.Info().MaxAttempts != 3 || q.Seq() != fill {
			t.Errorf("without room: got %+v, event %d", q.Info(), q.Seq())
		}
		reload(t, s)
	}
	full = false
	reload(t, s)
	if n := tells(t, f, q, first); n != 1 || q.Seq() != fill+1 {
		t.Errorf("with room: got %d events of properties, %d of all", n, q.Seq())
	}
}

// A full disk keeps no home closed whose journal speaks of a queue that other
// hands have taken away. The journal stays until its last numbers are kept.
func TestNumbersOfAQueueTakenAwayAreKeptOnceThereIsRoom(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submitN(t, q, 3, queuefs.Meta{}, "x")
	crashed := copyHome(t, dir)
	closeHome(t, s)
	must(t, os.RemoveAll(crashed+"/queues/jobs"))
	write(t, crashed+"/queues.txt", "")
	full := true
	o := queuefs.Options{Fault: func(step string, do func() error) error {
		if full && step == "append to small" {
			return syscall.ENOSPC
		}
		return do()
	}}
	create := func(s *queuefs.Service) (*queuefs.Queue, error) {
		return s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs"})
	}
	for range 2 { // the second finds the journal as the first did
		s = openBare(t, crashed, o)
		wantErr(t, s.Checkpoint(ctx), queuefs.ErrNoSpace, "checkpoint")
		wantErr(t, errOf(create(s)), queuefs.ErrNoSpace, "create")
		wantErr(t, s.Close(), queuefs.ErrNoSpace, "close")
	}
	s = openBare(t, crashed, o)
	full = false
	closeHome(t, s)
	s = openBare(t, crashed, o)
	defer closeHome(t, s)
	q, err := create(s)
	must(t, err)
	if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != 4 || j.Seq != 4 {
		t.Errorf("got %v at event %d, want the fourth", j.ID, j.Seq)
	}
}

// TestAFullDiskIsFreedByConsumingAndCulling fills a file system by jobs that come
// faster than their files can be written, and has no other room than what those
// leave that are done. Also where others have taken all the rest.
func TestAFullDiskIsFreedByConsumingAndCulling(t *testing.T) {
	for name, taken := range map[string]bool{"by jobs": false, "by others, too": true} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, "64m")
			home := filepath.Join(dir, "home")
			o := queuefs.Options{Segment: 4 << 20}
			s, q := openHome(t, home, o)
			f := newFollower(t)
			f.follow(s)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for {
						if _, err := trySubmit(q, strings.Repeat("x", 1000)); err != nil {
							if !errors.Is(err, queuefs.ErrNoSpace) || errors.Is(err, queuefs.ErrFailed) {
								t.Errorf("full: got %v", err)
							}
							return
						}
					}
				})
			}
			wg.Wait()
			jobs := q.State().Pending
			if jobs < 1000 {
				t.Errorf("room for %d jobs", jobs)
			}
			if taken {
				maintained(t, s)
				fill(t, dir, 0)
			}
			refused, consumed := 0, int64(0)
			free := func() {
				t.Helper()
				for _, err := range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
					if err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
						t.Fatal(err)
					}
				}
				if err := s.Maintain(ctx); err != nil && !errors.Is(err, queuefs.ErrNoSpace) {
					t.Fatal(err)
				}
			}
			for consumed < jobs && refused < 100 {
				_, err := q.Next(ctx, "w")
				switch {
				case err == nil:
					consumed++
				case errors.Is(err, queuefs.ErrNoSpace):
					refused++
					free()
				default:
					t.Fatal(err)
				}
			}
			if consumed < jobs || refused > 0 && !taken {
				t.Errorf("%d of %d jobs consumed, %d times refused", consumed, jobs, refused)
			}
			free()
			if n := q.State().Consumed; n > 0 {
				t.Errorf("%d jobs are not culled", n)
			}
			submit(t, q, queuefs.Meta{}, "again")
			closeHome(t, s)
			r, err := check.Home(home, check.Options{Segment: o.Segment})
			if err != nil || r.Jobs != 1 || len(r.Problems)+len(r.Mended) > 0 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}
