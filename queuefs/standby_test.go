package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/testdata/long"
)

// standBy opens a standby of the home in a store.
func standBy(t testing.TB, name string, m *objectstest.Memory) *queuefs.Service {
	t.Helper()
	s, err := openStored(fastDir(t)+"/"+name, m, queuefs.Options{Stored: &stored.Options{Name: name, URL: "http://" + name + "/", Standby: true}})
	must(t, err)
	if !s.Standby() {
		t.Fatalf("%s is no standby", name)
	}
	return s
}

// advance applies all there is.
func advance(t testing.TB, s *queuefs.Service) {
	t.Helper()
	for {
		more := sure(s.Advance(ctx))(t)
		if !more {
			return
		}
	}
}

// trySubmit submits a job.
func trySubmit(q *queuefs.Queue, payload string) (job.ID, error) {
	s := q.Begin()
	defer s.Discard()
	d, err := s.Add(job.Meta{})
	if err == nil {
		_, err = d.Write([]byte(payload))
	}
	if err != nil {
		return 0, err
	}
	jobs, err := s.Commit(ctx)
	if err != nil {
		return 0, err
	}
	return jobs[0].ID, nil
}

func TestAStandbyHasTheStateOfItsOwner(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, a, "one")
	b := standBy(t, "b", m)
	see(t, a).check(t, see(t, b))
	for _, round := range []string{"two", "three"} {
		workStored(t, a, round)
		advance(t, b)
		see(t, a).check(t, see(t, b))
		must(t, b.Checkpoint(ctx))
		see(t, a).check(t, see(t, b))
	}
	workStored(t, a, "four")
	if st, ok := b.Standing(); !ok || !st.Standby || st.Owner.Name != "owner of a" || time.Since(st.As) > time.Minute {
		t.Errorf("got %+v, %v", st, ok)
	}
	want := see(t, a)
	must(t, b.TakeOver(ctx, false))
	if st, ok := b.Standing(); !ok || st.Standby || st.Owner.URL != "http://b/" {
		t.Errorf("got %+v, %v", st, ok)
	}
	want.check(t, see(t, b))
	wantErr(t, errOf(a.CreateQueue(ctx, home.QueueInfo{Identifier: "late"})), journal.ErrFenced, "the former owner")
	if err := a.Close(); err == nil {
		t.Error("a fenced service is closed without an error")
	}
	workStored(t, b, "five")
	want = see(t, b)
	closeHome(t, b)
	want.shownBy(t, mustStored(t, fastDir(t)+"/c", m))
}

// A directory that was the one of a standby and then of the owner goes on after a crash.
func TestAStandbyThatTookOverGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	b := standBy(t, "b", m)
	workStored(t, a, "one")
	must(t, b.TakeOver(ctx, false))
	workStored(t, b, "two")
	must(t, b.Checkpoint(ctx)) // before it a crash has the directory made again
	want := see(t, b)
	dir := copyHome(t, b.Dir())
	again := mustStored(t, dir, m)
	if again.Restored() {
		t.Error("the directory is made again")
	}
	got := see(t, again)
	got.files = want.files // the copies have dates of their own
	want.check(t, got)
	closeHome(t, again)
	if a.Close() == nil || b.Close() == nil {
		t.Error("a fenced service is closed without an error")
	}
}

func TestAStandbyChangesNothing(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	defer closeHome(t, a)
	workStored(t, a, "one")
	b := standBy(t, "b", m)
	want := see(t, b)
	q := sure(b.Queue("qone"))(t)
	n := len(m.Objects())
	for what, do := range map[string]func() error{
		"submit":  func() error { return errOf(trySubmit(q, "x")) },
		"take":    func() error { _, err := q.Next(ctx, "x"); return err },
		"delete":  func() error { _, err := q.Delete(ctx, 2); return err },
		"create":  func() error { _, err := b.CreateQueue(ctx, home.QueueInfo{Identifier: "new"}); return err },
		"remove":  func() error { return b.RemoveQueue(ctx, "againone") },
		"set":     func() error { return errOf(b.SetQueue(ctx, "qone", func(*home.QueueInfo) error { return nil })) },
		"service": func() error { return b.SetService(ctx, func(*home.ServiceInfo) error { return nil }) },
	} {
		wantErr(t, do(), journal.ErrFollowing, "%s", what)
	}
	must(t, b.Expire(ctx))
	if changed, err := b.Reload(ctx); len(changed) > 0 || err != nil {
		t.Errorf("got %v, %v", changed, err)
	}
	must(t, b.Err())
	want.check(t, see(t, b))
	closeHome(t, b)
	if got := len(m.Objects()); got != n {
		t.Errorf("%d objects, want %d", got, n)
	}
}

