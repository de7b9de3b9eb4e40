package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A badDisk fails reads with an error while it has one.
type badDisk struct {
	err  atomic.Pointer[syscall.Errno]
	part string // "job file" or "payload"
	only atomic.Int64
}

func (d *badDisk) step(step string, do func() error) error {
	if err := d.err.Load(); err != nil && step == d.part && d.only.Add(-1) >= 0 {
		return &os.PathError{Op: "read", Path: "x", Err: *err}
	}
	return do()
}

// fail makes the next n reads fail.
func (d *badDisk) fail(err syscall.Errno, n int64) {
	d.only.Store(n)
	d.err.Store(&err)
}

const always = 1 << 40

// unreadErrors are errors that say nothing of the file.
var unreadErrors = []syscall.Errno{syscall.EIO, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENODATA, syscall.ETIMEDOUT,
	syscall.EREMOTEIO, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EINVAL, syscall.EACCES, syscall.ENOKEY}

// TestUnreadJobFileIsNotLost changes jobs whose files cannot be read for a while: the
// change is refused, and the file stays as it is.
func TestUnreadJobFileIsNotLost(t *testing.T) {
	for _, errno := range unreadErrors {
		t.Run(errno.Error(), func(t *testing.T) {
			dir, disk := fastDir(t), &badDisk{part: "job file"}
			s, q := openHome(t, dir, queuefs.Options{Now: clock(), Reads: disk.step})
			meta := job.Meta{Filename: "f", Submitter: "s", Sidecar: "a sidecar"}
			submit(t, q, meta, "payload")
			must(t, s.Maintain(ctx))
			path := filepath.Join(dir, "queues/jobs/pending/j000000000001")
			before := sure(os.ReadFile(path))(t)

			disk.fail(errno, always)
			calls := map[string]func() error{
				"hold":   func() error { _, err := q.Hold(ctx, 1, ""); return err },
				"delete": func() error { _, err := q.Delete(ctx, 1); return err },
				"job":    func() error { _, err := q.Job(1); return err },
				"take":   func() error { _, err := q.Take(ctx, queuefs.Take{}); return err },
			}
			for name, call := range calls {
				wantErr(t, call(), content.ErrUnread, "%s", name)
			}
			must(t, s.Maintain(ctx))
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file has changed to %q, %v", after, err)
			}
			disk.fail(errno, 0)
			j, err := q.Hold(ctx, 1, "")
			if err != nil || j.Sidecar != meta.Sidecar || j.Filename != meta.Filename || j.Submitter != meta.Submitter {
				t.Errorf("got %+v, %v", j, err)
			}
			closeHome(t, s)
		})
	}
}

// TestUnreadJobsRest takes jobs whose files cannot be read for half a second: none is put
// on hold, and all are handed out in their order later.
func TestUnreadJobsRest(t *testing.T) {
	for _, part := range []string{"job file", "payload"} {
		for _, verify := range []bool{false, true} {
			t.Run(fmt.Sprint(part, verify), func(t *testing.T) {
				disk, late := &badDisk{part: part}, time.Duration(0)
				now := clock()
				o := queuefs.Options{Reads: disk.step, Now: func() time.Time { return now().Add(late) }}
				s, q := openWith(t, fastDir(t), o, func(i *home.QueueInfo) { i.VerifyOnRead = verify })
				submitN(t, q, 20, job.Meta{Sidecar: "s"}, "payload")
				must(t, s.Maintain(ctx))
				last := q.Seq()

				disk.fail(syscall.EIO, always)
				wantErr(t, errOf(q.Take(ctx, queuefs.Take{Max: 20})), content.ErrUnread, "")
				if s.Unread() == 0 || q.Seq() != last {
					t.Errorf("%d jobs cannot be read, and there are events up to %d after %d", s.Unread(), q.Seq(), last)
				}
				// The first few fail, and the consumer gets the next one.
				late = time.Hour
				must(t, s.Expire(ctx))
				if n := s.Unread(); n != 0 {
					t.Errorf("%d jobs cannot be read", n)
				}
				disk.fail(syscall.EIO, 3)
				j, err := q.Take(ctx, queuefs.Take{})
				if err != nil || j[0].ID != 4 {
					t.Errorf("got %v, %v", j, err)
				}
				// Others may do with a job that rests what they like.
				should(t, errOf(q.Hold(ctx, 2, "")))
				if n := s.Unread(); n != 2 {
					t.Errorf("%d jobs cannot be read", n)
				}
				late += time.Minute
				must(t, s.Expire(ctx))
				got, err := q.Take(ctx, queuefs.Take{Max: 20})
				if err != nil || len(got) != 18 || got[0].ID != 1 || got[1].ID != 3 || got[0].Sidecar != "s" {
					t.Errorf("got %v, %v", idsOfTaken(got), err)
				}
				if n := s.Unread(); n != 0 {
					t.Errorf("%d jobs cannot be read", n)
				}
				counted(t, q)
				closeHome(t, s)
			})
		}
	}
}

