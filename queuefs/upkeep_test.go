package queuefs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/table"
	"cutie/testdata/long"
)

// TestCheckpointWritesWhatChanged counts the pages that checkpoints write.
func TestCheckpointWritesWhatChanged(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 4 << 20})
	defer closeHome(t, s)
	fillQueue(t, q, 3*index.PageJobs, 1)
	before := contents(t, dir, table.Pages)
	checkpoint := func(want ...int) {
		t.Helper()
		must(t, s.Checkpoint(ctx))
		after := contents(t, dir, table.Pages)
		var changed []int
		for _, key := range slices.Sorted(maps.Keys(after)) {
			if after[key] != before[key] {
				changed = append(changed, table.PageNumber(key))
			}
		}
		if before = after; !slices.Equal(changed, want) {
			t.Errorf("pages %d have changed, want %d", changed, want)
		}
	}
	checkpoint(0, 1, 2, 3)
	checkpoint()
	must(t, errOf(q.Delete(ctx, index.PageJobs+5)))
	checkpoint(1)
	submit(t, q, job.Meta{}, "x")
	checkpoint(3)
}

// TestFailedCheckpointIsMadeGood fails a checkpoint at each of its steps: the
// next one does what was left.
func TestFailedCheckpointIsMadeGood(t *testing.T) {
	for at := 1; ; at++ {
		dir := fastDir(t)
		f := newFaults(0, errInjected)
		o := queuefs.Options{Segment: segmentSize, Fault: f.step}
		s, q := openHome(t, dir, o)
		for n := range 3 {
			submit(t, q, job.Meta{Filename: fmt.Sprint(n)}, strings.Repeat("x", 100_000*n))
		}
		q.Next(ctx, "w")
		f.n, f.at = 0, at
		err := s.Checkpoint(ctx)
		f.at = 0
		if !f.fired() {
			closeHome(t, s)
			break
		}
		if err == nil && !strings.HasPrefix(f.name, "put ") {
			t.Errorf("%s: the checkpoint does not say that it failed", f.name)
		}
		if f.name == "syncfs" {
			// What was written before is in doubt: only the journal tells.
			wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrFailed, "after a failed sync")
			s.Close() // says so again
			v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
			s, q = openHome(t, dir, v.o)
		}
		if s.Err() != nil {
			// What a sync did not put on storage no second one does.
			if f.name != "syncfs" && f.name != "commit table" || !errors.Is(err, ledger.ErrFailed) {
				t.Errorf("%s: the service failed: %v", f.name, err)
			}
			s.Close()
			s, q = openHome(t, dir, o)
		}
		submit(t, q, job.Meta{}, "more")
		if err := s.Checkpoint(ctx); err != nil {
			t.Errorf("%s: the checkpoint after it: %v", f.name, err)
		}
		w := observe(t, s)
		crashed := copyHome(t, dir)
		closeHome(t, s)
		v := verifier{TB: t, dir: crashed, o: queuefs.Options{Segment: segmentSize}}
		s, _ = openHome(t, crashed, v.o)
		w.expect(t, s, "%s", f.name)
		closeHome(t, s)
		v.checkFiles(w)
	}
}

// TestMaintainWritesFiles keeps the calm pace: files are there after one call,
// the index half a minute later.
func TestMaintainWritesFiles(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	submit(t, q, job.Meta{}, "x")
	now = now.Add(time.Second)
	must(t, s.Maintain(ctx))
	if got := tree(t, dir); !strings.Contains(got, "jobs/pending/j000000000001") || !strings.Contains(got, "jobs/payload/j000000000001") {
		t.Errorf("got %s", got)
	}
	// Thirty seconds later the index has it too.
	steps := len(leftovers(t, dir))
	now = now.Add(31 * time.Second)
	must(t, s.Maintain(ctx))
	crashed := copyHome(t, dir)
	report := func(p durable.Finding) { t.Errorf("reported %v", p) }
	_, r := openHome(t, crashed, queuefs.Options{Report: report})
	if st := r.State(); st.Pending != 1 || st.Seq != 1 || steps != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestFilesKeepUpWithABurst submits without any upkeep: the journal stays
// within what the files may be behind.
func TestFilesKeepUpWithABurst(t *testing.T) {
	const behind = 300 << 10
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Behind: behind})
	newFollower(t).follow(s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			submitN(t, q, 60, job.Meta{}, strings.Repeat("x", 6000))
		})
	}
	wg.Wait()
	var journal int64
	names := sure(filepath.Glob(dir + "/log/journal/*.log"))(t)
	for _, name := range names {
		if st, err := os.Stat(name); err == nil {
			journal += st.Size()
		}
	}
	if journal > 4*behind {
		t.Errorf("the journal has %d octets", journal)
	}
	if n := strings.Count(tree(t, dir), "/pending/"); n < 480-4*behind/6000 {
		t.Errorf("%d of 480 jobs have files", n)
	}
}

