package queuefs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	names := sure(os.ReadDir("/proc/self/fd"))(t)
	return len(names)
}

// settled returns the number of goroutines once those that end have ended.
func settled(want int) int {
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > want && time.Now().Before(end); {
		runtime.Gosched()
	}
	return runtime.NumGoroutine()
}

func TestThousandQueues(t *testing.T) {
	n := long.N(150, 1000)
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	closeHome(t, s) // what the system keeps open for good
	files, routines := descriptors(t), runtime.NumGoroutine()
	dir := fastDir(t)
	s, _ = openHome(t, dir, queuefs.Options{})
	want := []string{"jobs"}
	for i := range n {
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprintf("ark:/%d", i), Name: fmt.Sprint("n", i)})
		must(t, err)
		want = append(want, q.ID())
		submit(t, q, job.Meta{}, q.ID())
	}
	closeHome(t, s)
	for range 2 {
		s, _ = openHome(t, dir, queuefs.Options{})
		var got []string
		for _, q := range s.Queues() {
			got = append(got, q.ID())
			if q.ID() == "jobs" {
				continue
			}
			if p := payload(t, q, 1); p != q.ID() {
				t.Errorf("%s: got %q", q.ID(), p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %d queues: %q", len(got), got)
		}
		for _, name := range []string{"ark+=7", "ark:/7", "n7"} {
			if q, err := s.Queue(name); err != nil || q.ID() != "ark+=7" {
				t.Errorf("%s: %v", name, err)
			}
		}
		closeHome(t, s)
	}
	if got := descriptors(t); got > files {
		t.Errorf("%d files are open, before there were %d", got, files)
	}
	if got := settled(routines); got > routines {
		t.Errorf("%d goroutines run, before there were %d", got, routines)
	}
}

// TestNothingStaysOpenAfterFailure fails each step of opening, working and
// closing, and counts what is left open.
func TestNothingStaysOpenAfterFailure(t *testing.T) {
	newScenario(t, newFaults(0, nil)).run() // what is made once and kept
	files, routines := descriptors(t), runtime.NumGoroutine()
	for at := 1; ; at += stride() {
		f := newFaults(at, errInjected)
		f.stops = true
		c := newScenario(t, f)
		c.run()
		os.RemoveAll(c.dir)
		if !f.fired() {
			break
		}
		if got := descriptors(t); got > files {
			t.Fatalf("step %d (%s) fails: %d files are open, before there were %d", at, f.name, got, files)
		}
		if got := settled(routines); got > routines {
			t.Fatalf("step %d (%s) fails: %d goroutines run, before there were %d", at, f.name, got, routines)
		}
	}
}

func TestWhatIsNoHome(t *testing.T) {
	dir := t.TempDir()
	wantErr(t, errOf(queuefs.Open(filepath.Join(dir, "missing"), queuefs.Options{})), fs.ErrNotExist, "missing")
	if _, err := queuefs.Open(dir, queuefs.Options{}); !errors.Is(err, home.ErrNoHome) || !strings.Contains(err.Error(), dir) {
		t.Errorf("empty: got %v", err)
	}
	must(t, home.Init(dir, home.ServiceInfo{}))
	wantErr(t, home.Init(dir, home.ServiceInfo{}), fs.ErrExist, "made twice")
	for name, c := range map[string]struct{ tag, queues, want string }{
		"later version": {"0=cutie_0.4", "", "0.4"},
		"other program": {"0=pairtree_0.1", "", "no tag"},
	} {
		dir := t.TempDir()
		must(t, home.Init(dir, home.ServiceInfo{}))
		os.Remove(filepath.Join(dir, "0=cutie_0.3"))
		value := strings.Replace(strings.TrimPrefix(c.tag, "0="), "_", "/", 1)
		value = strings.ToUpper(value[:1]) + value[1:]
		for file, data := range map[string]string{c.tag: value + "\n", "queues.txt": c.queues} {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(data), 0o666))
		}
		if s, err := queuefs.Open(dir, queuefs.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v want %q", name, err, c.want)
			if err == nil {
				s.Close()
			}
		}
	}
}