// The deadlines of the owner are those of its successor: leases and holds end, keys of
// takes are known, and waiting consumers of the former owner go without a job.
func TestDeadlinesAreTakenOver(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	now := time.Now()
	clock := func() time.Time { return now }
	a := sure(openStored(fastDir(t)+"/a", m, queuefs.Options{Now: clock}))(t)
	q := createQueue(t, a, home.QueueInfo{Identifier: "jobs"})
	b, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Now: clock, Stored: &stored.Options{Name: "b", Standby: true}})
	must(t, err)
	submitN(t, q, 3, job.Meta{}, "x")
	must(t, errOf(q.Take(ctx, queuefs.Take{Max: 1, Lease: time.Minute, Key: "key", User: "u"})))
	must(t, errOf(q.HoldUntil(ctx, 2, "", now.Add(time.Minute))))
	advance(t, b)
	must(t, a.Leave())
	must(t, b.TakeOver(ctx, false))
	p := sure(b.Queue("jobs"))(t)
	taken := sure(p.Take(ctx, queuefs.Take{Max: 1, Lease: time.Minute, Key: "key", User: "u"}))(t)
	if len(taken) != 1 || taken[0].ID != 1 || !taken[0].Again {
		t.Errorf("by the key: got %+v", taken)
	}
	now = now.Add(2 * time.Minute)
	advance(t, a)
	must(t, a.Expire(ctx))
	must(t, b.Expire(ctx))
	for id := range job.ID(2) {
		if j, err := p.Job(id + 1); err != nil || j.Status != job.Pending || !j.Held.IsZero() {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	advance(t, a)
	see(t, b).check(t, see(t, a))
	must(t, b.Leave())
	must(t, a.TakeOver(ctx, false))
	submit(t, q, job.Meta{}, "of a")
	advance(t, b)
	see(t, a).check(t, see(t, b))
	closeHome(t, b)
	closeHome(t, a)
}

// The owner leaves under load: each call succeeds here, or fails with ErrStandby, and the
// successor has what was acknowledged.
func TestAnOwnerLeavesUnderLoad(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	b := standBy(t, "b", m)
	q := createQueue(t, a, home.QueueInfo{Identifier: "jobs"})
	var mu sync.Mutex
	done := map[job.ID]string{}
	var wg sync.WaitGroup
	begun := make(chan bool, 1<<16)
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				text := fmt.Sprint(c, " ", i)
				id, err := trySubmit(q, text)
				if errors.Is(err, journal.ErrFollowing) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				done[id] = text
				mu.Unlock()
				begun <- true
			}
		})
	}
	waiting := make(chan error)
	other := createQueue(t, a, home.QueueInfo{Identifier: "empty"})
	go func() {
		_, err := other.TakeWait(ctx, queuefs.Take{})
		waiting <- err
	}()
	for range 200 {
		<-begun
	}
	must(t, a.Leave())
	wg.Wait()
	if err := <-waiting; !errors.Is(err, ledger.ErrEmpty) && !errors.Is(err, journal.ErrFollowing) {
		t.Errorf("a waiting consumer: got %v", err)
	}
	must(t, b.TakeOver(ctx, false))
	p := sure(b.Queue("jobs"))(t)
	if n := p.State().Pending; n != int64(len(done)) {
		t.Errorf("%d jobs, want %d", n, len(done))
	}
	for id, text := range done {
		if got := payload(t, p, id); got != text {
			t.Errorf("%v: got %q, want %q", id, got, text)
		}
	}
	advance(t, a)
	see(t, b).check(t, see(t, a))
	closeHome(t, a)
	closeHome(t, b)
}

// Nobody waits for jobs at a process that has left; one that owns the home again has
// waiting consumers again.
func TestConsumersWaitAtTheOwner(t *testing.T) {
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	q := createQueue(t, a, home.QueueInfo{Identifier: "jobs"})
	must(t, a.Leave())
	wantErr(t, errOf(q.TakeWait(ctx, queuefs.Take{})), journal.ErrFollowing, "after it has left")
	must(t, a.TakeOver(ctx, false))
	got := make(chan []queuefs.Taken)
	go func() {
		taken, err := q.TakeWait(ctx, queuefs.Take{})
		should(t, err)
		got <- taken
	}()
	id := submit(t, q, job.Meta{}, "x")
	if taken := <-got; len(taken) != 1 || taken[0].ID != id.ID {
		t.Errorf("got %+v, want job %v", taken, id.ID)
	}
	closeHome(t, a)
}