// TestFilesWaitInABurst has files written from the bound of the lag on.
func TestFilesWaitInABurst(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Behind: 1_500_000, Now: func() time.Time { return now }})
	for i, tt := range []struct {
		jobs  int
		after time.Duration
		files int
	}{
		{20, 200 * time.Millisecond, 0},
		{20, 200 * time.Millisecond, 0},
		{20, 200 * time.Millisecond, 60}, // too much journal
		{20, 200 * time.Millisecond, 60},
		{0, 200 * time.Millisecond, 80}, // calm
		{20, 200 * time.Millisecond, 80},
		{20, time.Hour, 120},
	} {
		submitN(t, q, tt.jobs, job.Meta{}, strings.Repeat("x", 30_000))
		now = now.Add(tt.after)
		must(t, s.Maintain(ctx))
		if got := strings.Count(tree(t, dir), "/pending/j"); got != tt.files {
			t.Fatalf("step %d: %d jobs have files, want %d", i, got, tt.files)
		}
	}
}

// TestOneFileKeepsNoOtherFromBeingMade has a directory stand where a job file
// is to be.
func TestOneFileKeepsNoOtherFromBeingMade(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	strange := filepath.Join(dir, "queues/jobs/pending/j000000000001")
	must(t, os.Mkdir(strange, 0o777))
	submitN(t, q, 20, job.Meta{}, "x")
	for range 2 {
		now = now.Add(time.Second) // calm
		if err := s.Maintain(ctx); err == nil {
			t.Error("nobody is told of the file that cannot be made")
		}
	}
	if n := strings.Count(tree(t, dir), "/pending/j"); n != 19 {
		t.Errorf("%d of the 19 other jobs have files", n)
	}
	must(t, os.Remove(strange))
}

// TestLargeJobsAreFiledInOneCall has more in the journal than is written in
// one go.
func TestLargeJobsAreFiledInOneCall(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: func() time.Time { return now }})
	submitN(t, q, 120, job.Meta{}, strings.Repeat("x", 100<<10))
	now = now.Add(29 * time.Second) // calm
	must(t, s.Maintain(ctx))
	if n := strings.Count(tree(t, dir), "/pending/j"); n != 120 {
		t.Errorf("%d of 120 jobs have files", n)
	}
}

// TestCloseWaitsForUpkeep closes a home that has failed while its upkeep is in
// the middle of a file.
func TestCloseWaitsForUpkeep(t *testing.T) {
	var once sync.Once
	var s *queuefs.Service
	failing := false
	closed := make(chan error, 1)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Fault: func(step string, do func() error) error {
		if failing && step == "journal sync" {
			return syscall.EIO
		}
		if step == "put pending" {
			once.Do(func() {
				failing = true
				wantErr(t, errOf(trySubmit(s.Queues()[0], "")), ledger.ErrFailed, "submit")
				go func() { closed <- s.Close() }()
				select {
				case <-closed:
					t.Error("the home was closed under its upkeep")
				case <-time.After(50 * time.Millisecond):
				}
			})
		}
		return do()
	}})
	submitN(t, q, 3, job.Meta{}, "x")
	if err := s.Maintain(ctx); err != nil && !errors.Is(err, ledger.ErrFailed) && !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("maintain: %v", err)
	}
	if !failing || t.Failed() {
		t.Fatal("upkeep wrote no file, or lost the home under it")
	}
	if err := <-closed; err == nil {
		t.Error("close says that the files are exact")
	}
	s, q = openHome(t, dir, queuefs.Options{})
	if st := q.State(); st.Pending < 3 {
		t.Errorf("got %+v", st)
	}
}

// slow is a follower that takes its time: Flush says that it has begun, and
// ends when it is let go.
type slow struct {
	begun, end chan struct{}
	forgot     chan string
}

func (f *slow) Flush() error {
	select {
	case f.begun <- struct{}{}:
		<-f.end
	case <-f.end: // for good
	}
	return nil
}

func (f *slow) Synced() error { return nil }

func (f *slow) Forget(queue string) error {
	f.forgot <- queue
	return nil
}