func TestCreateQueue(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	info := home.QueueInfo{Identifier: "ark:/12345/x y", Name: "Näme", Description: "two: lines%", CullingSize: 10, CullingAge: -1, VerifyOnRead: true}
	q, err := s.CreateQueue(ctx, info)
	must(t, err)
	got := q.Info()
	info.ID, info.Created = "ark+=12345=x^20y", got.Created
	if got != info {
		t.Errorf("got %+v want %+v", got, info)
	}
	for name, bad := range map[string]struct {
		info home.QueueInfo
		want error
	}{
		"twice":        {home.QueueInfo{Identifier: "jobs"}, queuefs.ErrQueueExists},
		"same cleaned": {home.QueueInfo{Identifier: "ark+=12345=x^20y"}, queuefs.ErrQueueExists},
		"same name":    {home.QueueInfo{Identifier: "other", Name: "Näme"}, queuefs.ErrQueueExists},
		"dots":         {home.QueueInfo{Identifier: ".."}, job.ErrBadName},
		"nothing":      {home.QueueInfo{}, job.ErrBadName},
		"threshold":    {home.QueueInfo{Identifier: "x", CullingAge: -2}, job.ErrBadName},
		"long":         {home.QueueInfo{Identifier: "x", Description: strings.Repeat("d", 1<<20)}, job.ErrTooBig},
	} {
		wantErr(t, errOf(s.CreateQueue(ctx, bad.info)), bad.want, "%s", name)
	}
	closeHome(t, s)
	s, _ = openHome(t, dir, queuefs.Options{})
	if q, err = s.Queue("ark:/12345/x y"); err != nil || q.Info() != info || len(s.Queues()) != 2 {
		t.Errorf("opened: got %+v, %v", q.Info(), err)
	}
}

// TestCreateQueueOverUnlistedJobs makes a queue where a directory stands that
// nobody lists: what is in it stays.
func TestCreateQueueOverUnlistedJobs(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{Filename: "old"}, "old payload")
	closeHome(t, s)
	must(t, os.Rename(filepath.Join(dir, "queues/jobs"), filepath.Join(dir, "queues/other")))
	must(t, os.WriteFile(filepath.Join(dir, "queues.txt"), nil, 0o666))
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	must(t, err)
	if q, err = s.CreateQueue(ctx, home.QueueInfo{Identifier: "other"}); err == nil {
		submit(t, q, job.Meta{Filename: "new"}, "new payload")
	}
	closeHome(t, s)
	if got, err := os.ReadFile(filepath.Join(dir, "queues/other/payload/j000000000001")); string(got) != "old payload" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLargestBatch submits ten thousand jobs at once, with one sync, and a
