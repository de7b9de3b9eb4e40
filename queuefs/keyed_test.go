package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// send submits payloads; key is that of the submission, keys are those of the jobs, both
// may be empty. It returns the identifiers, and whether all were there before.
func send(q *queuefs.Queue, key string, keys []string, payloads ...string) (got string, again bool, err error) {
	s := q.Begin()
	defer s.Discard()
	s.Key(key)
	if len(payloads) > 1 {
		s.Group()
	}
	for i, p := range payloads {
		var m job.Meta
		if keys != nil {
			m.Key = keys[i]
		}
		d, err := s.Add(m)
		if err != nil {
			return "", false, err
		}
		if _, err := io.WriteString(d, p); err != nil {
			return "", false, err
		}
	}
	jobs, err := s.Commit(ctx)
	var ids []string
	for _, j := range jobs {
		ids = append(ids, strings.TrimLeft(j.ID.String(), "j0"))
	}
	return strings.Join(ids, " "), s.Again(), err
}

func TestSubmissionIsTriedAgain(t *testing.T) {
	large := strings.Repeat("large", 50_000)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	for _, c := range []struct {
		key      string
		keys     []string
		payloads []string
		want     string // jobs, "again" behind those stored before; or the error
	}{
		{"", nil, []string{"a"}, "1"},
		{"k", nil, []string{"a"}, "2"},
		{"k", nil, []string{"a"}, "2 again"},
		{"", []string{"k"}, []string{"a"}, "2 again"},
		{"k", nil, []string{"b"}, `key was used before: j000000000002 of key "k" has another payload`},
		{"k", nil, []string{"a", "b"}, `key was used before: j000000000002 of key "k" is of another number of jobs`},
		{"large", nil, []string{large}, "3"},
		{"large", nil, []string{large}, "3 again"},
		{"m", nil, []string{"a", "b", "c"}, "4 5 6"},
		{"m", nil, []string{"a", "b", "c"}, "4 5 6 again"},
		{"m", nil, []string{"a", "c", "b"}, `key was used before: j000000000005 of key "m#2" has another payload`},
		{"m", nil, []string{"a", "b"}, `key was used before: j000000000006 of key "m" is of another number of jobs`},
		{"m", nil, []string{"a"}, `key was used before: j000000000004 of key "m" is of another number of jobs`},
		{"m", nil, []string{"a", "b", "c", "d"}, `key was used before: j000000000004 of key "m" is of another number of jobs`},
		{"m#2", nil, []string{"b"}, "5 again"},
		{"", []string{"p", ""}, []string{"a", "b"}, "7 8"},
		{"", []string{"p", "q", "r"}, []string{"a", large, "c"}, "7 9 10"},
		{"", []string{"r", "p", "q"}, []string{"c", "a", large}, "10 7 9 again"},
		{"", []string{"s", "q"}, []string{"new", "no"}, `key was used before: j000000000009 of key "q" has another payload`},
		{"", []string{"s", "s"}, []string{"a", "a"}, "bad name: two jobs of a submission have one key"},
		{"k", []string{"s"}, []string{"a"}, `bad name: key "s" beside the key of the submission`},
		{"no key", nil, []string{"a"}, `bad name: key "no key" is not 1 to 255 visible ASCII characters`},
		{strings.Repeat("x", 254), nil, []string{"a", "b"}, `bad name: key "` + strings.Repeat("x", 40) + `" is not 1 to 255 visible ASCII characters`},
	} {
		got, again, err := send(q, c.key, c.keys, c.payloads...)
		if again {
			got += " again"
		}
		if err != nil {
			got = err.Error()
			if !strings.HasPrefix(got, "bad name") && !errors.Is(err, queuefs.ErrKeyUsed) {
				t.Errorf("%q: got %v", c.key, err)
			}
		}
		if got != c.want {
			t.Errorf("%q %q: got %s, want %s", c.key, c.keys, got, c.want)
		}
	}
	if st := q.State(); st.Pending != 10 || st.Seq != 10 {
		t.Errorf("got %d jobs, %d events", st.Pending, st.Seq)
	}
	if j, err := q.Job(8); err != nil || j.Batch != "b000000000007-2" || j.Key != "" {
		t.Errorf("got %+v, %v", j, err)
	}
	if j, err := q.Job(10); err != nil || j.Batch != "b000000000009-2" || j.Key != "r" {
		t.Errorf("the new jobs are a batch: got %+v, %v", j, err)
	}
	must(t, s.Checkpoint(ctx))
	if temps, _ := filepath.Glob(dir + "/cutie-tmp/*"); len(temps) > 0 {
		t.Errorf("payloads stay behind: %q", temps)
	}
}