// TestPropertiesDoNotWaitForACheckpoint changes properties, and makes a queue,
// while a follower keeps a checkpoint from its end. Only a queue of a name that
// was in use before waits: the follower has to forget the former one.
func TestPropertiesDoNotWaitForACheckpoint(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "former"})))
	must(t, s.RemoveQueue(ctx, "former"))
	f := &slow{begun: make(chan struct{}), end: make(chan struct{}), forgot: make(chan string, 9)}
	s.Follow(f)
	submit(t, q, job.Meta{}, "x")
	checkpointed := make(chan error)
	go func() { checkpointed <- s.Checkpoint(ctx) }()
	<-f.begun

	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "new"})))
	must(t, errOf(s.SetQueue(ctx, "new", set(func(i *home.QueueInfo) { i.Name = "a name" }))))
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Description = "changed" }))))
	must(t, s.SetService(ctx, func(i *home.ServiceInfo) error { i.Name = "changed"; return nil }))
	n, err := s.Queue("a name")
	must(t, err)
	submit(t, n, job.Meta{}, "y")
	again := make(chan error)
	go func() {
		_, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "former"})
		again <- err
	}()
	select {
	case err := <-again:
		t.Fatalf("made under a name in use before, during a checkpoint: %v", err)
	case id := <-f.forgot:
		t.Fatalf("%s forgotten during a checkpoint", id)
	case <-time.After(50 * time.Millisecond): // it has had time to go wrong
	}
	close(f.end)
	must(t, <-checkpointed)
	must(t, <-again)
	if id := <-f.forgot; id != "former" {
		t.Errorf("%s forgotten", id)
	}

	closeHome(t, s)
	if s, err = queuefs.Open(dir, queuefs.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"jobs", "new", "former"} {
		should(t, errOf(s.Queue(id)))
	}
	if n, err := s.Queue("new"); err != nil || n.Info().Name != "a name" || n.State().Pending != 1 {
		t.Errorf("the queue made during a checkpoint has not kept what it had: %v", err)
	}
	if s.Info().Name != "changed" {
		t.Error("the service has lost a property")
	}
}

// packed opens a home with jobs over three index pages, of which a checkpoint
// has packed the first two.
func packed(t *testing.T) (dir string, s *queuefs.Service, q *queuefs.Queue) {
	t.Helper()
	dir = fastDir(t)
	s, q = openHome(t, dir, queuefs.Options{Segment: segment.MaxSize})
	sub := q.Begin()
	for i := 1; i <= 2*index.PageJobs+100; i++ {
		d := sure(sub.Add(job.Meta{Sidecar: fmt.Sprint("side ", i)}))(t)
		must(t, errOf(d.Write([]byte(packedPayload(job.ID(i))))))
	}
	must(t, errOf(sub.Commit(ctx)))
	must(t, s.Checkpoint(ctx))
	return dir, s, q
}

// packedPayload is the payload of a job; every hundredth is too large for a
// pack.
func packedPayload(id job.ID) string {
	if id%100 == 0 {
		return strings.Repeat("large ", 4000) + fmt.Sprint(id)
	}
	return fmt.Sprint("payload of ", id)
}

func packFiles(t *testing.T, dir string) []string {
	t.Helper()
	names := sure(filepath.Glob(filepath.Join(dir, "log/packs/jobs/c*")))(t)
	return names
}

// loseFiles removes the files of the jobs that packs have.
func loseFiles(t *testing.T, dir string) {
	t.Helper()
	for id := job.ID(1); id < 2*index.PageJobs; id++ {
		if id%100 != 0 {
			must(t, errors.Join(os.Remove(filepath.Join(dir, "queues/jobs/payload", id.String())), os.Remove(filepath.Join(dir, "queues/jobs/pending", id.String()))))
		}
	}
}

// takeAll consumes n jobs and checks that they are the next ones, whole.
func takeAll(t *testing.T, q *queuefs.Queue, first job.ID, n int) {
	t.Helper()
	for n > 0 {
		jobs := sure(q.Take(ctx, queuefs.Take{By: "me", Max: min(n, 300)}))(t)
		for _, j := range jobs {
			if j.ID != first || j.Sidecar != fmt.Sprint("side ", int(j.ID)) || len(j.Extra) > 0 {
				t.Fatalf("got %v, want job %v as it was submitted", j, first)
			}
			got := string(j.AtHand())
			if j.AtHand() == nil {
				got = payload(t, q, j.ID)
			}
			if got != packedPayload(j.ID) {
				t.Fatalf("payload of %v: got %.40q", j.ID, got)
			}
			first++
		}
		n -= len(jobs)
	}
}