// failing one that leaves nothing.
func TestLargestBatch(t *testing.T) {
	var syncs atomic.Int64
	dir := fastDir(t)
	o := queuefs.Options{Segment: 32 << 20, Fault: func(step string, do func() error) error {
		if step == "journal sync" {
			syncs.Add(1)
		}
		return do()
	}}
	s, q := openHome(t, dir, o)
	for _, good := range []bool{false, true} {
		sub := q.Begin()
		for n := range 10_000 {
			d := sure(sub.Add(job.Meta{Batch: "b", Filename: "f"}))(t)
			d.Write([]byte{byte(n)})
		}
		if !good {
			sub.Discard()
			continue
		}
		before := syncs.Load()
		jobs, err := sub.Commit(ctx)
		if err != nil || len(jobs) != 10_000 || syncs.Load() != before+1 {
			t.Fatalf("got %d jobs, %v, %d syncs", len(jobs), err, syncs.Load()-before)
		}
		for i, j := range jobs {
			if j.ID != job.ID(i+1) || j.Seq != job.Seq(i+1) || i > 0 && !j.Submitted.After(jobs[i-1].Submitted) {
				t.Fatalf("job %d: got %+v", i, j)
			}
		}
	}
	before := syncs.Load()
	jobs, err := q.NextN(ctx, "w", 100_000)
	if err != nil || len(jobs) != queuefs.MaxTake || jobs[0].ID != 1 || syncs.Load() != before+1 {
		t.Errorf("took %d jobs, %v, %d syncs", len(jobs), err, syncs.Load()-before)
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	o.Fault = nil
	_, q = openHome(t, crashed, o)
	if st := q.State(); st.Pending != 9000 || st.Consumed != 1000 || st.Seq != 11_000 {
		t.Errorf("got %+v", st)
	}
	if got := payload(t, q, 10_000); got != "\x0f" {
		t.Errorf("got %q", got)
	}
}

func TestNamesOfNoQueue(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	for name, want := range map[string]error{
		"none": ledger.ErrNoQueue, "jobs2": ledger.ErrNoQueue, "Jobs": ledger.ErrNoQueue, "jobs/x": ledger.ErrNoQueue,
		"": job.ErrBadName, "..": job.ErrBadName, ".": job.ErrBadName, "jobs\x00": job.ErrBadName,
		"cutie-info.txt": job.ErrBadName, "\xff": job.ErrBadName, strings.Repeat("x", 10<<10): job.ErrBadName,
		"../queues/jobs": ledger.ErrNoQueue, "/etc": ledger.ErrNoQueue,
	} {
		if q, err := s.Queue(name); !errors.Is(err, want) || q != nil || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %v want %v", name, err, want)
		}
	}
}

// TestHomesOfOthers opens homes as other programs and people leave them.
func TestHomesOfOthers(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"version 0.2": func(dir string) error {
			return errors.Join(os.Remove(dir+"/0=cutie_0.3"), os.WriteFile(dir+"/0=cutie_0.2", []byte("Cutie/0.2\n"), 0o666))
		},
		"directory queue": func(dir string) error { return os.Rename(dir+"/queues", dir+"/queue") },
		"list by hand": func(dir string) error {
			return os.WriteFile(dir+"/queues.txt", []byte("# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs"), 0o666)
		},
		"no lock file": func(dir string) error { return os.Remove(dir + "/cutie-lock") },
		"strange lock": func(dir string) error { return os.WriteFile(dir+"/cutie-lock", []byte("who?"), 0o666) },
		"no temporary": func(dir string) error { return os.RemoveAll(dir + "/cutie-tmp") },
		"bare queue info": func(dir string) error {
			return os.WriteFile(dir+"/queues/jobs/queue-info.txt", []byte("identifier: jobs\nculling: often\n"), 0o666)
		},
		"empty directories gone": func(dir string) error { return os.Remove(dir + "/queues/jobs/deleted") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			s, q := openHome(t, dir, queuefs.Options{})
			must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "ark:/1/x"})))
			submit(t, q, job.Meta{}, "x")
			want := observe(t, s)
			closeHome(t, s)
			must(t, change(dir))
			for range 2 {
				s := sure(queuefs.Open(dir, queuefs.Options{Segment: segmentSize}))(t)
				want.expect(t, s)
				closeHome(t, s)
			}
		})
	}
}

// makeMany is a child: clients make queues with a job each, and say so when it is
// acknowledged.
func makeMany(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for c := range 8 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("q%d-%d-%d", c, n, os.Getpid())
				q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: id, MaxAttempts: c})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("made", id)
				if _, err := trySubmit(q, id); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("filled", id)
			}
		}()
	}
	for n := 0; ; n++ {
		time.Sleep(20 * time.Millisecond)
		if err := s.Maintain(ctx); err != nil {
			fmt.Println("error", err)
		}
		if n%4 == 3 {
			if err := s.Checkpoint(ctx); err != nil {
				fmt.Println("error", err)
			}
		}
	}
}

