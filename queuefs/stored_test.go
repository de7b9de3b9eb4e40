package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
	"cutie/testdata/long"
)

// openStored opens a home in a store, with a directory that is made if need be.
func openStored(dir string, m *objectstest.Memory, o queuefs.Options) (*queuefs.Service, error) {
	if err := home.Init(dir, home.ServiceInfo{Name: "test"}); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if o.Stored == nil {
		o.Stored = &stored.Options{Name: "owner of " + filepath.Base(dir), TakeOver: true}
	}
	o.Stored.Objects = m
	return queuefs.Open(dir, o)
}

func mustStored(t testing.TB, dir string, m *objectstest.Memory) *queuefs.Service {
	t.Helper()
	s := sure(openStored(dir, m, queuefs.Options{}))(t)
	return s
}

func createQueue(t testing.TB, s *queuefs.Service, info home.QueueInfo) *queuefs.Queue {
	t.Helper()
	info.CullingSize, info.CullingAge = -1, -1
	q := sure(s.CreateQueue(ctx, info))(t)
	return q
}

// workStored does some of everything in a home.
func workStored(t testing.TB, s *queuefs.Service, round string) {
	t.Helper()
	big := strings.Repeat(round, 200<<10/len(round))
	q := createQueue(t, s, home.QueueInfo{Identifier: "q" + round, Name: "queue " + round, Callback: "https://example.org/secret/" + round, VerifyOnWrite: true})
	for i := range 4 {
		submit(t, q, job.Meta{Filename: fmt.Sprint(i)}, "payload "+round)
	}
	submit(t, q, job.Meta{}, big)
	submit(t, q, job.Meta{}, big+"to be deleted")
	must(t, errOf(q.Delete(ctx, 6)))
	must(t, errOf(q.Next(ctx, "somebody")))
	must(t, errOf(q.Requeue(ctx, 1)))
	taken := sure(q.Take(ctx, queuefs.Take{User: "worker", Max: 1, Lease: 1 << 40}))(t)
	for name, contents := range map[string]string{"result": "the result of " + round, "large": big} {
		d := sure(q.NewResult(ctx, taken[0].ID, taken[0].Token, name, "text/plain", nil))(t)
		must(t, errOf(d.Write([]byte(contents))))
		must(t, errOf(d.Commit(ctx)))
	}
	must(t, errOf(q.Delete(ctx, 5)))
	must(t, errOf(q.RequeueEnd(ctx, 5)))
	must(t, errOf(s.SetQueue(ctx, q.ID(), set(func(i *home.QueueInfo) { i.Description = "set in " + round }))))
	must(t, s.SetService(ctx, func(i *home.ServiceInfo) error { i.Description = "set in " + round; return nil }))
	// A queue that goes, and one of the name that comes.
	gone := createQueue(t, s, home.QueueInfo{Identifier: "gone" + round})
	submit(t, gone, job.Meta{}, "x")
	must(t, errOf(gone.Delete(ctx, 1)))
	cullQueue(t, s, gone.ID())
	must(t, s.RemoveQueue(ctx, gone.ID()))
	again := createQueue(t, s, home.QueueInfo{Identifier: gone.ID(), Description: "the second " + round})
	submitAs(t, again, 2, job.Meta{}, "y")
	never := createQueue(t, s, home.QueueInfo{Identifier: "never" + round})
	must(t, s.RemoveQueue(ctx, never.ID()))
}

// seen is all that a home shows.
type seen struct {
	world    world
	events   map[string][]job.Event
	last     map[string]job.Seq
	infos    map[string]home.QueueInfo
	files    map[string]job.Facts // of queue-info.txt
	callback map[string]string
	service  home.ServiceInfo
}

func see(t testing.TB, s *queuefs.Service) seen {
	t.Helper()
	all := seen{world: observe(t, s), events: map[string][]job.Event{}, last: map[string]job.Seq{}, infos: map[string]home.QueueInfo{}, files: map[string]job.Facts{}, callback: map[string]string{}, service: s.Info()}
	all.service.Modified = all.service.Created
	for _, q := range s.Queues() {
		events, err := q.Events(0, 1<<20)
		for after := job.Seq(1); errors.Is(err, ledger.ErrGone) && after <= q.Seq(); after++ {
			events, err = q.Events(after, 1<<20)
		}
		if err != nil && !errors.Is(err, ledger.ErrGone) {
			t.Error(err)
		}
		all.events[q.ID()], all.last[q.ID()] = events, q.Seq()
		info := q.Info()
		all.infos[q.ID()] = info
		_, all.files[q.ID()] = q.InfoFile()
		url, err := q.Callback()
		should(t, err)
		all.callback[q.ID()] = url
	}
	return all
}