// Files of jobs that a pack holds are not read when they are handed out: with
// most of them gone the jobs are whole all the same.
func TestJobsAreHandedOutFromPacks(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			dir, s, q := packed(t)
			if got := packFiles(t, dir); len(got) != 2 {
				t.Fatalf("got packs %v, want two", got)
			}
			if restart {
				closeHome(t, s)
				s, q = openHome(t, dir, queuefs.Options{Segment: segment.MaxSize})
			}
			defer closeHome(t, s)
			loseFiles(t, dir)
			q.LoadPacks(0)
			takeAll(t, q, 1, 2*index.PageJobs+100)
		})
	}
}

// passOver reads job files and payloads of waiting jobs, by two goroutines beside each
// other as a package does, and checks them.
func passOver(t *testing.T, q *queuefs.Queue, wanted func(job.ID) bool) {
	t.Helper()
	pass := q.Pass()
	var wg sync.WaitGroup
	for k := range 2 {
		wg.Go(func() {
			for id := job.ID(1 + k); id <= 2*index.PageJobs+100; id += 2 {
				if !wanted(id) {
					continue
				}
				text, facts, err := pass.JobFile(id, job.Pending)
				if err != nil || sha256.Sum256(text) != facts.SHA256 || !strings.Contains(string(text), fmt.Sprint("side ", int(id))) {
					t.Errorf("job file of %v: %.80q, %v", id, text, err)
					return
				}
				in, err := pass.Payload(id)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(in)
				in.Close()
				if err != nil || string(got) != packedPayload(id) {
					t.Errorf("payload of %v: %.80q, %v", id, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A pass over waiting jobs reads the packs: with most files gone the jobs are whole.
func TestPassReadsPacks(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	loseFiles(t, dir)
	passOver(t, q, func(job.ID) bool { return true })
	if _, _, err := q.JobFile(1, job.Pending); err == nil {
		t.Error("the job file is there without the pack")
	}
}

// A pass reads no pack for the few jobs left of a page.
func TestPassLeavesPacksOfFewJobs(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	last := job.ID(index.PageJobs - 5)
	takeAll(t, q, 1, int(last)-1)
	must(t, s.Checkpoint(ctx))
	passOver(t, q, func(id job.ID) bool { return id >= last })
	must(t, os.Remove(filepath.Join(dir, "queues/jobs/pending", last.String())))
	if _, _, err := q.Pass().JobFile(last, job.Pending); err == nil {
		t.Error("the job file was read from a pack")
	}
	if got := packFiles(t, dir); len(got) != 2 {
		t.Errorf("got packs %v, want two", got)
	}
}

// A pass has a changed job from its file, and tells one in another state.
func TestPassTellsChangedJobs(t *testing.T) {
	_, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	takeAll(t, q, 1, 20)
	must(t, errOf(q.Requeue(ctx, 7)))
	must(t, s.Checkpoint(ctx))
	passOver(t, q, func(id job.ID) bool { return id == 7 || id > 20 })
	text, _, err := q.Pass().JobFile(7, job.Pending)
	if err != nil || !strings.Contains(string(text), "requeue") {
		t.Errorf("got %q, %v, want the file after the requeue", text, err)
	}
	if _, _, err := q.Pass().JobFile(8, job.Pending); !errors.Is(err, ledger.ErrNoJob) {
		t.Errorf("got %v, want that no such job is pending", err)
	}
	in := sure(q.Pass().Payload(8))(t)
	in.Close()
}

// What a pack says is believed only if it has the digests of the index.
func TestDamagedPackIsPassedOver(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(data []byte) []byte
	}{
		{"empty", func(d []byte) []byte { return d[:0] }},
		{"cut", func(d []byte) []byte { return d[:len(d)/2] }},
		{"table", func(d []byte) []byte { d[100] ^= 1; return d }},
		{"data", func(d []byte) []byte {
			for i := 20000; i < len(d); i += 50 {
				d[i] ^= 0x20
			}
			return d
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			dir, s, q := packed(t)
			defer func() { closeHome(t, s) }()
			for _, name := range packFiles(t, dir) {
				data, err := os.ReadFile(name)
				if err == nil {
					err = os.WriteFile(name, damage.do(data), 0o666)
				}
				must(t, err)
			}
			passOver(t, q, func(job.ID) bool { return true })
			q.LoadPacks(0)
			takeAll(t, q, 1, 2*index.PageJobs+100)
		})
	}
}

// A requeued job is told by its file, not by the pack that has it as it was
// first; a pack goes when its page has no pending job.
func TestPacksGoWithTheirJobs(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	takeAll(t, q, 1, 2*index.PageJobs-1)
	must(t, errOf(q.Requeue(ctx, 7)))
	must(t, s.Checkpoint(ctx))
	if got := packFiles(t, dir); len(got) != 1 || filepath.Base(got[0]) != "c000000000" {
		t.Errorf("got packs %v, want that of the first page", got)
	}
	j, err := q.Next(ctx, "me")
	if err != nil || j.ID != 7 || j.Requeues != 1 {
		t.Errorf("got %v, %v, want job 7 requeued once", j, err)
	}
	must(t, s.Checkpoint(ctx))
	if got := packFiles(t, dir); len(got) != 0 {
		t.Errorf("got packs %v, want none", got)
	}
}

// TestRandomLives leads homes through many short lives: random operations, one
// failing step in most of them, in any way, and between the lives a stop, a
// crash, work by hand, a check, a rebuilding. After each of them everything
// that was acknowledged is there.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	homes, lives := long.N(3, 12), 12
	for seed := range homes {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 77))
			f := newFaults(0, nil)
			c := newScenario(t, f)
			defer os.RemoveAll(c.dir)
			c.known = world{}
			for life := range lives {
				c.live(rng)
				c.settle(t, rng)
				if t.Failed() {
					t.Fatalf("in life %d, step %d failed: %q", life, f.at, f.name)
				}
			}
		})
	}
}

// live opens the home, does random things, and lets one step fail.
func (c *scenario) live(rng *rand.Rand) {
	f := c.fault
	f.n, f.at, f.name = 0, rng.IntN(80), ""
	f.stops, f.done = rng.IntN(2) == 0, rng.IntN(2) == 0
	f.err = []error{errInjected, syscall.ENOSPC, syscall.EIO}[rng.IntN(3)]
	c.maybe, c.over = nil, false
	if c.open(); c.over {
		return
	}
	for _, name := range []string{"jobs", "other"} {
		if _, err := c.s.Queue(name); err != nil {
			c.create(name)
		}
	}
	for range rng.IntN(40) {
		name := []string{"jobs", "other"}[rng.IntN(2)]
		if c.over {
			break
		}
		switch rng.IntN(12) {
		case 0, 1:
			c.submit(name, rng.IntN(9000))
		case 2:
			c.submit(name, rng.IntN(100), rng.IntN(20_000), rng.IntN(3000))
		case 3, 4:
			c.next(name, 1+rng.IntN(3))
		case 5:
			c.delete(name)
		case 6:
			c.requeue(name, job.Consumed)
		case 7:
			c.requeue(name, job.Deleted)
		case 8, 9:
			c.maintain()
		case 10:
			c.checkpoint()
		case 11:
			if rng.IntN(4) == 0 {
				c.submit(name, 140<<10)
			}
		}
	}
	if rng.IntN(3) > 0 {
		c.close()
		return
	}
	// The machine stops in the middle: all later steps fail.
	f.lock <- struct{}{}
	f.at, f.stops, f.done, f.err = f.n+1, true, false, errInjected
	<-f.lock
	c.close()
}

// settle finds out which of the possible worlds is there, after one of the
// things that happen to a home nobody has open.
func (c *scenario) settle(t *testing.T, rng *rand.Rand) {
	switch rng.IntN(6) {
	case 0:
		if r, err := check.Home(c.dir, check.Options{Rebuild: true, Segment: smallSegment, Now: c.o.Now}); err != nil || len(r.Problems) > 0 {
			t.Errorf("rebuild: %v, %+v", err, r)
		}
		// It lists what a creation that failed has left.
		for _, w := range c.outcomes() {
			for _, name := range []string{"jobs", "other"} {
				if _, err := os.Stat(filepath.Join(c.dir, "queues", name)); err == nil && w[name].byID == nil {
					w[name] = jobs{byID: map[job.ID]fact{}}
				}
			}
		}
	case 1:
		if r, err := check.Home(c.dir, check.Options{Repair: true, Segment: smallSegment, Now: c.o.Now}); err != nil || len(r.Problems) > 0 {
			t.Errorf("repair: %v, %+v", err, r)
		}
		defer c.moveByHand(t, rng)
	case 2:
		// Without it nothing tells a move by hand from a crash, and the journal rules.
		if !c.moved {
			loseRow(t, c.dir, table.Meta, table.CheckpointKey)
		}
	}
	c.moved = false
	s := sure(queuefs.Open(c.dir, queuefs.Options{Segment: smallSegment, Now: c.o.Now}))(t)
	c.f.follow(s)
	got := observe(t, s)
	is := -1
	for i, w := range c.outcomes() {
		if w.difference(got) == "" {
			is = i
		}
	}
	if is < 0 {
		for i, w := range c.outcomes() {
			t.Errorf("outcome %d: %s", i, w.difference(got))
		}
		s.Close()
		return
	}
	c.known = c.outcomes()[is]
	for _, q := range s.Queues() {
		c.f.check(q)
	}
	closeHome(t, s)
	v := verifier{TB: t, dir: c.dir, o: queuefs.Options{Segment: smallSegment, Now: c.o.Now}, f: c.f}
	v.checkFiles(c.known)
}

// moveByHand requeues a job the way an operator does.
func (c *scenario) moveByHand(t *testing.T, rng *rand.Rand) {
	ids := c.known.ids("jobs", job.Consumed)
	if len(ids) == 0 || t.Failed() {
		return
	}
	id := ids[rng.IntN(len(ids))]
	base := filepath.Join(c.dir, "queues/jobs")
	should(t, os.Rename(filepath.Join(base, "consumed", id.String()), filepath.Join(base, "pending", id.String())))
	c.moved = true
	c.known = c.known.set("jobs", id, func(f *fact) { f.status, f.consumer, f.requeues = job.Pending, "", f.requeues+1 })
}

// A crowd works on queues at once and counts what was acknowledged.
type crowd struct {
	t      *testing.T
	s      *queuefs.Service
	queues []*queuefs.Queue

	mu   sync.Mutex
	jobs map[*queuefs.Queue]int
	held map[string]int // by queue and job: takings less requeues of taken jobs
}

func (c *crowd) fail(format string, args ...any) {
	if !c.t.Failed() { // one of a kind is enough
		c.t.Errorf(format, args...)
	}
}

func (c *crowd) note(q *queuefs.Queue, id job.ID, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[q.ID()+id.String()] += n
}

// act does one thing at random.
func (c *crowd) act(rng *rand.Rand) {
	q := c.queues[rng.IntN(len(c.queues))]
	some := func(st job.Status) job.ID {
		ids := q.IDs(index.Filter{Status: st, Limit: 30})
		if len(ids) == 0 {
			return 1
		}
		return ids[rng.IntN(len(ids))]
	}
	var err error
	switch rng.IntN(16) {
	case 0, 1, 2, 3:
		err = c.submit(q, rng)
	case 4, 5:
		var jobs []job.Job
		if jobs, err = q.NextN(ctx, "taker", 1+rng.IntN(4)); err == nil {
			for _, j := range jobs {
				c.note(q, j.ID, 1)
				c.look(q, j)
			}
		}
	case 6:
		var j job.Job
		if j, err = q.Next(ctx, "taker"); err == nil {
			c.note(q, j.ID, 1)
			c.look(q, j)
		}
	case 7:
		_, err = q.Delete(ctx, some(job.Pending))
	case 8:
		var j job.Job
		if j, err = q.Requeue(ctx, some(job.Consumed)); err == nil {
			c.look(q, j)
		}
	case 9:
		_, err = q.Requeue(ctx, some(job.Deleted))
	case 10:
		var j job.Job
		if j, err = q.Peek(); err == nil {
			c.look(q, j)
		}
	case 11:
		var list []job.Job
		if list, err = q.List(index.Filter{Limit: 5, After: some(0)}); err == nil {
			for i, j := range list {
				if c.look(q, j); i > 0 && j.ID <= list[i-1].ID {
					c.fail("list is out of order: %v behind %v", j.ID, list[i-1].ID)
				}
			}
		}
	case 12:
		st := q.State()
		if st.Pending < 0 || st.Consumed < 0 || st.Deleted < 0 || uint64(st.Seq) < uint64(st.Pending+st.Consumed+st.Deleted) {
			c.fail("state: got %+v", st)
		}
	case 13:
		c.files(q, some(0))
	case 14:
		err = c.s.Maintain(ctx)
	case 15:
		if rng.IntN(8) == 0 {
			err = c.s.Checkpoint(ctx)
		}
	}
	if err != nil && !errors.Is(err, ledger.ErrEmpty) && !errors.Is(err, ledger.ErrNoJob) && !errors.Is(err, job.ErrNotPending) {
		c.fail("%v", err)
	}
}

func (c *crowd) submit(q *queuefs.Queue, rng *rand.Rand) error {
	s := q.Begin()
	defer s.Discard()
	n := 1 + rng.IntN(3)
	for range n {
		name := fmt.Sprint(rng.Uint64())
		d, err := s.Add(job.Meta{Filename: name, Sidecar: "of " + name, MediaType: fmt.Sprint("x/", rng.IntN(9))})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, namedPayload(name)); err != nil {
			return err
		}
	}
	if rng.IntN(10) == 0 {
		return nil // thought better of it
	}
	jobs, err := s.Commit(ctx)
	for i, j := range jobs {
		if i > 0 && j.ID != jobs[i-1].ID+1 {
			c.fail("batch: got %v behind %v", j.ID, jobs[i-1].ID)
		}
		c.look(q, j)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[q] += len(jobs)
	return err
}

// look tests that a job is whole and its payload its own.
func (c *crowd) look(q *queuefs.Queue, j job.Job) {
	p, err := q.Payload(j.ID)
	if err != nil {
		c.fail("payload of %v, %v: %v", j.ID, j.Status, err)
		return
	}
	defer p.Close()
	data, err := io.ReadAll(p)
	if want := namedPayload(j.Filename); err != nil || string(data) != want || j.Size != int64(len(want)) || j.Sidecar != "of "+j.Filename {
		c.fail("%v: got %d octets of %q, %v", j.ID, len(data), j.Filename, err)
	}
	if (j.Status == job.Consumed) != !j.Begun().IsZero() || j.Attempts > 0 && j.Consumed.IsZero() || j.Extra != nil {
		c.fail("%v: got %+v", j.ID, j)
	}
}

// files tests that the job file of a status, if it is there, says so.
func (c *crowd) files(q *queuefs.Queue, id job.ID) {
	for st := job.Pending; st <= job.Deleted; st++ {
		text, facts, err := q.JobFile(id, st)
		if errors.Is(err, ledger.ErrNoJob) {
			continue
		}
		if err != nil {
			c.fail("job file of %v: %v", id, err)
			return
		}
		j, err := job.Parse(text)
		if err != nil || j.Status != st || j.ID != id || sha256.Sum256(text) != facts.SHA256 || int64(len(text)) != facts.Length {
			c.fail("%v file of %v: %v: %s", st, id, err, text)
		}
	}
}

// read follows the events of a queue: nothing is missing, nothing comes twice.
func (c *crowd) read(ctx context.Context, q *queuefs.Queue) {
	var seq job.Seq
	stands := map[job.ID]job.Status{}
	for q.Wait(ctx, seq) == nil {
		events, err := q.Events(seq, 50)
		if err != nil && !errors.Is(err, ledger.ErrGone) {
			c.fail("events: %v", err)
			return
		}
		if errors.Is(err, ledger.ErrGone) {
			// A checkpoint was faster, as it may be. Begin anew.
			seq = q.Seq()
			clear(stands)
			continue
		}
		for _, e := range events {
			if was, seen := stands[e.Job]; e.Seq != seq+1 || seen && was != e.From {
				c.fail("event %d after %d: %v of %v from %v, was %v", e.Seq, seq, e.Kind, e.Job, e.From, was)
				return
			}
			seq, stands[e.Job] = e.Seq, e.To
		}
	}
}

// TestCrowd has 64 clients and some readers on three queues.
func TestCrowd(t *testing.T) {
	each := long.N(40, 120)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Behind: 200 << 10})
	f := newFollower(t)
	f.follow(s)
	c := &crowd{t: t, s: s, queues: []*queuefs.Queue{q}, jobs: map[*queuefs.Queue]int{}, held: map[string]int{}}
	for _, name := range []string{"second", "third"} {
		q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: name, CullingSize: -1, CullingAge: -1}))(t)
		c.queues = append(c.queues, q)
	}
	reading, stop := context.WithCancel(ctx)
	var readers, clients sync.WaitGroup
	for _, q := range c.queues {
		readers.Go(func() { c.read(reading, q) })
	}
	var left atomic.Int64
	left.Store(64 * int64(each))
	for i := range 64 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for left.Add(-1) >= 0 && !t.Failed() {
				c.act(rng)
			}
		})
	}
	clients.Wait()
	stop()
	readers.Wait()
	for _, q := range c.queues {
		f.check(q)
		for _, e := range f.seen[q.ID()] {
			if e.Kind == job.Requeue && e.From == job.Consumed {
				c.held[q.ID()+e.Job.String()]--
			}
		}
		st := q.State()
		if int(st.Pending+st.Consumed+st.Deleted) != c.jobs[q] {
			t.Errorf("%s: got %+v, %d were acknowledged", q.ID(), st, c.jobs[q])
		}
		for _, id := range q.IDs(index.Filter{Limit: 1 << 20}) {
			want := 0
			if st, _ := q.Status(id); st == job.Consumed {
				want = 1
			}
			if got := c.held[q.ID()+id.String()]; got != want {
				t.Errorf("%s/%v was handed out %d times more than it came back, want %d", q.ID(), id, got, want)
			}
		}
	}
	w := observe(t, s)
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}, f: f}
	v.verify(w)
}