// TestKeyLastsAsLongAsItsJob goes through all that a home goes through.
func TestKeyLastsAsLongAsItsJob(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	for _, key := range []string{"pending", "consumed", "deleted", "late"} {
		if key == "late" {
			must(t, s.Checkpoint(ctx))
		}
		_, _, err := send(q, key, nil, key)
		must(t, err)
	}
	must(t, errOf(q.Delete(ctx, 3)))
	must(t, errOf(q.Hold(ctx, 1, "")))
	if _, err := q.NextN(ctx, "w", 1); err != nil { // 2
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for key, want := range map[string]string{"pending": "1", "consumed": "2", "deleted": "3", "late": "4"} {
			if got, again, err := send(q, key, nil, key); got != want || !again || err != nil {
				t.Errorf("%s: %s: got %s, %v, %v", when, key, got, again, err)
			}
			if _, _, err := send(q, key, nil, "other"); !errors.Is(err, queuefs.ErrKeyUsed) {
				t.Errorf("%s: %s with another payload: got %v", when, key, err)
			}
		}
	}
	check("in use")
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Closed = true }))))
	check("closed")

	crashed := copyHome(t, dir)
	closeHome(t, s)
	s, q = openHome(t, crashed, queuefs.Options{})
	check("after a crash")
	closeHome(t, s)
	s, q = openHome(t, crashed, queuefs.Options{})
	check("after a stop")
	closeHome(t, s)
	rebuild(t, crashed)
	s, q = openHome(t, crashed, queuefs.Options{})
	check("rebuilt")
	closeHome(t, s)
	// A promoted copy has the files of queues alone.
	must(t, os.RemoveAll(crashed+"/log"))
	s, q = openHome(t, crashed, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	check("without index and journal")

	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Closed, i.CullingSize = false, 0 }))))
	if got := culled(t, s, queuefs.CullOptions{}); len(got) != 2 {
		t.Fatalf("got %v", got)
	}
	if got, again, err := send(q, "deleted", nil, "something else"); got != "5" || again || err != nil {
		t.Errorf("the key of a culled job: got %s, %v, %v", got, again, err)
	}
}

// Each user has keys of his own: those of others neither stand in his way nor show their jobs.
func TestEachUserHasKeysOfHisOwn(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	check := func(again bool) {
		t.Helper()
		for n, owner := range []string{"ann", "bob", ""} {
			for _, payload := range []string{owner, "another"} {
				sub := q.Begin()
				d := sure(sub.Add(job.Meta{Key: "k", Owner: owner}))(t)
				io.WriteString(d, payload)
				jobs, err := sub.Commit(ctx)
				if payload == "another" {
					if own := job.ID(n + 1).String(); !errors.Is(err, queuefs.ErrKeyUsed) || !strings.Contains(err.Error(), own) {
						t.Errorf("%q: got %v, want %s named", owner, err, own)
					}
				} else if err != nil || jobs[0].ID != job.ID(n+1) || sub.Again() != again {
					t.Errorf("%q: got %v, again %t, %v", owner, jobs, sub.Again(), err)
				}
				sub.Discard()
			}
		}
	}
	check(false)
	check(true)
	closeHome(t, s)
	must(t, os.RemoveAll(dir+"/log"))
	s, q = openHome(t, dir, queuefs.Options{})
	defer func() { closeHome(t, s) }()
	check(true)
}

// TestWrongPayloadOfAKeyIsRefusedByItsDigest is about a body cut short on its second way.
func TestWrongPayloadOfAKeyIsRefusedByItsDigest(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	submit(t, q, job.Meta{Key: "k"}, "whole")
	sub := q.Begin()
	d := sure(sub.Add(job.Meta{Key: "k", Expect: []digest.Value{digest.Sum(digest.MD5, []byte("whole"))}}))(t)
	io.WriteString(d, "who")
	wantErr(t, errOf(sub.Commit(ctx)), digest.ErrMismatch, "")
}

// TestManyTryOneKeyAtOnce has a crowd for each key: one job comes of it.
func TestManyTryOneKeyAtOnce(t *testing.T) {
	_, q := openHome(t, t.TempDir(), queuefs.Options{})
	var stored [5]atomic.Int32
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			key := n % len(stored)
			payloads := []string{fmt.Sprint(key), "more"}[:1+key%2]
			ids, again, err := send(q, fmt.Sprint("k", key), nil, payloads...)
			if err != nil || ids == "" {
				t.Errorf("%d: got %q, %v", n, ids, err)
			}
			if !again {
				stored[key].Add(1)
			}
		})
	}
	all.Wait()
	for key := range stored {
		if n := stored[key].Load(); n != 1 {
			t.Errorf("key %d was stored %d times", key, n)
		}
	}
	if st := q.State(); st.Pending != 7 {
		t.Errorf("got %d jobs", st.Pending)
	}
}