func (want seen) check(t testing.TB, got seen) {
	t.Helper()
	if d := want.world.difference(got.world); d != "" {
		t.Errorf("jobs differ:\n%s", d)
	}
	for id, events := range want.events {
		if !sameEnd(events, got.events[id]) || got.last[id] != want.last[id] {
			t.Errorf("events of %s differ: got %d up to %d, want %d up to %d", id, len(got.events[id]), got.last[id], len(events), want.last[id])
		}
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{{"properties", got.infos, want.infos}, {"property files", got.files, want.files}, {"callbacks", got.callback, want.callback}, {"service", got.service, want.service}} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s differ: got\n%+v\nwant\n%+v", c.what, c.got, c.want)
		}
	}
}

// shownBy tests that a service shows all of it, before it has brought what it may read later
// and then, and closes it.
func (want seen) shownBy(t testing.TB, s *queuefs.Service) {
	t.Helper()
	want.check(t, see(t, s))
	must(t, s.Bring(ctx))
	want.check(t, see(t, s))
	closeHome(t, s)
}

// sameEnd reports whether one of two lists of events ends with the other: those before a
// checkpoint may be forgotten.
func sameEnd(a, b []job.Event) bool {
	n := min(len(a), len(b))
	return n == 0 || reflect.DeepEqual(a[len(a)-n:], b[len(b)-n:])
}

// A home is served from its store by an empty directory, after a stop in order and after
// the machine was lost.
func TestAHomeIsMadeAgainFromItsStore(t *testing.T) {
	for _, closed := range []bool{true, false} {
		m := new(objectstest.Memory)
		s := mustStored(t, fastDir(t)+"/a", m)
		workStored(t, s, "one")
		want := see(t, s)
		if closed {
			closeHome(t, s)
		}
		b := mustStored(t, fastDir(t)+"/b", m)
		want.check(t, see(t, b))
		if !closed {
			if _, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "late"}); !errors.Is(err, journal.ErrFenced) || !strings.Contains(err.Error(), "owner of b") {
				t.Errorf("the former owner: got %v", err)
			}
			if err := s.Close(); err == nil {
				t.Error("a fenced service is closed without an error")
			}
		}
		workStored(t, b, "two")
		want = see(t, b)
		closeHome(t, b)
		want.shownBy(t, mustStored(t, fastDir(t)+"/c", m))
	}
}

// copyDated is copyHome with the dates of property files.
func copyDated(t testing.TB, dir string) string {
	t.Helper()
	to := copyHome(t, dir)
	files := sure(filepath.Glob(filepath.Join(dir, "queues", "*", "queue-info.txt")))(t)
	kept := sure(filepath.Glob(filepath.Join(dir, "cutie-former", "queues", "*", "queue-info.txt")))(t)
	files = append(files, kept...)
	for _, name := range files {
		st := sure(os.Stat(name))(t)
		rel := sure(filepath.Rel(dir, name))(t)
		must(t, os.Chtimes(filepath.Join(to, rel), st.ModTime(), st.ModTime()))
	}
	return to
}

// canary puts a file into a directory, and returns a check that it is not made again.
func canary(t testing.TB, dir string) (kept func()) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, "resourcesync"), 0o777))
	write(t, filepath.Join(dir, "resourcesync/canary"), "")
	return func() {
		t.Helper()
		if !exists(dir, "resourcesync/canary") {
			t.Error("the directory was made again")
		}
	}
}