// TestNothingShowsBeforeItIsStored looks at the queue from inside the sync of
// each operation.
func TestNothingShowsBeforeItIsStored(t *testing.T) {
	var look func()
	s, q := openHome(t, fastDir(t), queuefs.Options{Fault: func(step string, do func() error) error {
		if look != nil && (step == "journal write" || step == "journal sync") {
			look()
		}
		return do()
	}})
	defer closeHome(t, s)
	submit(t, q, job.Meta{}, "a")
	submit(t, q, job.Meta{}, "b")
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"submit", func() error { submit(t, q, job.Meta{}, "c"); return nil }},
		{"next", func() error { _, err := q.Next(ctx, "w"); return err }},
		{"delete", func() error { _, err := q.Delete(ctx, 2); return err }},
		{"requeue", func() error { _, err := q.Requeue(ctx, 1); return err }},
	} {
		before, state := observe(t, s), q.State()
		looked := 0
		look = func() {
			looked++
			before.expect(t, s, "%s shows early", op.name)
			if got := q.State(); got.Seq != state.Seq || got.Pending != state.Pending || got.Consumed != state.Consumed || got.Deleted != state.Deleted {
				t.Errorf("%s shows early: got %+v want %+v", op.name, got, state)
			}
			if events, err := q.Events(state.Seq, 1); len(events) != 0 || err != nil {
				t.Errorf("%s shows early: %v, %v", op.name, events, err)
			}
		}
		if err := op.do(); err != nil || looked != 2 {
			t.Errorf("%s: %v, looked %d times", op.name, err, looked)
		}
		look = nil
		if d := before.difference(observe(t, s)); d == "" {
			t.Errorf("%s does not show", op.name)
		}
	}
}