func takenIDs(taken []queuefs.Taken) (got string) {
	for _, k := range taken {
		got += strings.TrimLeft(k.ID.String(), "j0") + " "
	}
	if len(taken) > 0 && taken[0].Again {
		got += "again"
	}
	return strings.TrimSpace(got)
}

// TestTakeIsTriedAgain gives the same jobs for a key within a lease, or five minutes.
func TestTakeIsTriedAgain(t *testing.T) {
	var d dial
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: d.now})
	for n := range 9 {
		submit(t, q, job.Meta{}, fmt.Sprint("payload ", n+1))
	}
	take := func(k queuefs.Take) []queuefs.Taken {
		t.Helper()
		taken, err := q.Take(ctx, k)
		if err != nil && !errors.Is(err, ledger.ErrEmpty) {
			t.Fatal(err)
		}
		defer q.Given(taken)
		for _, k := range taken {
			if got, want := payload(t, q, k.ID), fmt.Sprint("payload ", uint64(k.ID)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		return taken
	}
	wants := func(k queuefs.Take, want string) []queuefs.Taken {
		t.Helper()
		taken := take(k)
		if got := takenIDs(taken); got != want {
			t.Errorf("%s: got %s, want %s", k.Key, got, want)
		}
		return taken
	}
	plain := queuefs.Take{Key: "plain", Max: 2, Keep: true}
	leased := queuefs.Take{Key: "leased", Max: 2, Lease: time.Hour, User: "ann", Keep: true}
	wants(plain, "1 2")
	first := wants(leased, "3 4")
	same := func(taken []queuefs.Taken) {
		t.Helper()
		for i := range taken {
			if taken[i].Token != first[i].Token || taken[i].Attempts != 1 || first[i].Token == "" {
				t.Errorf("%v: got token %q and attempt %d, want %q", taken[i].ID, taken[i].Token, taken[i].Attempts, first[i].Token)
			}
		}
	}
	seq := q.State().Seq
	wants(plain, "1 2 again")
	same(wants(leased, "3 4 again"))
	if got := q.State().Seq; got != seq {
		t.Errorf("%d events of nothing", got-seq)
	}
	other := leased
	other.User = "bob"
	bobs := wants(other, "5 6")

	// The token works, the lease may grow, and the work ends.
	should(t, errOf(q.Extend(ctx, 3, first[0].Token, 2*time.Hour)))
	should(t, errOf(q.Conclude(ctx, 4, first[1].Token, job.Conclusion{Outcome: job.Completed})))
	should(t, errOf(q.Return(ctx, 6, bobs[1].Token, "")))
	same(wants(leased, "3 again"))
	wants(other, "5 again")

	for _, how := range []string{"crash", "stop"} {
		dir = leave(t, how, dir, s, nil)
		s, q = openHome(t, dir, queuefs.Options{Now: d.now})
		wants(plain, "1 2 again")
		same(wants(leased, "3 again"))
	}
	defer func() { closeHome(t, s) }()

	d.turn(5*time.Minute + time.Second)
	wants(plain, "6 7")
	d.turn(56 * time.Minute)
	same(wants(leased, "3 again")) // it was extended
	must(t, s.Expire(ctx))
	wants(other, "5 8")
	if taken := wants(other, "5 8 again"); taken[0].Attempts != 2 {
		t.Errorf("got %d attempts", taken[0].Attempts)
	}
	if j, err := q.Job(1); err != nil || j.ConsumerKey == "" || strings.Contains(j.ConsumerKey, "plain") {
		t.Errorf("got %+v, %v", j, err)
	}
	wants(queuefs.Take{Key: "rest"}, "9")
	wants(queuefs.Take{Key: "none"}, "") // and is not remembered
	must(t, errOf(q.Requeue(ctx, 9)))
	wants(queuefs.Take{Key: "none"}, "9")
	wants(queuefs.Take{Key: "rest"}, "") // it went to another
	must(t, errOf(q.Requeue(ctx, 9)))

	// A failed job has all its attempts again, and no token of before.
	again := queuefs.Take{Key: "again", Lease: time.Hour}
	before := wants(again, "9")[0]
	for n := range 2 {
		must(t, errOf(q.Conclude(ctx, 9, before.Token, job.Conclusion{Outcome: job.Failed})))
		must(t, errOf(q.Requeue(ctx, 9)))
		now := wants(again, "9")[0]
		if _, err := q.Conclude(ctx, 9, before.Token, job.Conclusion{Outcome: job.Completed}); !errors.Is(err, queuefs.ErrLease) || now.Attempts != 1 {
			t.Errorf("after failure %d: attempt %d, a late report: %v", n+1, now.Attempts, err)
		}
		before = now
	}
	wantErr(t, errOf(q.Take(ctx, queuefs.Take{Key: "no key"})), job.ErrBadName, "")
}

// A taking is what a waiter came back with.
type taking struct {
	who  int
	jobs []job.ID
	err  error
}

// wait starts a waiter and returns once it stands in the line.
func wait(ctx context.Context, q *queuefs.Queue, who, max int, back chan taking) {
	go func() {
		jobs, err := q.NextWait(ctx, fmt.Sprint("w", who), max)
		back <- taking{who, idsOf(jobs), err}
	}()
	synctest.Wait()
}

func expect(t *testing.T, back chan taking, want ...taking) {
	t.Helper()
	synctest.Wait()
	var got []taking
	for len(back) > 0 {
		got = append(got, <-back)
	}
	slices.SortFunc(got, func(a, b taking) int { return a.who - b.who })
	if !slices.EqualFunc(got, want, func(a, b taking) bool {
		return a.who == b.who && slices.Equal(a.jobs, b.jobs) && errors.Is(a.err, b.err)
	}) {
		t.Errorf("got %+v want %+v", got, want)
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		_, q := openHome(t, dir, queuefs.Options{})
		back := make(chan taking, 100)
		for who := range 10 {
			wait(ctx, q, who, 1, back)
		}
		wantErr(t, errOf(q.Next(ctx, "hasty")), ledger.ErrEmpty, "next")
		for who := range 10 {
			j := submit(t, q, job.Meta{}, "x")
			expect(t, back, taking{who: who, jobs: []job.ID{j.ID}})
		}
		// One who takes many gets what is there, not more than it asked for.
		wait(ctx, q, 10, 3, back)
		wait(ctx, q, 11, 5, back)
		fillQueue(t, q, 5, 1)
		expect(t, back, taking{who: 10, jobs: []job.ID{11, 12, 13}}, taking{who: 11, jobs: []job.ID{14, 15}})
		// A job that comes back is a job.
		wait(ctx, q, 12, 1, back)
		must(t, errOf(q.Requeue(ctx, 4)))
		expect(t, back, taking{who: 12, jobs: []job.ID{4}})
	})
}