// After a crash the directory of the last owner is gone on with, and needs no
// permission. One that others have passed is made again.
func TestTheDirectoryOfTheLastOwnerIsGoneOnWith(t *testing.T) {
	m := new(objectstest.Memory)
	dir := fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	workStored(t, s, "one")
	must(t, s.Checkpoint(ctx))
	workStored(t, s, "two")
	want := see(t, s)
	canary(t, dir)

	dir = copyDated(t, dir)
	s, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "a again"}})
	must(t, err)
	want.check(t, see(t, s))
	if !exists(dir, "resourcesync/canary") {
		t.Error("the directory was made again")
	}
	workStored(t, s, "three")
	want = see(t, s)
	passed := copyDated(t, dir)

	b := mustStored(t, fastDir(t)+"/b", m)
	want.check(t, see(t, b))
	workStored(t, b, "four")
	want = see(t, b)
	closeHome(t, b)

	s, err = openStored(passed, m, queuefs.Options{Stored: &stored.Options{Name: "a at last"}})
	must(t, err)
	want.check(t, see(t, s))
	if exists(passed, "resourcesync/canary") {
		t.Error("the directory was not made again")
	}
	closeHome(t, s)
}

func TestStoresAndDirectoriesAreNotMixed(t *testing.T) {
	m, other := new(objectstest.Memory), new(objectstest.Memory)
	dir := fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	if _, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Stored: &stored.Options{Name: "b"}}); !isOwned(err, "owner of a") {
		t.Errorf("owned: got %v", err)
	}
	closeHome(t, s)
	for _, look := range []bool{false, true} {
		wantErr(t, errOf(queuefs.Open(dir, queuefs.Options{Look: look})), stored.ErrStored, "without its store")
	}
	closeHome(t, mustStored(t, fastDir(t)+"/b", other))
	wantErr(t, errOf(openStored(dir, other, queuefs.Options{})), stored.ErrOther, "with another store")
	closeHome(t, mustStored(t, dir, m))

	own := fastDir(t) + "/own"
	s, _ = openHome(t, own, queuefs.Options{})
	closeHome(t, s)
	wantErr(t, errOf(openStored(own, m, queuefs.Options{})), stored.ErrUnstored, "a home of its own")
	s, _ = openHome(t, own, queuefs.Options{})
	closeHome(t, s)
}

func isOwned(err error, by string) bool {
	var owned *stored.OwnedError
	return errors.As(err, &owned) && owned.By == by
}

// A store that lost the end of the journal is not gone on with by a directory that knows
// more.
func TestAJournalThatLostItsEndIsRefused(t *testing.T) {
	m := new(objectstest.Memory)
	dir := fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	workStored(t, s, "one")
	before := m.Objects()
	submit(t, s.Queues()[0], job.Meta{}, "the end")
	closeHome(t, s)
	for name := range m.Objects() {
		if before[name] == nil {
			m.Set(name, nil)
		}
	}
	wantErr(t, errOf(openStored(dir, m, queuefs.Options{})), queuefs.ErrJournalLost, "")
}

// The machine stops at each step of the work on files, and at each request to the store.
// The directory as it stands then, and an empty one, show the same: all acknowledged.
func TestAStoredHomeStopsAtEveryStep(t *testing.T) {
	script := func(s *queuefs.Service) (acknowledged map[string]string) {
		acknowledged = map[string]string{}
		for _, id := range []string{"one", "two"} {
			q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: id, Name: id, CullingSize: -1, CullingAge: -1})
			if err != nil {
				return acknowledged
			}
			acknowledged[id] = ""
			for _, text := range []string{"small", strings.Repeat("large ", 30<<10)} {
				if _, err := trySubmit(q, text); err != nil {
					return acknowledged
				}
				acknowledged[id] += text
			}
			image := s.Image
			if id == "two" {
				image = s.ImageAhead
			}
			if image(ctx) != nil {
				return acknowledged
			}
		}
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "gone"})
		if err != nil {
			return acknowledged
		}
		acknowledged["gone"] = ""
		delete(acknowledged, q.ID())
		_ = s.RemoveQueue(ctx, q.ID())
		return acknowledged
	}
	stopped := errors.New("the machine has stopped")
	run := func(t *testing.T, stop int, inStore bool) (m *objectstest.Memory, dir string, acknowledged map[string]string, steps int) {
		var n atomic.Int64
		var off atomic.Bool
		over := func() bool {
			if int(n.Add(1)) > stop {
				off.Store(true)
			}
			return off.Load()
		}
		m = &objectstest.Memory{}
		m.Fault = objectstest.When(objectstest.Before, func(objectstest.Request) bool { return inStore && over() || off.Load() })
		dir = fastDir(t) + "/a"
		s, err := openStored(dir, m, queuefs.Options{Fault: failIf(stopped, func(step string) bool {
			return !inStore && over() || off.Load()
		}), Stored: &stored.Options{Name: "a", Patience: time.Millisecond}})
		if err == nil {
			acknowledged = script(s)
			s.Close()
		}
		return m, dir, acknowledged, int(n.Load())
	}
	for _, inStore := range []bool{false, true} {
		t.Run(fmt.Sprint("inStore=", inStore), func(t *testing.T) {
			t.Parallel()
			_, _, whole, steps := run(t, 1<<30, inStore)
			if len(whole) != 2 {
				t.Fatalf("acknowledged %v", whole)
			}
			every := max(1, steps/long.N(8, steps))
			for stop := 0; stop < steps; stop += every {
				t.Run(fmt.Sprint(stop), func(t *testing.T) {
					m, dir, acknowledged, _ := run(t, stop, inStore)
					m.Fault = nil
					s := mustStored(t, dir, m)
					want := see(t, s)
					closeHome(t, s)
					for id, texts := range acknowledged {
						got := ""
						for _, id2 := range slices.Sorted(maps.Keys(want.world[id].byID)) {
							got += want.world[id].byID[id2].payload
						}
						if !strings.HasPrefix(got, texts) {
							t.Errorf("queue %s has %d bytes, acknowledged %d", id, len(got), len(texts))
						}
					}
					want.shownBy(t, mustStored(t, fastDir(t)+"/b", m))
				})
			}
		})
	}
}