// Of several standbys that find the owner silent one takes over, and not from each other.
func TestOneOfManyStandbysTakesOver(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, a, "one")
	var standbys []*queuefs.Service
	for i := range 4 {
		standbys = append(standbys, standBy(t, fmt.Sprint("b", i), m))
	}
	var owners, others atomic.Int64
	var wg sync.WaitGroup
	for _, s := range standbys {
		wg.Go(func() {
			switch err := s.TakeOver(ctx, true); {
			case err == nil:
				owners.Add(1)
			case errors.Is(err, queuefs.ErrAlive):
				others.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if owners.Load() != 1 || others.Load() != 3 {
		t.Errorf("%d owners, %d others", owners.Load(), others.Load())
	}
	for _, s := range standbys {
		if s.Standby() {
			advance(t, s)
			see(t, a).check(t, see(t, s))
		}
		closeHome(t, s)
	}
}

// Standbys begin with an image, follow while others are made, and make their own once
// they own the home.
func TestStandbysAndImages(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, a, "one")
	must(t, a.Image(ctx))
	b := standBy(t, "b", m)
	workStored(t, a, "two")
	advance(t, b)
	must(t, a.Image(ctx))
	workStored(t, a, "three")
	must(t, a.Image(ctx))
	must(t, a.Image(ctx))
	advance(t, b)
	must(t, b.Bring(ctx))
	see(t, a).check(t, see(t, b))
	c := standBy(t, "c", m)
	workStored(t, a, "four")
	advance(t, c)
	see(t, a).check(t, see(t, c))
	must(t, b.TakeOver(ctx, false))
	workStored(t, b, "five")
	must(t, b.Image(ctx))
	workStored(t, b, "six")
	must(t, b.Image(ctx))
	advance(t, c)
	want := see(t, b)
	want.check(t, see(t, c))
	closeHome(t, c)
	closeHome(t, b)
	want.shownBy(t, mustStored(t, fastDir(t)+"/d", m))
}

// A home without followers keeps its journal for one. An image of a former standby wants no
// record of it that was released by the owner before.
func TestAnImageOfAFormerStandby(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	b := standBy(t, "b", m)
	for _, round := range []string{"one", "two"} {
		workStored(t, a, round)
		advance(t, b)
		must(t, a.Image(ctx))
		advance(t, b)
	}
	must(t, b.TakeOver(ctx, false))
	must(t, b.Image(ctx))
	want := see(t, b)
	closeHome(t, b)
	_ = a.Close() // it is fenced
	want.shownBy(t, mustStored(t, fastDir(t)+"/c", m))
}

// A standby with a full disk takes over, without the files of jobs whose journal the owner
// has released. Once there is space it is opened again, with the image of that owner.
func TestAStandbyWithAFullDiskTakesOver(t *testing.T) {
	t.Parallel()
	m, dir := new(objectstest.Memory), fastDir(t)+"/b"
	a := mustStored(t, fastDir(t)+"/a", m)
	a.Follow(current{}) // else journal is kept for an absent follower
	q := createQueue(t, a, home.QueueInfo{Identifier: "q"})
	var full atomic.Bool
	b, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "b", Standby: true},
		Fault: func(step string, do func() error) error {
			// No batch is kept in temporary files, either.
			if strings.HasPrefix(step, "temp ") || full.Load() && strings.HasPrefix(step, "put ") {
				return syscall.ENOSPC
			}
			return do()
		}})
	must(t, err)
	full.Store(true)
	for range 3 {
		submit(t, q, job.Meta{}, "payload")
		advance(t, b)
		wantErr(t, b.Checkpoint(ctx), ledger.ErrNoSpace, "")
		must(t, a.Image(ctx))
		advance(t, b)
	}
	want := see(t, a)
	must(t, b.TakeOver(ctx, false))
	full.Store(false)
	err = b.Maintain(ctx)
	if !errors.Is(err, queuefs.ErrBehind) || !errors.Is(b.Err(), queuefs.ErrBehind) {
		t.Errorf("got %v and %v", err, b.Err())
	}
	_ = b.Close()
	_ = a.Close() // it is fenced
	b = mustStored(t, dir, m)
	must(t, b.Bring(ctx))
	want.check(t, see(t, b))
	must(t, b.Checkpoint(ctx))
	closeHome(t, b)
}