func TestWaiterThatGivesUpTakesNothing(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		_, q := openHome(t, dir, queuefs.Options{})
		back := make(chan taking, 100)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		wait(short, q, 0, 1, back)
		wait(ctx, q, 1, 1, back)
		time.Sleep(time.Hour) // of the clock of this test
		expect(t, back, taking{who: 0, err: ledger.ErrEmpty})
		submit(t, q, job.Meta{}, "x")
		expect(t, back, taking{who: 1, jobs: []job.ID{1}})
		submit(t, q, job.Meta{}, "y")
		// One who has given up already takes nothing that is there.
		wait(short, q, 2, 1, back)
		expect(t, back, taking{who: 2, err: ledger.ErrEmpty})
		wantErr(t, errOf(q.NextN(short, "w", 1)), context.DeadlineExceeded, "")
		if j, err := q.Peek(); err != nil || j.ID != 2 || q.State().Consumed != 1 {
			t.Errorf("got %v, %v, %+v", j.ID, err, q.State())
		}
	})
}

// An ending is a context that has ended, but nobody who waits has seen it yet.
type ending struct {
	context.Context
	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// TestJobForOneWhoHungUp hands a job to a waiter whose context ends at that
// moment: the next one gets it.
func TestJobForOneWhoHungUp(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		_, q := openHome(t, dir, queuefs.Options{})
		back := make(chan taking, 3)
		hung := &ending{Context: ctx}
		wait(hung, q, 0, 1, back)
		wait(ctx, q, 1, 1, back)
		hung.ended.Store(true)
		submit(t, q, job.Meta{}, "x")
		expect(t, back, taking{who: 0, err: ledger.ErrEmpty}, taking{who: 1, jobs: []job.ID{1}})
		if events := q.Seq(); events != 2 {
			t.Errorf("%d events, want 2", events)
		}
	})
}