// Many small batches make an image due, as many bytes do.
func TestManyBatchesMakeAnImage(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/home", m)
	q := createQueue(t, s, home.QueueInfo{Identifier: "q"})
	images := func() (n int) {
		must(t, s.Maintain(ctx))
		for name := range m.Objects() {
			if strings.HasPrefix(name, "snapshot/") {
				n++
			}
		}
		return n
	}
	submitN(t, q, 4000, job.Meta{}, "")
	if n := images(); n != 0 {
		t.Errorf("%d images too early", n)
	}
	submitN(t, q, 200, job.Meta{}, "")
	for end := time.Now().Add(10 * time.Second); images() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no image")
		}
	}
	closeHome(t, s)
}

// A new machine that serves before its published documents have come waits for them if a
// queue of the last image is gone: its documents are among them.
func TestAQueueGoneSinceTheImageOfANewMachine(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, a, "one")
	for _, id := range []string{"gone", "again"} {
		createQueue(t, a, home.QueueInfo{Identifier: id})
	}
	must(t, a.Image(ctx))
	must(t, a.RemoveQueue(ctx, "gone"))
	must(t, a.RemoveQueue(ctx, "again"))
	createQueue(t, a, home.QueueInfo{Identifier: "again", Description: "the second"})
	want := see(t, a)
	closeHome(t, a)
	opened := make(chan *queuefs.Service, 1)
	dir := fastDir(t) + "/b"
	go func() {
		b, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "b", TakeOver: true, Early: true}})
		should(t, err)
		opened <- b
	}()
	select {
	case b := <-opened:
		must(t, b.Published())
		must(t, b.Bring(ctx))
		want.check(t, see(t, b))
		closeHome(t, b)
	case <-time.After(time.Minute):
		t.Fatal("the opening does not end")
	}
}

// imagedHome makes a home in a store with two images and journal since, and stops it. It
// returns its directory and what it showed.
func imagedHome(t testing.TB, m *objectstest.Memory) (dir string, want seen) {
	t.Helper()
	dir = fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	s.Follow(current{}) // else journal is kept for an absent follower
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	workStored(t, s, "two")
	must(t, s.Image(ctx))
	workStored(t, s, "three")
	want = see(t, s)
	closeHome(t, s)
	return dir, want
}

// journalOf returns the names of the batches in a store.
func journalOf(m *objectstest.Memory) []string {
	names := slices.Sorted(maps.Keys(m.Objects()))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "journal/") })
}

// noTakeOver opens a home in a store that its owner has left.
func noTakeOver(dir string, m *objectstest.Memory) (*queuefs.Service, error) {
	return openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "owner of " + filepath.Base(dir), Patience: 10 * time.Millisecond}})
}