// While a standby is opened, its owner makes images and releases the journal before them:
// the standby begins again, with a newer image. That comes at each request to the store.
func TestAStandbyIsPassedWhileItIsOpened(t *testing.T) {
	t.Parallel()
	open := func(at int64) (requests int64) {
		var n atomic.Int64
		n.Store(-1 << 40) // not yet
		var a *queuefs.Service
		m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
			if n.Add(1) != at {
				return objectstest.None
			}
			for i := range 3 {
				submit(t, a.Queues()[0], job.Meta{}, fmt.Sprint("meanwhile ", i))
				must(t, a.Image(ctx))
			}
			return objectstest.None
		}}
		a = mustStored(t, fastDir(t)+"/a", m)
		workStored(t, a, "one")
		must(t, a.Image(ctx))
		submit(t, a.Queues()[0], job.Meta{}, "since the image")
		n.Store(0)
		b := standBy(t, "b", m)
		requests = n.Swap(-1 << 40)
		advance(t, b)
		must(t, b.Bring(ctx))
		see(t, a).check(t, see(t, b))
		closeHome(t, b)
		closeHome(t, a)
		return requests
	}
	all := open(1 << 39) // never
	for at := int64(1); at <= all; at += max(1, all/int64(long.N(5, int(all)))) {
		open(at)
		if t.Failed() {
			t.Fatalf("at request %d of %d", at, all)
		}
	}
}

// Large properties are in no event, and come with the journal all the same.
func TestAStandbyFollowsLargeProperties(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	defer closeHome(t, a)
	createQueue(t, a, home.QueueInfo{Identifier: "jobs"})
	b := standBy(t, "b", m)
	defer closeHome(t, b)
	path := a.Dir() + "/queues/jobs/queue-info.txt"
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(text, "# "+strings.Repeat("long ", 8<<10)+"\nname: another\n"...), 0o666))
	for changed := []string(nil); len(changed) == 0; { // once the file holds still
		changed, err = a.Reload(ctx)
		must(t, err)
	}
	advance(t, b)
	see(t, a).check(t, see(t, b))
	should(t, errOf(b.Queue("another")))
	text, err = os.ReadFile(b.Dir() + "/queues/jobs/queue-info.txt")
	want, err2 := os.ReadFile(path)
	if err != nil || err2 != nil || string(text) != string(want) {
		t.Errorf("%v, %v, %d octets, want %d", err, err2, len(text), len(want))
	}
}

// An owner knows by a look at the store whether what it knows is the present state. Many who
// ask at once share a look.
func TestAnOwnerProvesThatItIsOne(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	var gets atomic.Int64
	var away atomic.Bool
	m.Fault = func(r objectstest.Request) objectstest.Fault {
		if r.Op == "Get" && strings.HasPrefix(r.Name, "journal/") {
			gets.Add(1)
		}
		if away.Load() {
			return objectstest.Before
		}
		return objectstest.None
	}
	a := mustStored(t, fastDir(t)+"/a", m)
	q := createQueue(t, a, home.QueueInfo{Identifier: "q"})
	must(t, a.Owns(ctx))
	var wg sync.WaitGroup
	before := gets.Load()
	for range 1000 {
		wg.Go(func() {
			should(t, a.Owns(ctx))
		})
	}
	wg.Wait()
	if n := gets.Load() - before; n >= 1000 {
		t.Errorf("%d looks for 1000 callers", n)
	}
	away.Store(true)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := a.Owns(short); err == nil {
		t.Error("a proof without the store")
	}
	away.Store(false)
	b := standBy(t, "b", m)
	wantErr(t, b.Owns(ctx), journal.ErrFollowing, "a standby")
	must(t, b.TakeOver(ctx, false))
	must(t, b.Owns(ctx))
	wantErr(t, errOf(q.Delete(ctx, 7)), ledger.ErrNoJob, "what the former owner knows")
	wantErr(t, a.Owns(ctx), journal.ErrFenced, "the former owner")
	a.Close()
	if err := a.Owns(ctx); err == nil {
		t.Error("a closed home proves itself")
	}
	closeHome(t, b)
}