// TestWaiterIsServedWhenJobsCanBeRead waits for a job that cannot be read at first.
func TestWaiterIsServedWhenJobsCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &badDisk{part: "job file"}
		s, q := openHome(t, t.TempDir(), queuefs.Options{Reads: disk.step})
		submit(t, q, job.Meta{}, "payload")
		must(t, s.Checkpoint(ctx))
		disk.fail(syscall.EIO, 1)
		back := make(chan taking, 1)
		wait(ctx, q, 0, 1, back)
		if s.Unread() != 1 {
			t.Errorf("%d jobs cannot be read", s.Unread())
		}
		time.Sleep(time.Second)
		must(t, s.Expire(ctx))
		expect(t, back, taking{jobs: []job.ID{1}})
		closeHome(t, s)
	})
}

// TestCullingAfterAFailureIsRefused culls when storage has failed, even if no job is due.
func TestCullingAfterAFailureIsRefused(t *testing.T) {
	var broken atomic.Bool
	s, q := openHome(t, fastDir(t), queuefs.Options{Fault: failIf(syscall.EIO, func(step string) bool {
		return broken.Load() && step == "journal sync"
	})})
	j := submit(t, q, job.Meta{}, "x")
	broken.Store(true)
	if _, err := q.Hold(ctx, j.ID, ""); !errors.Is(err, ledger.ErrFailed) {
		t.Fatalf("got %v", err)
	}
	var got error
	for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
		got = err
	}
	if !errors.Is(got, ledger.ErrFailed) {
		t.Errorf("got %v", got)
	}
	s.Close()
}

// TestWhatIsNotThereIsNotHandedOut serves a queue that verifies nothing: jobs
// whose payloads are not there, or have another length, are put on hold, with
// what they were, and those behind them are handed out.
func TestWhatIsNotThereIsNotHandedOut(t *testing.T) {
	for _, size := range []int{100, 200 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := fastDir(t)
			var told []string
			o := queuefs.Options{Now: clock(), Report: func(p durable.Finding) { told = append(told, p.String()) }}
			s, q := openHome(t, dir, o)
			submitN(t, q, 6, job.Meta{}, strings.Repeat("x", size))
			must(t, s.Maintain(ctx))
			for i, how := range []string{"cut", "gone", "grown", "", "gone"} {
				spoil(t, dir, job.ID(i+1), how)
			}
			for _, want := range []job.ID{4, 6} {
				taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: home.DefaultLease})
				if err != nil || !slices.Equal(idsOfTaken(taken), []job.ID{want}) {
					t.Fatalf("got %v, %v, want %v", idsOfTaken(taken), err, want)
				}
				if got := payload(t, q, want); len(got) != size {
					t.Errorf("payload of %v has %d octets", want, len(got))
				}
			}
			wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrEmpty, "")
			if got := q.IDs(index.Filter{Held: true}); !slices.Equal(got, []job.ID{1, 2, 3, 5}) {
				t.Errorf("held: got %v", got)
			}
			j, err := q.Job(1)
			if want := fmt.Sprintf("payload of j000000000001 has 3 octets instead of %d", size); err != nil ||
				j.HeldFor != want || j.Attempts != 0 || j.Consumer != "" {
				t.Errorf("got %+v, %v", j, err)
			}
			// Job files are published: they do not tell where the home is.
			if j, err := q.Job(2); err != nil || j.HeldFor != "payload of j000000000002: no such file or directory" {
				t.Errorf("got %+v, %v", j, err)
			}
			if len(told) != 4 || !strings.Contains(told[1], "payload/j000000000002") || !strings.HasSuffix(told[1], "; the job is on hold") {
				t.Errorf("told %q", told)
			}
			// One that was mended is handed out.
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/payload", j.ID.String()), []byte(strings.Repeat("x", size)), 0o666))
			must(t, errOf(q.Release(ctx, j.ID)))
			takes(t, q, 1)
			counted(t, q)
			closeHome(t, s)
		})
	}
}