// TestQueuesAreThereAfterAKill kills the process while it makes queues: all acknowledged
// ones are there, with their jobs, also after one more crash.
func TestQueuesAreThereAfterAKill(t *testing.T) {
	for round := range 4 {
		dir := filepath.Join(fastDir(t), "home")
		must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
		sure := map[string]int{} // jobs of acknowledged queues
		for range 3 {
			cmd := child(t, "makers", dir)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, processes.Start(cmd))
			lines, most := 0, 20+round*100
			for said := bufio.NewScanner(out); said.Scan(); {
				switch verb, id, _ := strings.Cut(said.Text(), " "); verb {
				case "made":
					sure[id] = max(sure[id], 0)
				case "filled":
					sure[id] = 1
				default:
					t.Error(said.Text())
				}
				if lines++; lines == most {
					cmd.Process.Kill() // what is in the pipe is read to its end
				}
			}
			cmd.Wait()
		}
		for range 2 {
			s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p durable.Finding) { t.Errorf("round %d: %v", round, p) }})
			must(t, err)
			for id, jobs := range sure {
				q, err := s.Queue(id)
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				st := q.State()
				if int(st.Pending) < jobs || st.Seq != job.Seq(st.Pending) || st.Damage != "" || !strings.HasPrefix(id, fmt.Sprintf("q%d-", st.Info.MaxAttempts)) ||
					st.Pending > 0 && payload(t, q, 1) != id {
					t.Fatalf("round %d: got %+v, want %d jobs", round, st, jobs)
				}
			}
			dir = copyHome(t, dir)
			closeHome(t, s)
		}
	}
}

// TestDescriptorsDoNotGrowWithQueues makes, uses and opens more queues than descriptors
// are allowed.
func TestDescriptorsDoNotGrowWithQueues(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	o := queuefs.Options{Segment: segmentSize, Dirs: 10}
	s := sure(queuefs.Open(dir, o))(t)
	before := descriptors(t)
	bounded := func() {
		t.Helper()
		if n := descriptors(t); n > before+10+5 {
			t.Errorf("%d descriptors are open, after %d", n, before)
		}
	}
	for n := range 100 {
		q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprint("q", n)}))(t)
		submit(t, q, job.Meta{}, "x")
	}
	bounded()
	must(t, s.Checkpoint(ctx))
	bounded()
	closeHome(t, s)
	s = sure(queuefs.Open(dir, o))(t)
	bounded()
	for _, q := range s.Queues() {
		j, err := q.Next(ctx, "w")
		if err != nil || j.ID != 1 {
			t.Fatalf("got %v, %v", j.ID, err)
		}
	}
	bounded()
	closeHome(t, s)
}

// TestAQueueIsMadeWholeOrNot fails each step of the making of a queue, not done and done,
// and opens the home again as it then is.
func TestAQueueIsMadeWholeOrNot(t *testing.T) {
	for at, fired := 1, true; fired; at++ {
		for _, done := range []bool{false, true} {
			fired = makeFailing(t, at, done)
		}
	}
}

// makeFailing reports whether there was such a step.
func makeFailing(t *testing.T, at int, done bool) bool {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	n, on, name := 0, false, ""
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Fault: func(step string, do func() error) error {
		if n++; on && n == at {
			name = step
			if done {
				if err := do(); err != nil {
					return err
				}
			}
			return syscall.EIO
		}
		return do()
	}})
	must(t, err)
	n, on = 0, true
	_, made := s.CreateQueue(ctx, home.QueueInfo{Identifier: "new"})
	on = false
	crashed := copyHome(t, dir)
	if err := s.Close(); err != nil && made == nil {
		t.Error(err)
	}
	for _, dir := range []string{crashed, dir} {
		s = openBare(t, dir, queuefs.Options{Segment: segmentSize})
		_, err = s.Queue("new")
		if made == nil && err != nil {
			t.Errorf("step %d, %s: %v", at, name, err)
		}
		if err != nil {
			if _, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "new"}); err != nil {
				t.Errorf("step %d, %s: made again: %v", at, name, err)
			}
		}
		closeHome(t, s)
	}
	return name != ""
}