// A process that cannot read all it needs from the store claims nothing: the directory of the
// last owner, the only one with what the store lost, is gone on with.
func TestAFailedStartElsewhereClaimsNothing(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir, want := imagedHome(t, m)
	whole := m.Objects()
	objectsOf := func(prefix string) (names []string) {
		for _, name := range slices.Sorted(maps.Keys(whole)) {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return names
	}
	batches := objectsOf("journal/")
	for what, lost := range map[string][]string{
		"a batch":               batches[len(batches)-3 : len(batches)-2],
		"the last batches":      batches[len(batches)-1:],
		"pieces of images":      objectsOf("image/"),
		"manifests":             objectsOf("snapshot/"),
		"large payloads":        objectsOf("files/"),
		"everything but a part": slices.Concat(objectsOf("image/"), objectsOf("files/")),
	} {
		t.Run(what, func(t *testing.T) {
			m := storeWith(whole)
			for _, name := range lost {
				if what == "the last batches" {
					m.Set(name, []byte("no batch"))
				} else {
					m.Set(name, nil)
				}
			}
			before := journalOf(m)
			if b, err := noTakeOver(fastDir(t)+"/b", m); !stored.Damaged(err) {
				if err == nil {
					b.Close()
				}
				t.Fatalf("elsewhere: got %v, want damage", err)
			}
			if now := journalOf(m); !slices.Equal(now, before) {
				t.Fatalf("the journal has %d batches, %d before", len(now), len(before))
			}
			dir := copyDated(t, dir)
			kept := canary(t, dir)
			if what == "the last batches" { // the claim of nobody is in doubt: it says how the journal ends
				if a, err := noTakeOver(dir, m); !stored.Damaged(err) {
					a.Close()
					t.Fatalf("got %v, want damage", err)
				}
				for _, name := range lost {
					m.Set(name, whole[name])
				}
			}
			want.shownBy(t, sure(noTakeOver(dir, m))(t))
			kept()
		})
	}
}

// A process that claimed the home and changed nothing does not pass the directory of the
// owner before.
func TestAClaimWithoutChangesPassesNoDirectory(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir, want := imagedHome(t, m)
	kept := canary(t, dir)
	b := sure(noTakeOver(fastDir(t)+"/b", m))(t)
	closeHome(t, b)
	want.shownBy(t, sure(noTakeOver(dir, m))(t))
	kept()
}

// passedHome is imagedHome passed by another owner; want is what that one showed.
func passedHome(t testing.TB, m *objectstest.Memory) (dir string, want seen) {
	t.Helper()
	dir, _ = imagedHome(t, m)
	b := mustStored(t, fastDir(t)+"/b", m)
	workStored(t, b, "four")
	want = see(t, b)
	closeHome(t, b)
	return dir, want
}

// files returns the names and contents of the files below a directory that a home is made of.
func homeFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, part := range []string{"queues.txt", "queues", "resourcesync", "log/table"} {
		must(t, filepath.WalkDir(filepath.Join(dir, part), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if errors.Is(err, os.ErrNotExist) {
					return nil
				}
				return err
			}
			text, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			all[rel] = string(text)
			return err
		}))
	}
	return all
}

// A directory that is to be made again keeps the files that it has until the new ones are
// whole, however often that fails, and the error names them. They are a home.
func TestADirectoryKeepsItsFilesUntilNewOnesAreWhole(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir, want := passedHome(t, m)
	subscribe(t, dir)
	had := homeFiles(t, dir)
	last := journalOf(m)
	lost := last[len(last)-3]
	data := m.Objects()[lost]
	m.Set(lost, nil)
	kept := filepath.Join(dir, "cutie-former")
	for range 3 {
		s, err := noTakeOver(dir, m)
		if err == nil {
			s.Close()
			t.Fatal("opened without a batch")
		}
		if !strings.Contains(err.Error(), kept) {
			t.Errorf("got %v, want the name of %s", err, kept)
		}
		if d := diffFiles(had, homeFiles(t, kept)); d != "" {
			t.Fatalf("files kept: %s", d)
		}
	}
	copied := copyDated(t, kept)
	must(t, os.Remove(filepath.Join(copied, "cutie-store")))
	alone := sure(queuefs.Open(copied, queuefs.Options{AcceptLoss: true}))(t)
	if got, want := len(alone.Queues()), 6; got != want {
		t.Errorf("the kept home has %d queues, want %d", got, want)
	}
	closeHome(t, alone)

	m.Set(lost, data)
	s := sure(noTakeOver(dir, m))(t)
	want.check(t, see(t, s))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		must(t, s.Bring(ctx))
		if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the former files stay although the new ones are whole")
		}
	}
	want.check(t, see(t, s))
	wantSubscriptions(t, s, "a: 1, b: 2")
	closeHome(t, s)
	other := mustStored(t, fastDir(t)+"/other", m)
	wantSubscriptions(t, other, "")
	closeHome(t, other)
}