// The length of a payload is what the index says, whatever other hands wrote
// into the job file.
func TestLengthIsNotWhatOtherHandsWrote(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	submit(t, q, job.Meta{}, "payload")
	must(t, s.Maintain(ctx))
	path := filepath.Join(dir, "queues/jobs/pending/j000000000001")
	text := sure(os.ReadFile(path))(t)
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "size: 7", "size: 9", 1)), 0o666))
	j, err := q.Next(ctx, "w")
	if err != nil || j.Size != 7 {
		t.Fatalf("got %d octets, %v", j.Size, err)
	}
	if got := payload(t, q, 1); got != "payload" {
		t.Errorf("got %q", got)
	}
}

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
	submitN(t, q, 3, job.Meta{}, "small")
	must(t, errOf(q.NextN(ctx, "w", 2)))
	if got := culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 1}}); len(got) != 1 || got[0].Job != 1 {
		t.Fatalf("culled %v", got)
	}
	if got := s.Behind(); got != 2 {
		t.Errorf("%d jobs are behind after one of three was culled", got)
	}
	crashed := copyHome(t, dir)
	must(t, s.Checkpoint(ctx))
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
		want.expect(t, s)
		must(t, s.Checkpoint(ctx))
		if ids := q.IDs(index.Filter{}); !slices.Equal(ids, []job.ID{2, 3}) {
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
	submit(t, q, job.Meta{}, "filed")
	must(t, s.Checkpoint(ctx))
	submit(t, q, job.Meta{}, strings.Repeat("large", 50_000))
	must(t, errOf(q.NextN(ctx, "w", 2)))
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
	f := sure(os.Create(name))(t)
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
		d, err := sub.Add(job.Meta{Filename: "f"})
		if err == nil {
			_, err = io.WriteString(d, strings.Repeat("x", size))
		}
		var jobs []job.Job
		if err == nil {
			jobs, err = sub.Commit(ctx)
		}
		sub.Discard()
		switch {
		case errors.Is(err, ledger.ErrNoSpace) && !errors.Is(err, ledger.ErrFailed):
			return w
		case err != nil:
			t.Fatalf("full: got %v", err)
		}
		w = w.set("jobs", jobs[0].ID, func(f *fact) {
			*f = fact{status: job.Pending, filename: "f", payload: strings.Repeat("x", size)}
		})
		if err := s.Maintain(ctx); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
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
			w := world{"jobs": jobs{byID: map[job.ID]fact{}}}
			for range 10 {
				j := submit(t, q, job.Meta{Filename: "f"}, strings.Repeat("y", c.size))
				w = w.set("jobs", j.ID, func(f *fact) {
					*f = fact{status: job.Pending, filename: "f", payload: strings.Repeat("y", c.size)}
				})
			}
			free := fill(t, dir, c.leave)
			w = tryForSpace(t, s, q, w, c.size)
			w.expect(t, s, "full")
			if s.Err() != nil {
				t.Fatalf("full: the service failed: %v", s.Err())
			}
			// Opened on the full file system it has lost nothing either.
			if err := s.Close(); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
				t.Errorf("close: %v", err)
			}
			s, err := queuefs.Open(home, o)
			if err == nil {
				w.expect(t, s, "opened while full")
				w = tryForSpace(t, s, s.Queues()[0], w, c.size)
			} else if !errors.Is(err, ledger.ErrNoSpace) {
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
			j := submit(t, q, job.Meta{Filename: "f"}, "again")
			w = w.set("jobs", j.ID, func(f *fact) { *f = fact{status: job.Pending, filename: "f", payload: "again"} })
			w.expect(t, s, "with room again")
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
	for range pages * index.PageJobs / batch {
		sub := q.Begin()
		for range batch {
			d, err := sub.Add(job.Meta{})
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
		if err := s.Maintain(ctx); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
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
	fill(t, top, pages*index.PageJobs*(4096+8192)+2<<20)
	maintained(t, s)
	if n := s.Behind(); n != 0 {
		t.Errorf("%d jobs have no files", n)
	}
	submit(t, q, job.Meta{}, "x")
}

// Packs take no room that the journal needs, nor does that wait for the next
// checkpoint, which lets go of old segments.
func TestPacksMakeRoomForJournal(t *testing.T) {
	top := mount(t, "200m")
	s, q := openHome(t, filepath.Join(top, "home"), queuefs.Options{Segment: 3 << 20})
	large := submit(t, q, job.Meta{Sidecar: strings.Repeat("s", job.MaxSidecar)}, "")
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
		if err := again(); errors.Is(err, ledger.ErrNoSpace) {
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
	w := tryForSpace(t, s, q, world{"jobs": jobs{byID: map[job.ID]fact{}}}, 30_000)
	taken := len(w["jobs"].byID)
	if taken < files/2-200 {
		t.Errorf("%d jobs are taken where %d files may be", taken, files)
	}
	w.expect(t, s, "full")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Ffree < 10 {
		t.Errorf("%d files are left, %v", st.Ffree, err)
	}
	nextN(t, q, taken)
	culled(t, s, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}})
	maintained(t, s)
	submit(t, q, job.Meta{}, "again")
}

// A crowded disk has no room for anything new while it is full.
type crowded struct{ full bool }

func (c *crowded) step(name string, do func() error) error {
	verb, _, _ := strings.Cut(name, " ")
	if name == "commit table" {
		verb = "stage"
	}
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
	temps := sure(filepath.Glob(dir + "/cutie-tmp/*"))(t)
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
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 }))))
			maintain := func(want error) {
				t.Helper()
				now = now.Add(passes)
				if err := s.Maintain(ctx); !errors.Is(err, want) {
					t.Fatalf("maintain: got %v, want %v", err, want)
				}
			}
			submitN(t, q, 3, job.Meta{}, "small")
			maintain(nil)
			large := submit(t, q, job.Meta{}, strings.Repeat("large", 40_000))
			submitN(t, q, 10, job.Meta{}, "these cannot be written")
			disk.full = true
			nextN(t, q, 2)
			maintain(ledger.ErrNoSpace)
			for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				if err != nil || c.Job > 2 {
					t.Fatalf("culled %v, %v", c, err)
				}
			}
			maintain(ledger.ErrNoSpace)
			if got := filesOf(t, dir); strings.Contains(got, "j000000000001") || strings.Contains(got, "j000000000002") || !strings.Contains(got, "j000000000003") {
				t.Errorf("got %s", got)
			}
			// What was never filed goes, too.
			nextN(t, q, 2)
			for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
				must(t, err)
			}
			maintain(ledger.ErrNoSpace)
			if got := filesOf(t, dir); got != "" {
				t.Errorf("got %s", got)
			}
			wantErr(t, errOf(q.Job(large.ID)), ledger.ErrNoJob, "")
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
	submitN(t, q, fill, job.Meta{}, "x")
	closeHome(t, s)
	edit(t, dir, properties(t, dir)+"maxAttempts: 3\n")
	// The next segment, as if it had never been prepared.
	if err := os.Remove(dir + "/log/journal/0000000000000002.log"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	full := true
	s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment, Fault: failIf(syscall.ENOSPC, func(step string) bool {
		return full && step == "prepare segment"
	})})
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
	submitN(t, q, 3, job.Meta{}, "x")
	crashed := copyHome(t, dir)
	closeHome(t, s)
	must(t, os.RemoveAll(crashed+"/queues/jobs"))
	write(t, crashed+"/queues.txt", "")
	full := true
	o := queuefs.Options{Fault: failIf(syscall.ENOSPC, func(step string) bool {
		return full && step == "commit table"
	})}
	create := func(s *queuefs.Service) (*queuefs.Queue, error) {
		return s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"})
	}
	for range 2 { // the second finds the journal as the first did
		s = openBare(t, crashed, o)
		wantErr(t, s.Checkpoint(ctx), ledger.ErrNoSpace, "checkpoint")
		wantErr(t, errOf(create(s)), ledger.ErrNoSpace, "create")
		wantErr(t, s.Close(), ledger.ErrNoSpace, "close")
	}
	s = openBare(t, crashed, o)
	full = false
	closeHome(t, s)
	s = openBare(t, crashed, o)
	defer closeHome(t, s)
	q, err := create(s)
	must(t, err)
	if j := submit(t, q, job.Meta{}, "x"); j.ID != 4 || j.Seq != 4 {
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
							if !errors.Is(err, ledger.ErrNoSpace) || errors.Is(err, ledger.ErrFailed) {
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
					if err != nil && !errors.Is(err, ledger.ErrNoSpace) {
						t.Fatal(err)
					}
				}
				if err := s.Maintain(ctx); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
					t.Fatal(err)
				}
			}
			for consumed < jobs && refused < 100 {
				_, err := q.Next(ctx, "w")
				switch {
				case err == nil:
					consumed++
				case errors.Is(err, ledger.ErrNoSpace):
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
			submit(t, q, job.Meta{}, "again")
			closeHome(t, s)
			r, err := check.Home(home, check.Options{Segment: o.Segment})
			if err != nil || r.Jobs != 1 || len(r.Problems)+len(r.Mended) > 0 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}