// Of many queues the properties are looked at in turn, and at once if somebody has asked
// for the queue.
func TestManyQueuesAreLookedAtInTurn(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	const many = 2100
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := next.Add(1); n <= many; n = next.Add(1) {
				should(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprintf("q%04d", n)})))
			}
		})
	}
	wg.Wait()
	for range 2*many/200 + 2 {
		reload(t, s)
	}
	describe := func(id string) {
		name := filepath.Join(dir, "queues", id, "queue-info.txt")
		text := sure(os.ReadFile(name))(t)
		write(t, name, string(text)+"description: by hand\n")
	}
	describe("q0700")
	must(t, errOf(s.Queue("q0700")))
	if got := reload(t, s); !slices.Equal(got, []string{"q0700"}) {
		t.Errorf("asked for: got %v", got)
	}
	describe("q1900")
	var found []string
	for range many/200 + 2 {
		found = append(found, reload(t, s)...)
	}
	if !slices.Equal(found, []string{"q1900"}) {
		t.Errorf("in turn: got %v", found)
	}
}

// Of many callers who make a queue of one name, or of one identifier, one succeeds.
func TestANameIsGivenOnce(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	for round := range 20 {
		var made atomic.Int64
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				info := home.QueueInfo{Identifier: fmt.Sprintf("r%d-%d", round, n%4), Name: fmt.Sprintf("name %d", round)}
				if n%2 == 0 {
					info = home.QueueInfo{Identifier: fmt.Sprintf("r%d-%d", round, 1), Name: fmt.Sprintf("name %d", round)}
				}
				switch _, err := s.CreateQueue(ctx, info); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, queuefs.ErrQueueExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("round %d: %d were made, want 1", round, n)
		}
		should(t, errOf(s.Queue(fmt.Sprintf("name %d", round))))
	}
}

// A line of queues.txt that a crash has torn makes no queue.
func TestATornLineMakesNoQueue(t *testing.T) {
	for _, c := range []struct {
		about, end string
		want       []string
	}{
		{"torn", "jo", []string{"jobs", "jobs2"}},
		{"torn, and a queue all the same", "jobs2", []string{"jobs", "jobs2"}},
		{"by hand", "more\n", []string{"jobs", "jobs2", "more"}},
	} {
		dir := fastDir(t)
		s, _ := openHome(t, dir, queuefs.Options{})
		must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs2"})))
		closeHome(t, s)
		text := sure(os.ReadFile(filepath.Join(dir, "queues.txt")))(t)
		write(t, filepath.Join(dir, "queues.txt"), string(text)+c.end)
		s, _ = openHome(t, dir, queuefs.Options{})
		if got := ids(s); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.about, got, c.want)
		}
		// The next one is made, and no other comes to be.
		must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "last"})))
		closeHome(t, s)
		s, _ = openHome(t, dir, queuefs.Options{})
		if got := ids(s); !slices.Equal(got, append(c.want, "last")) {
			t.Errorf("%s: after another one: got %v", c.about, got)
		}
		closeHome(t, s)
	}
}

// Queues are opened side by side, except for those with a damaged index: all stand in the
// order of queues.txt, and numbers that were given out are not given out again.
func TestManyQueuesAreOpenedInTheirOrder(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	const many = 450
	for n := range many {
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprintf("q%04d", (n*7)%many), VerifyOnWrite: n%2 == 0})
		must(t, err)
		if n%10 == 0 {
			submit(t, q, job.Meta{}, "payload")
		}
	}
	var want []string
	seqs := map[string]job.Seq{}
	for _, q := range s.Queues() {
		want = append(want, q.ID())
		seqs[q.ID()] = q.Seq()
	}
	closeHome(t, s)
	for _, id := range []string{"q0007", "q0070", "q0300"} { // its row does not verify
		changeRow(t, dir, table.Queues, id, func(d []byte) []byte { d[9] ^= 1; return d })
	}
	told := 0
	s = openBare(t, dir, queuefs.Options{Report: func(durable.Finding) { told++ }})
	defer closeHome(t, s)
	var got []string
	for _, q := range s.Queues() {
		got = append(got, q.ID())
		if q.Seq() < seqs[q.ID()] {
			t.Errorf("%s: event %d, it was at %d", q.ID(), q.Seq(), seqs[q.ID()])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the order %v", got)
	}
	if told == 0 {
		t.Error("no damage was told")
	}
}