// subscribe gives a home that is not open two rows of the hub.
func subscribe(t *testing.T, dir string) {
	t.Helper()
	log := sure(durable.OpenDir(filepath.Join(dir, "log"), nil))(t)
	defer log.Close()
	all := sure(table.Open(log, false))(t)
	all.Put(table.Subscriptions, "a", []byte("1"))
	all.Put(table.Subscriptions, "b", []byte("2"))
	must(t, errors.Join(all.Commit(), all.Close()))
}

func wantSubscriptions(t *testing.T, s *queuefs.Service, want string) {
	t.Helper()
	var got []string
	must(t, s.Subscriptions().Each(func(key string, contents []byte, bad error) bool {
		got = append(got, fmt.Sprintf("%s: %s", key, contents))
		return bad == nil
	}))
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got subscriptions %q, want %q", got, want)
	}
}

// The rows that a backup has to take along go into another home.
func TestSubscriptionsOfABackup(t *testing.T) {
	dir, to := fastDir(t), fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	rows := s.Subscriptions()
	rows.Put("a", []byte("1"))
	rows.Put("b", []byte("2"))
	must(t, rows.Commit())
	var own bytes.Buffer
	must(t, s.OwnRows(&own))
	must(t, os.MkdirAll(filepath.Join(to, "log/image"), 0o700))
	must(t, os.WriteFile(filepath.Join(to, "log/image/rows"), own.Bytes(), 0o600))
	restored, _ := openHome(t, to, queuefs.Options{})
	wantSubscriptions(t, restored, "a: 1, b: 2")
}

func diffFiles(want, got map[string]string) string {
	for name, text := range want {
		if now, ok := got[name]; !ok {
			return name + " is missing"
		} else if now != text {
			return name + " has changed"
		}
	}
	return ""
}

// The machine stops at each step of making a directory again from a damaged store, and of
// taking the former files back. The former files are all there, and the home is whole when
// the store is.
func TestAMakingAgainStopsAtEveryStep(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	original, want := passedHome(t, m)
	had := homeFiles(t, original)
	last := journalOf(m)
	lost := last[len(last)-3]
	whole := m.Objects()
	all := func(dir string) map[string]string {
		files := homeFiles(t, dir)
		for name, text := range homeFiles(t, filepath.Join(dir, "cutie-former")) {
			if _, ok := had[name]; ok {
				files[name] = text
			}
		}
		return files
	}
	m.Set(lost, nil)
	steps, err := stopAfter(m, copyDated(t, original), 1<<30)
	if !stored.Damaged(err) {
		t.Fatalf("got %v, want damage", err)
	}
	for stop := 0; stop < steps; stop += max(1, steps/long.N(8, steps)) {
		dir := copyDated(t, original)
		if _, err := stopAfter(m, dir, stop); err == nil {
			t.Fatal("opened")
		}
		if d := diffFiles(had, all(dir)); d != "" {
			t.Fatalf("after %d steps: %s", stop, d)
		}
		if _, err := stopAfter(m, dir, 1<<30); !stored.Damaged(err) {
			t.Fatalf("after %d steps: got %v, want damage", stop, err)
		}
		if d := diffFiles(had, homeFiles(t, filepath.Join(dir, "cutie-former"))); d != "" {
			t.Fatalf("after %d steps and another start: %s", stop, d)
		}
		want.shownBy(t, sure(noTakeOver(dir, storeWith(whole)))(t))
	}
}