// TestWaiterCancelledInTheAct cancels waiters while jobs come, at every moment
// that chance finds: each job is taken by one who says so, or still there.
func TestWaiterCancelledInTheAct(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	const rounds = 300
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := map[job.ID]bool{}
	for i := range rounds {
		one, cancel := context.WithCancel(ctx)
		wg.Go(func() {
			jobs, err := q.NextWait(one, "w", 2)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, ledger.ErrEmpty) && !t.Failed() {
				t.Errorf("got %v", err)
			}
			for _, j := range jobs {
				if taken[j.ID] {
					t.Errorf("%v was taken twice", j.ID)
				}
				taken[j.ID] = true
			}
		})
		wg.Go(func() { submit(t, q, job.Meta{}, "x") })
		if rand.IntN(2) == 0 {
			wg.Go(cancel)
		} else {
			defer cancel()
		}
		if i%20 == 0 {
			submit(t, q, job.Meta{}, "x") // so that none waits for ever
		}
	}
	for range 2 * rounds { // enough for those who were not cancelled
		submit(t, q, job.Meta{}, "x")
	}
	wg.Wait()
	for _, id := range q.IDs(index.Filter{Limit: 1 << 20}) {
		if st, _ := q.Status(id); (st == job.Consumed) != taken[id] {
			t.Errorf("%v is %v, taken %v", id, st, taken[id])
		}
	}
}

func TestThousandWaiters(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openHome(t, dir, queuefs.Options{})
		back := make(chan taking, 2000)
		for who := range 1000 {
			go func() {
				jobs, err := q.NextWait(ctx, "w", 1)
				back <- taking{who, idsOf(jobs), err}
			}()
		}
		synctest.Wait()
		fillQueue(t, q, 300, 10)
		fillQueue(t, q, 300, 10)
		synctest.Wait()
		if st := q.State(); st.Consumed != 600 || len(back) != 600 {
			t.Errorf("got %+v, %d came back", st, len(back))
		}
		// Closing lets the others go.
		closeHome(t, s)
		synctest.Wait()
		if len(back) != 1000 {
			t.Fatalf("%d came back", len(back))
		}
		var got []job.ID
		closed := 0
		for range 1000 {
			if b := <-back; errors.Is(b.err, ledger.ErrClosed) {
				closed++
			} else {
				got = append(got, b.jobs...)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 600 || closed != 400 {
			t.Errorf("got %d jobs, %d told that the service closed", len(got), closed)
		}
	})
}

func TestFailureLetsWaitersGo(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		failing := false
		s, q := openHome(t, dir, queuefs.Options{Fault: failIf(syscall.EIO, func(step string) bool {
			return failing && step == "journal sync"
		})})
		back := make(chan taking, 2)
		wait(ctx, q, 0, 1, back)
		followed := make(chan error, 1)
		go func() { followed <- q.Wait(ctx, q.Seq()) }()
		synctest.Wait()
		failing = true
		if _, err := trySubmit(q, ""); !errors.Is(err, ledger.ErrFailed) || errors.Is(err, ledger.ErrNoSpace) {
			t.Errorf("submit: got %v", err)
		}
		expect(t, back, taking{who: 0, err: ledger.ErrFailed})
		wantErr(t, <-followed, ledger.ErrFailed, "wait")
		wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrFailed, "next")
		if s.Err() == nil {
			t.Error("the service does not know")
		}
		if err := s.Close(); err == nil {
			t.Error("close says that files and index are exact")
		}
	})
}

// TestOperationsOnOneJobTakeTurns has a second operation come while the first
// is on its way to storage.
func TestOperationsOnOneJobTakeTurns(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		var gate chan bool
		s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
			if step == "journal sync" && gate != nil {
				<-gate
			}
			return do()
		}})
		defer closeHome(t, s)
		submit(t, q, job.Meta{}, "x")
		gate = make(chan bool)
		taken, deleted := make(chan error, 1), make(chan error, 1)
		go func() { _, err := q.Next(ctx, "w"); taken <- err }()
		synctest.Wait()
		wantErr(t, errOf(q.Next(ctx, "v")), ledger.ErrEmpty, "the job is handed out")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		wantErr(t, errOf(q.Requeue(short, 1)), context.DeadlineExceeded, "requeue")
		go func() { _, err := q.Delete(ctx, 1); deleted <- err }()
		synctest.Wait()
		close(gate)
		if err := <-taken; err != nil {
			t.Errorf("next: got %v", err)
		}
		wantErr(t, <-deleted, job.ErrNotPending, "delete")
		if j, err := q.Requeue(ctx, 1); err != nil || j.Requeues != 1 {
			t.Errorf("requeue: got %+v, %v", j, err)
		}
	})
}