// Nothing is acknowledged in a home that was removed: the files that are open still take
// what is written, and nobody finds it again.
func TestAHomeRemovedWhileItIsOpenTakesNoMoreJobs(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{}, "x")
	must(t, os.RemoveAll(dir))
	wantErr(t, errOf(trySubmit(q, "y")), ledger.ErrFailed, "acknowledged, or refused with")
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "was removed by other programs") {
		t.Errorf("the service says %v", err)
	}
	if err := s.Close(); err == nil {
		t.Error("closed as if nothing had happened")
	}
}

// openPoor is a child that opens copies of a home with ever more descriptors,
// until one opens.
func openPoor(dir string) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		fmt.Println("error", err)
		return
	}
	for n := 0; ; n++ {
		copied := filepath.Join(dir, strconv.Itoa(n))
		if _, err := os.Stat(copied); err != nil {
			fmt.Println("error: no more copies")
			return
		}
		few := limit
		few.Cur = uint64(5 + n)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			fmt.Println("error", err)
			return
		}
		s, err := queuefs.Open(copied, queuefs.Options{Segment: segmentSize})
		if err == nil {
			err = s.Checkpoint(ctx)
			s.Close()
		}
		fmt.Println(n, err)
		if err == nil {
			return
		}
	}
}

// TestTooFewDescriptors opens a home, which has to be read from its
// directories and in which jobs were moved by hand, with too few descriptors:
// it does not open, and what could not be read is not taken for lost.
func TestTooFewDescriptors(t *testing.T) {
	g := newGarden(t)
	must(t, os.Rename(g.path("consumed/j000000000004"), g.path("pending/j000000000004")))
	g.w = g.w.set("jobs", 4, func(f *fact) { f.status, f.consumer, f.requeues = job.Pending, "", 1 })
	loseRow(t, g.dir, table.Pages, table.PageKey("jobs", 0))
	copies := fastDir(t)
	const most = 40
	for n := range most {
		must(t, os.CopyFS(filepath.Join(copies, strconv.Itoa(n)), os.DirFS(g.dir)))
	}
	out, err := child(t, "poor", copies).CombinedOutput()
	if err != nil || strings.Contains(string(out), "error") {
		t.Fatalf("%v: %s", err, out)
	}
	tried := strings.Count(string(out), "\n")
	if tried < 5 {
		t.Errorf("only %d limits were too low: %s", tried, out)
	}
	for n := range tried {
		s, _ := openHome(t, filepath.Join(copies, strconv.Itoa(n)), queuefs.Options{})
		g.w.expect(t, s, "limit %d", n)
		closeHome(t, s)
	}
}

// TestClockStepsBack sets the clock back while the home is open, over a stop,
// and over a crash: job numbers and times of events still grow.
func TestClockStepsBack(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	o := queuefs.Options{Now: func() time.Time { return at }}
	dir := fastDir(t)
	f := newFollower(t)
	s, q := openHome(t, dir, o)
	f.follow(s)
	work := func(last job.ID) job.ID {
		t.Helper()
		for range 3 {
			j := submit(t, q, job.Meta{}, "x")
			if j.ID <= last {
				t.Errorf("got %v after %v", j.ID, last)
			}
			last = j.ID
		}
		j, err := q.Next(ctx, "w")
		if err != nil || !j.Consumed.After(j.Submitted) {
			t.Errorf("got %+v, %v", j, err)
		}
		if j, err = q.Requeue(ctx, j.ID); err != nil || !j.Requeued.After(j.Submitted) {
			t.Errorf("got %+v, %v", j, err)
		}
		f.check(q)
		if st := q.State(); st.LastSubmission.After(st.LastEvent) || st.LastConsumption.Before(st.LastSubmission) {
			t.Errorf("got %+v", st)
		}
		should(t, s.Maintain(ctx))
		return last
	}
	last := work(0)
	at = at.Add(-time.Hour)
	last = work(last)
	closeHome(t, s)

	at = at.Add(-time.Hour)
	s, q = openHome(t, dir, o)
	f.follow(s)
	last = work(last)
	crashed := copyHome(t, dir)
	closeHome(t, s)

	at = at.Add(-24 * time.Hour)
	s, q = openHome(t, crashed, o)
	f.follow(s)
	last = work(last)
	closeHome(t, s)

	// From the directories alone.
	at = at.Add(-time.Hour)
	r, err := check.Home(crashed, check.Options{Rebuild: true, Segment: segmentSize, Now: o.Now})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %v, %+v", err, r)
	}
	s, q = openHome(t, crashed, o)
	f.follow(s)
	work(last)

	// A queue made when the clock was ahead does not wait for it.
	at = at.Add(time.Hour)
	late := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: "late"}))(t)
	at = at.Add(-time.Hour)
	if j := submit(t, late, job.Meta{}, "x"); j.ID != 1 || !j.Submitted.After(late.Info().Created) {
		t.Errorf("got %+v, queue of %v", j, late.Info().Created)
	}
}