// The former files of a directory are taken back if nobody has passed them, and wherever that
// is cut off, the next start goes on.
func TestFormerFilesThatNobodyPassedAreTakenBack(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir, want := imagedHome(t, m)
	former := filepath.Join(dir, "cutie-former")
	// As a start leaves it that made the directory again, and was cut off.
	marker := sure(os.ReadFile(filepath.Join(dir, "cutie-store")))(t)
	must(t, os.MkdirAll(filepath.Join(former, "log"), 0o777))
	for _, name := range []string{"queues.txt", "queues", "log/table"} {
		must(t, os.Rename(filepath.Join(dir, name), filepath.Join(former, name)))
	}
	must(t, os.WriteFile(filepath.Join(former, "cutie-store"), marker, 0o666))
	must(t, os.MkdirAll(filepath.Join(dir, "queues", "qone", "pending"), 0o777))
	steps := sure(stopAfter(copyStore(m), copyDated(t, dir), 1<<30))(t)
	for stop := 0; stop < steps; stop += max(1, steps/long.N(8, steps)) {
		dir := copyDated(t, dir)
		store := copyStore(m)
		if _, err := stopAfter(store, dir, stop); err == nil {
			t.Fatal("opened and closed")
		}
		s, err := noTakeOver(dir, store)
		if err != nil {
			t.Fatalf("after %d steps: %v", stop, err)
		}
		want.check(t, see(t, s))
		closeHome(t, s)
		if _, err := os.Stat(filepath.Join(dir, "cutie-former")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("after %d steps: the former files are still apart", stop)
		}
	}
}

// stopAfter opens and closes a home whose machine stops after some steps, and returns how
// many it took.
func stopAfter(m *objectstest.Memory, dir string, steps int) (int, error) {
	var n atomic.Int64
	s, err := openStored(dir, m, queuefs.Options{Fault: func(_ string, do func() error) error {
		if int(n.Add(1)) > steps {
			return errStopped
		}
		return do()
	}, Stored: &stored.Options{Name: "a", Patience: time.Millisecond}})
	if err == nil {
		err = s.Close()
	}
	return int(n.Load()), err
}

var errStopped = errors.New("the machine has stopped")

func storeWith(objects map[string][]byte) *objectstest.Memory {
	m := new(objectstest.Memory)
	for name, data := range objects {
		m.Set(name, data)
	}
	return m
}

// A home is taken from an owner that writes batch after batch, with all it acknowledged.
func TestAHomeIsTakenFromABusyOwner(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	q := createQueue(t, a, home.QueueInfo{Identifier: "q"})
	done, begun := make(chan int, 1), make(chan bool)
	go func() {
		n := 0
		for {
			if n == 10 {
				close(begun)
			}
			if _, err := trySubmit(q, "payload"); err != nil {
				if !errors.Is(err, journal.ErrFenced) {
					t.Error(err)
				}
				done <- n
				return
			}
			n++
			if n == 20 {
				if _, err := a.CreateQueue(ctx, home.QueueInfo{Identifier: "late"}); err != nil && !errors.Is(err, journal.ErrFenced) {
					t.Error(err)
				}
			}
		}
	}()
	<-begun
	b := mustStored(t, fastDir(t)+"/b", m)
	n := <-done
	if got := len(see(t, b).world["q"].byID); got != n {
		t.Errorf("the next owner has %d jobs, acknowledged %d", got, n)
	}
	closeHome(t, b)
	a.Close()
	c := mustStored(t, fastDir(t)+"/c", m)
	if got := len(see(t, c).world["q"].byID); got != n {
		t.Errorf("the owner after it has %d jobs, acknowledged %d", got, n)
	}
	closeHome(t, c)
}

// Of two processes that read the home at the same time one becomes the owner. The other one
// follows it, or says who it is.
func TestOneOfTwoThatReadAHomeClaimsIt(t *testing.T) {
	t.Parallel()
	for _, standby := range []bool{true, false} {
		m := new(objectstest.Memory)
		dir, want := imagedHome(t, m)
		var b *queuefs.Service
		first := true
		m.Fault = func(r objectstest.Request) objectstest.Fault {
			if first && r.Op == "Create" && strings.HasPrefix(r.Name, "journal/") {
				first = false
				b = mustStored(t, fastDir(t)+"/b", m)
			}
			return objectstest.None
		}
		a, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "a", Standby: standby, Early: true}})
		switch {
		case !standby && !isOwned(err, "owner of b"):
			t.Errorf("got %v", err)
		case standby && err != nil:
			t.Error(err)
		case standby:
			if !a.Standby() {
				t.Error("two owners")
			}
			want.check(t, see(t, a))
			a.Close()
		}
		want.check(t, see(t, b))
		closeHome(t, b)
	}
}
