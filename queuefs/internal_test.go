package queuefs

import (
	"context"
	"errors"
	"fmt"
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

	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// still is a journal without records.
type still struct{ journal.Journal }

func (still) Stats() journal.Stats { return journal.Stats{} }

func newSpace(t *testing.T) *diskSpace {
	t.Helper()
	dir := sure(durable.OpenDir(t.TempDir(), nil))(t)
	t.Cleanup(func() { dir.Close() })
	shared := &ledger.Shared{Gate: ledger.NewGate(), Now: time.Now, Journal: still{}}
	return &diskSpace{Home: dir, Shared: shared, Limit: 1 << 30}
}

// A journal that reached its bound with few files to write waits for a checkpoint alone.
func TestFewFilesAreLeftToACheckpoint(t *testing.T) {
	s := newSpace(t)
	s.Replayed(2 << 30)
	s.Shared.Behind.Add(4096)
	if !s.Lagging() || s.Overdue() {
		t.Errorf("lagging %v, overdue %v", s.Lagging(), s.Overdue())
	}
	s.Shared.Behind.Add(1)
	if !s.Overdue() {
		t.Error("so many are not few")
	}
	s.Checkpointed(0)
	if s.Overdue() {
		t.Error("overdue without lag")
	}
}

// With few files to write a checkpoint is due before the journal reaches its bound, and
// with many it is not.
func TestALightCheckpointIsDueSooner(t *testing.T) {
	s := newSpace(t)
	now := time.Now()
	s.Replayed(256<<20 - 1)
	if due, _, _ := s.Due(now, now); due {
		t.Error("due before")
	}
	s.Replayed(1)
	if due, _, _ := s.Due(now, now); !due {
		t.Error("not due")
	}
	s.Shared.Behind.Add(5001)
	if due, _, _ := s.Due(now.Add(time.Second), now); !due {
		t.Error("not due in calm")
	}
	s.Shared.Journal = &busy{}
	s.Due(now, now)
	if due, calm, _ := s.Due(now.Add(time.Second), now); due || calm {
		t.Errorf("due %v, calm %v, with many files in a burst", due, calm)
	}
}

// It is calm as the last look found it, until the journal grows.
func TestCalmEndsWithABurst(t *testing.T) {
	s := newSpace(t)
	j := &held{}
	s.Shared.Journal = j
	now := time.Now()
	if s.Calm() {
		t.Error("calm before a look")
	}
	s.Due(now, now)
	s.Due(now.Add(time.Second), now)
	if !s.Calm() {
		t.Error("not calm without a record")
	}
	if j.is.Written += calmRate; s.Calm() {
		t.Error("calm in a burst")
	}
	if s.Due(now.Add(1200*time.Millisecond), now); s.Calm() {
		t.Error("calm right after it")
	}
	if s.Due(now.Add(1400*time.Millisecond), now); !s.Calm() {
		t.Error("not calm in the end")
	}
}

// held is a journal of so much.
type held struct {
	journal.Journal
	is journal.Stats
}

func (h *held) Stats() journal.Stats { return h.is }

// busy is a journal in a burst.
type busy struct {
	journal.Journal
	written int64
}

func (b *busy) Stats() journal.Stats {
	b.written += 4 << 20
	return journal.Stats{Written: b.written}
}

// Files that a crash left to be written make the service write, and hold nobody back.
func TestFilesFoundBehindHoldNobodyBack(t *testing.T) {
	s := newSpace(t)
	if s.Lagging() || s.TooFar() {
		t.Error("nothing is behind")
	}
	s.Shared.Behind.Add(3 * maxBehindJobs)
	if !s.Lagging() || !s.TooFar() {
		t.Error("so many must hold submissions back")
	}
	s.Opened()
	if !s.Lagging() || s.TooFar() {
		t.Error("those found at the opening hold back")
	}
	s.Shared.Behind.Add(2 * maxBehindJobs)
	if !s.TooFar() {
		t.Error("new ones do not hold back")
	}
	s.Shared.Behind.Add(-3 * maxBehindJobs)
	s.Checkpointed(0)
	if !s.TooFar() {
		t.Error("after a checkpoint, those found still count for nothing")
	}
}

func TestTheBoundInBytesCountsTheReplayedJournal(t *testing.T) {
	s := newSpace(t)
	s.Limit = 1000
	s.Replayed(999)
	if s.Behind() != 999 || s.Lagging() {
		t.Errorf("got %d bytes behind, lagging %v", s.Behind(), s.Lagging())
	}
	s.Replayed(1)
	if !s.Lagging() || s.TooFar() {
		t.Error("want the bound reached, and not twice")
	}
	s.Replayed(1000)
	if !s.TooFar() {
		t.Error("want twice the bound reached")
	}
	s.Checkpointed(0)
	if s.Behind() != 0 || s.Lagging() {
		t.Errorf("got %d bytes behind after a checkpoint", s.Behind())
	}
}

// Of the jobs that are behind, Many writes those that nobody else does: under
// a load in which every submission writes files, a checkpoint would else write as
// many again, and last twice as long.
func TestFilesThatOthersWriteAreNotWaitedFor(t *testing.T) {
	s := crashed(t, 3)
	if got := s.Behind(); got != 3 {
		t.Errorf("a crash left %d jobs behind, want 3", got)
	}
	must(t, s.Checkpoint(t.Context()))
	q := sure(s.Queue("q"))(t)
	submitMany(t, q, 3*dir.AtOnce)
	if err := q.dir.WriteMany(func() bool {
		submitMany(t, q, dir.AtOnce)
		if n, err := q.dir.WriteSome(dir.AtOnce); n != dir.AtOnce || err != nil {
			t.Errorf("others wrote the files of %d jobs: %v", n, err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	// Others, this, and others again.
	if got := backlogOf(q); got != 2*dir.AtOnce {
		t.Errorf("%d jobs are behind, want %d: those that came meanwhile", got, 2*dir.AtOnce)
	}
	must(t, s.Close())
}

func backlogOf(q *Queue) int {
	n, _ := q.ledger.Backlog()
	return n
}

// crashed returns a service with a queue whose jobs a crash left without files.
func crashed(t *testing.T, jobs int) *Service {
	t.Helper()
	dir := t.TempDir()
	must(t, home.Init(dir, home.ServiceInfo{Name: "x"}))
	s, err := Open(dir, Options{})
	must(t, err)
	q, err := s.CreateQueue(t.Context(), home.QueueInfo{ID: "q", Name: "q", CullingSize: -1, CullingAge: -1})
	must(t, err)
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
		must(t, errOf(sub.Add(job.Meta{})))
	}
	must(t, errOf(sub.Commit(t.Context())))
}

func TestFreeSpaceIsRememberedForAMomentFarFromTheLimit(t *testing.T) {
	d := sure(durable.OpenDir(t.TempDir(), nil))(t)
	defer d.Close()
	free, files, err := d.Free()
	must(t, err)
	const fresh = -time.Hour                 // however slow the machine is
	more, moreFiles := 2*free+1<<30, 2*files // than there is
	for _, c := range []struct {
		about        string
		bytes, files int64 // remembered
		age          time.Duration
		want         bool
	}{
		{"far from the limit", more + farBytes, moreFiles + farFiles, fresh, true},
		{"a moment ago", more + farBytes, moreFiles + farFiles, moment, false},
		{"near the limit", more + farBytes - 1, moreFiles + farFiles, fresh, false},
		{"few files", more + farBytes, moreFiles + farFiles - 1, fresh, false},
	} {
		var h headroom
		h.last.Store(&answer{c.bytes, c.files, time.Now().Add(-c.age)})
		if got := h.has(d, more, moreFiles); got != c.want {
			t.Errorf("%s: got %v, want %v", c.about, got, c.want)
		}
		if now := h.last.Load(); (now.bytes != c.bytes) == c.want {
			t.Errorf("%s: remembers %d bytes, had remembered %d", c.about, now.bytes, c.bytes)
		}
	}
	if h := new(headroom); !h.has(d, 0, 0) || h.last.Load() == nil {
		t.Error("the first answer is not remembered")
	}
}

var errGateClosed = errors.New("stopped")

// gateSleep is as that of a gate that closes with stopped.
func gateSleep(stopped <-chan struct{}) func(context.Context, <-chan struct{}) error {
	return func(ctx context.Context, wake <-chan struct{}) error {
		select {
		case <-wake:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-stopped:
			return errGateClosed
		}
	}
}

// TestOneRequestAtATimeHasAKey has many requests with several keys in any order, and no
// two of them with one key at the same time.
func TestOneRequestAtATimeHasAKey(t *testing.T) {
	var (
		c    keyClaims
		all  sync.WaitGroup
		busy [4]atomic.Int32
		done atomic.Int32
	)
	for n := range 200 {
		all.Go(func() {
			sums := []job.KeySum{job.KeySum(1 + n%4), job.KeySum(1 + (n+1+n%3)%4)}
			release, err := c.claim(t.Context(), sums, gateSleep(nil))
			if err != nil {
				t.Error(err)
				return
			}
			for _, k := range sums {
				if busy[k-1].Add(1) != 1 {
					t.Errorf("key %d is claimed twice", k)
				}
			}
			for _, k := range sums {
				busy[k-1].Add(-1)
			}
			done.Add(1)
			release()
		})
	}
	all.Wait()
	if done.Load() != 200 {
		t.Errorf("%d requests came through", done.Load())
	}
}

func TestAWaitForAKeyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c keyClaims
		first, err := c.claim(t.Context(), []job.KeySum{1, 2}, gateSleep(nil))
		must(t, err)
		start := time.Now()
		_, err = c.claim(t.Context(), []job.KeySum{2, 3}, gateSleep(nil))
		if waited := time.Since(start); !errors.Is(err, ErrKeyBusy) || waited != keyWait {
			t.Errorf("got %v after %v", err, waited)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.claim(short, []job.KeySum{1}, gateSleep(nil)); !errors.Is(err, ErrKeyBusy) {
			t.Errorf("at the end of its time: got %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err = c.claim(gone, []job.KeySum{1}, gateSleep(nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that has gone: got %v", err)
		}
		stopped := make(chan struct{})
		close(stopped)
		if _, err = c.claim(t.Context(), []job.KeySum{1}, gateSleep(stopped)); err != errGateClosed {
			t.Errorf("of a stopped service: got %v", err)
		}
		// 3 was never claimed.
		third, err := c.claim(t.Context(), []job.KeySum{3}, gateSleep(nil))
		must(t, err)
		third()
		first()
		again, err := c.claim(t.Context(), []job.KeySum{1, 2, 3}, gateSleep(nil))
		must(t, err)
		again()
	})
}

func at(s int) time.Time { return time.UnixMicro(1e15).UTC().Add(time.Duration(s) * time.Second) }

func wantJobs(t *testing.T, x *keyTakes, key, want string) {
	t.Helper()
	if got := fmt.Sprint(x.with(key)); got != want {
		t.Errorf("key %s: got %s, want %s", key, got, want)
	}
}

// Changes come in after their commit, so a requeue may come in after the take that
// followed it.
func TestALateChangeForgetsNoLaterTake(t *testing.T) {
	var x keyTakes
	pending := func(seq job.Seq) *job.Job { return &job.Job{ID: 1, Seq: seq, Status: job.Pending} }
	taken := func(seq job.Seq) *job.Job {
		return &job.Job{ID: 1, Seq: seq, Status: job.Consumed, ConsumerKey: "a", Consumed: at(int(seq)), Lease: job.Lease{Ends: at(100)}}
	}
	x.follow(pending(1), taken(2))
	x.follow(pending(3), taken(4))
	x.follow(taken(2), pending(3))
	wantJobs(t, &x, "a", "[j000000000001]")
	x.follow(taken(4), taken(5)) // the lease is extended
	x.follow(taken(5), pending(6))
	wantJobs(t, &x, "a", "[]")
}

func TestTakesAreRememberedForATime(t *testing.T) {
	var x keyTakes
	none := func(id job.ID) *job.Job { return &job.Job{ID: id} }
	take := func(id job.ID, key string, s int, lease time.Time) *job.Job {
		j := &job.Job{ID: id, Status: job.Consumed, ConsumerKey: key, Consumed: at(s), Lease: job.Lease{Ends: lease}}
		x.follow(none(id), j)
		return j
	}
	take(2, "a", 0, time.Time{})
	take(1, "a", 0, time.Time{})
	b := take(3, "b", 0, at(100))
	take(4, "c", 0, at(100))
	take(5, "", 0, at(100))
	wantJobs(t, &x, "a", "[j000000000001 j000000000002]")
	wantJobs(t, &x, "b", "[j000000000003]")
	wantJobs(t, &x, "", "[]")

	longer := *b
	longer.Lease.Ends = at(500)
	x.follow(b, &longer)
	take(6, "d", 200, at(201))
	wantJobs(t, &x, "b", "[j000000000003]")
	wantJobs(t, &x, "c", "[]") // its lease is over
	wantJobs(t, &x, "a", "[j000000000001 j000000000002]")
	take(7, "e", 300, at(301))
	wantJobs(t, &x, "a", "[]") // after five minutes

	done := longer
	done.ConsumerKey = ""
	x.follow(&longer, &done)
	wantJobs(t, &x, "b", "[]")

	// The key is free again, and has none of the jobs of before.
	take(8, "a", 400, time.Time{})
	wantJobs(t, &x, "a", "[j000000000008]")
	take(9, "a", 900, time.Time{})
	wantJobs(t, &x, "a", "[j000000000009]")
}

func TestSideBySideDoesEachOnce(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		times := make([]atomic.Int32, n)
		rest := sideBySide(n, func(i int) bool { return i%3 > 0 }, func(i int) {
			times[i].Add(1)
			if i%3 == 0 {
				t.Errorf("%d does not stand apart", i)
			}
		})
		if !slices.IsSorted(rest) || n == 1000 && len(rest) != 334 {
			t.Errorf("of %d the rest are %v", n, rest)
		}
		for _, i := range rest {
			times[i].Add(1)
		}
		for i := range times {
			if got := times[i].Load(); got != 1 {
				t.Errorf("%d of %d: %d times", i, n, got)
			}
		}
	}
}

// A queue that is brought while the disk is full cannot be taken in, which
// is tried again at every Reload: what it counted of dirty jobs stays counted.
func TestAQueueThatCannotBeTakenInCountsForNothing(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "t"}))
	var full atomic.Bool
	now := time.Now()
	s := sure(Open(dir, Options{Segment: 1 << 20, Now: func() time.Time { return now }, Fault: func(step string, do func() error) error {
		if full.Load() && step == "mkdir corrupt" {
			return syscall.ENOSPC
		}
		return do()
	}}))(t)
	defer s.Close()
	q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1}))(t)
	sub := q.Begin()
	d := sure(sub.Add(job.Meta{}))(t)
	d.Write([]byte("x"))
	must(t, errOf(sub.Commit(ctx)))
	must(t, s.Checkpoint(ctx))
	// A copy of it, one job moved and one file that makes no sense.
	other := filepath.Join(dir, "queues/other")
	must(t, os.CopyFS(other, os.DirFS(filepath.Join(dir, "queues/jobs"))))
	info := filepath.Join(other, "queue-info.txt")
	b, _ := os.ReadFile(info)
	os.WriteFile(info, []byte(strings.ReplaceAll(string(b), "jobs", "other")), 0o666)
	os.Rename(filepath.Join(other, "pending/j000000000001"), filepath.Join(other, "consumed/j000000000001"))
	os.WriteFile(filepath.Join(other, "pending/j000000000002"), []byte("what is this"), 0o666)
	os.WriteFile(filepath.Join(dir, "queues.txt"), []byte("jobs\nother\n"), 0o666)
	full.Store(true)
	for range 6 {
		now = now.Add(time.Second)
		_, _ = s.Reload(ctx) // it says that there is no room
	}
	if n := s.Behind(); n != 0 {
		t.Errorf("%d jobs are dirty, want none: the queue is not served", n)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a call with a result.
func errOf[T any](_ T, err error) error { return err }

// sure returns the result of a call, which ends the test if it fails.
func sure[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// PagesInMemory returns how many pages of all indexes take memory.
func (s *Service) PagesInMemory() (n int) {
	for _, q := range s.Queues() {
		q.ledger.Look(func(x *index.Index) {
			_, full := x.Held()
			n += full
		})
	}
	return n
}

// ImageAhead makes an image of a home in a store now, and waits for it. No files are
// written: they stay behind the image.
func (s *Service) ImageAhead(ctx context.Context) error {
	return s.stored.Images.Now(ctx, func() error { return s.checkpoint(noFiles) })
}

// ImageDue reports whether Maintain is to make an image of a home in a store.
func (s *Service) ImageDue() bool {
	_, image, _, _ := s.due()
	return image
}

// LoadPacks loads the packs from a page on.
func (q *Queue) LoadPacks(page int) { q.content.Packs.Load(page, q.svc.usable) }

// KeyRemembered is how long a job consumed without a lease is given again for its key.
const KeyRemembered = keyRemembered