// TestCloseUnderLoad closes a home while everybody works on it: what was
// acknowledged is there afterwards, the others are told that it closed.
func TestCloseUnderLoad(t *testing.T) {
	rounds := long.N(4, 12)
	dir := fastDir(t)
	o := queuefs.Options{Behind: 100 << 10}
	want := map[job.ID]fact{}
	for range rounds {
		s, q := openHome(t, dir, o)
		var mu sync.Mutex
		var begun atomic.Int64
		var wg sync.WaitGroup
		ended := func(op string, err error) bool {
			if err == nil || errors.Is(err, ledger.ErrEmpty) || errors.Is(err, job.ErrNotPending) {
				return false
			}
			if !errors.Is(err, ledger.ErrClosed) && !t.Failed() {
				t.Errorf("%s: got %v", op, err)
			}
			return true
		}
		for i := range 16 {
			wg.Go(func() {
				for n := 0; ; n++ {
					begun.Add(1)
					var err error
					switch i % 8 {
					case 0, 1, 2:
						sub := q.Begin()
						d, e := sub.Add(job.Meta{Filename: "f"})
						if e == nil {
							_, e = io.WriteString(d, strings.Repeat("p", n%3*70_000))
						}
						var jobs []job.Job
						if e == nil {
							jobs, e = sub.Commit(ctx)
						}
						sub.Discard()
						mu.Lock()
						for _, j := range jobs {
							if _, known := want[j.ID]; !known { // it may have moved on already
								want[j.ID] = fact{status: job.Pending, filename: "f", payload: strings.Repeat("p", n%3*70_000)}
							}
						}
						mu.Unlock()
						err = e
					case 3, 4:
						var jobs []job.Job
						jobs, err = q.NextN(ctx, "w", 2)
						mu.Lock()
						for _, j := range jobs {
							want[j.ID] = fact{status: job.Consumed, filename: "f", consumer: "w", payload: strings.Repeat("p", int(j.Size))}
						}
						mu.Unlock()
					case 5:
						err = s.Maintain(ctx)
					case 6:
						err = s.Checkpoint(ctx)
					case 7:
						err = q.Wait(ctx, q.Seq())
					}
					if ended([]string{"submit", "submit", "submit", "next", "next", "maintain", "checkpoint", "wait"}[i%8], err) {
						return
					}
				}
			})
		}
		for begun.Load() < 400 {
			if _, err := q.Peek(); err != nil && !errors.Is(err, ledger.ErrEmpty) {
				t.Error(err)
			}
		}
		closeHome(t, s)
		wg.Wait()
		if t.Failed() {
			return
		}
	}
	s, q := openHome(t, dir, queuefs.Options{})
	w := world{"jobs": jobs{byID: want}}
	w.expect(t, s)
	if st := q.State(); int(st.Pending+st.Consumed) != len(want) {
		t.Errorf("got %+v, want %d", st, len(want))
	}
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
	v.checkFiles(w)
}