// Every change that finds another owner of the home fails as others do after it: with
// ErrFailed, and ErrFenced as the reason.
func TestEveryChangeOfAFormerOwnerFailsAlike(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *queuefs.Service, q *queuefs.Queue) error{
		"submit":         func(_ *queuefs.Service, q *queuefs.Queue) error { return errOf(trySubmit(q, "late")) },
		"delete":         func(_ *queuefs.Service, q *queuefs.Queue) error { return errOf(q.Delete(ctx, 1)) },
		"remove a queue": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.RemoveQueue(ctx, "bare") },
		"create a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "new"})
			return err
		},
		"create a queue with a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "new", Callback: "https://a.example/secret?x=y"})
			return err
		},
		"set a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", set(func(i *home.QueueInfo) { i.Description = "new" }))
			return err
		},
		"set a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", set(func(i *home.QueueInfo) { i.Callback = "https://a.example/secret?x=y" }))
			return err
		},
		"set the service": func(s *queuefs.Service, _ *queuefs.Queue) error {
			return s.SetService(ctx, func(i *home.ServiceInfo) error { i.Description = "new"; return nil })
		},
		"checkpoint": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.Checkpoint(ctx) },
	} {
		m := new(objectstest.Memory)
		a := mustStored(t, fastDir(t)+"/a", m)
		a.Follow(current{}) // else journal is kept for an absent follower
		createQueue(t, a, home.QueueInfo{Identifier: "bare"})
		q := createQueue(t, a, home.QueueInfo{Identifier: "q"})
		for range 3 { // the next checkpoint releases journal
			submit(t, q, job.Meta{}, "payload")
			must(t, a.ImageAhead(ctx))
		}
		b := mustStored(t, fastDir(t)+"/b", m)
		if err := change(a, q); !errors.Is(err, ledger.ErrFailed) || !errors.Is(err, journal.ErrFenced) {
			t.Errorf("%s: got %v", name, err)
		}
		if a.Close() == nil {
			t.Errorf("%s: a fenced service is closed without an error", name)
		}
		closeHome(t, b)
	}
}

// What the journal keeps from an event on is a part of the limit, and all of it where nothing
// is kept.
func TestKeptIsAPartOfTheLimit(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 1 << 20, KeepLog: 4 << 20})
	defer func() { closeHome(t, s) }()
	fillQueue(t, q, 100, 1)
	first, last := q.Kept(1), q.Kept(q.Seq())
	if last <= 0 || first < 50*last || first > 1 {
		t.Errorf("all events take %v of the limit, the last one %v", first, last)
	}
	closeHome(t, s)
	s, q = openHome(t, s.Dir(), queuefs.Options{KeepLog: -1})
	submit(t, q, job.Meta{}, "x")
	if got := q.Kept(q.Seq()); got != 1 {
		t.Errorf("got %v of a limit of nothing", got)
	}
}