// TestAfterClose asks a closed home for everything.
func TestAfterClose(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{}, "x") // a file from the first closing on
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{}, "y")
	sub := q.Begin()
	d := sure(sub.Add(job.Meta{}))(t)
	closeHome(t, s)
	for name, op := range map[string]func() error{
		"commit":     func() error { d.Write([]byte("x")); _, err := sub.Commit(ctx); return err },
		"next":       func() error { _, err := q.Next(ctx, "w"); return err },
		"wait next":  func() error { _, err := q.NextWait(ctx, "w", 1); return err },
		"delete":     func() error { _, err := q.Delete(ctx, 1); return err },
		"requeue":    func() error { _, err := q.Requeue(ctx, 1); return err },
		"create":     func() error { _, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "x"}); return err },
		"maintain":   func() error { return s.Maintain(ctx) },
		"checkpoint": func() error { return s.Checkpoint(ctx) },
		"wait":       func() error { return q.Wait(ctx, 1) },
	} {
		wantErr(t, op(), ledger.ErrClosed, "%s", name)
	}
	// Reading finds nothing, and does not fall.
	q.State()
	q.Pages()
	q.Page(0, nil)
	q.PageVersion(0)
	q.IDs(index.Filter{})
	q.InfoFile()
	for _, id := range []job.ID{1, 2} {
		wantErr(t, errOf(q.Job(id)), ledger.ErrClosed, "a job of a closed home")
		wantErr(t, errOf(q.Payload(id)), ledger.ErrClosed, "a payload of a closed home")
	}
	if _, err := q.Peek(); err == nil {
		t.Error("a head of a closed home")
	}
	if _, err := q.Events(0, 10); err == nil {
		t.Error("events of a closed home")
	}
}

// holdHome is a child that has a home open until its input ends.
func holdHome(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		os.Exit(1)
	}
}

// TestHomeOfAnotherProcess meets a home that another process has open, that
// then stops or is killed.
func TestHomeOfAnotherProcess(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	for _, kill := range []bool{false, true} {
		cmd := child(t, "hold", dir)
		in := sure(cmd.StdinPipe())(t)
		out := sure(cmd.StdoutPipe())(t)
		must(t, processes.Start(cmd))
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		for _, err := range []error{errOf(queuefs.Open(dir, queuefs.Options{})), errOf(check.Home(dir, check.Options{})), errOf(check.Home(dir, check.Options{Rebuild: true}))} {
			var locked *home.LockedError
			if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid || locked.Dir != dir || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
				t.Errorf("got %v, want process %d", err, cmd.Process.Pid)
			}
		}
		if kill {
			cmd.Process.Kill()
		}
		in.Close()
		if err := cmd.Wait(); (err == nil) == kill {
			t.Errorf("ended with %v", err)
		}
		s, _ = openHome(t, dir, queuefs.Options{})
		closeHome(t, s)
		must(t, s.Close()) // again
	}
}

// A change that waits for space when the service closes is finished: the checkpoint it
// asked for makes some.
func TestCloseWaitsForAChangeThatMakesSpace(t *testing.T) {
	var full, held atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	s, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 4 << 20, Fault: func(step string, do func() error) error {
		if full.Load() && (step == "prepare segment" || step == "allocate") {
			return syscall.ENOSPC
		}
		if full.Load() && step == "syncfs" && held.CompareAndSwap(false, true) {
			close(reached)
			<-goOn
		}
		return do()
	}})
	full.Store(true)
	done := make(chan error, 1)
	go func() {
		for {
			_, err := trySubmit(q, string(make([]byte, 100_000)))
			if err != nil || held.Load() { // the one that asked for the checkpoint, or one after it
				done <- err
				return
			}
		}
	}()
	select {
	case <-reached:
	case err := <-done:
		t.Fatalf("no checkpoint was asked for: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for {
		if _, err := q.NextN(ctx, "me", 1); errors.Is(err, ledger.ErrClosed) {
			break
		}
	}
	full.Store(false)
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the change on its way got %v", err)
	}
	should(t, <-closed)
}
