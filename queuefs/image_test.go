package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/image"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/testdata/long"
)

// An image and the journal since make the same home again, in an empty directory and on
// top of all kinds of changes; also if the files of its maker are behind it. The directory
// of the maker is gone on with after a crash.
func TestAHomeIsMadeAgainFromItsImage(t *testing.T) {
	for name, image := range map[string]func(s *queuefs.Service) error{
		"files": func(s *queuefs.Service) error { return s.Image(ctx) },
		"ahead": func(s *queuefs.Service) error { return s.ImageAhead(ctx) },
	} {
		t.Run(name, func(t *testing.T) { madeAgainFromImages(t, image) })
	}
}

func madeAgainFromImages(t *testing.T, image func(s *queuefs.Service) error) {
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, s, "one")
	must(t, image(s))
	want := see(t, s)
	b := mustStored(t, fastDir(t)+"/b", m)
	want.check(t, see(t, b))
	workStored(t, b, "two")
	must(t, image(b))
	workStored(t, b, "three")
	_, err := b.SetQueue(ctx, "qone", func(i *queuefs.QueueInfo) error {
		i.Description = "set after the image"
		return nil
	})
	must(t, err)
	q, err := b.Queue("gonetwo")
	must(t, err)
	must(t, errOf(q.Delete(ctx, 2)))
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	createQueue(t, b, queuefs.QueueInfo{Identifier: q.ID(), Description: "the third"})
	q, err = b.Queue("goneone")
	must(t, err)
	must(t, errOf(q.Delete(ctx, 2)))
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	want = see(t, b)
	dir := fastDir(t) + "/c"
	c := mustStored(t, dir, m)
	want.check(t, see(t, c))
	must(t, image(c))
	must(t, image(c))
	workStored(t, c, "four")
	must(t, image(c))
	workStored(t, c, "five")
	want = see(t, c)
	crashed := copyDated(t, dir)
	objects := m.Objects()
	closeHome(t, c)
	dir = fastDir(t) + "/d"
	d := mustStored(t, dir, m)
	must(t, d.Bring(ctx))
	want.check(t, see(t, d))
	must(t, d.Checkpoint(ctx))
	if _, err := os.Stat(filepath.Join(dir, "cutie-absent")); err == nil {
		t.Error("pages are absent after all were brought")
	}
	closeHome(t, d)
	m = new(objectstest.Memory)
	for name, data := range objects {
		m.Set(name, data)
	}
	e := mustStored(t, crashed, m)
	if e.Restored() {
		t.Error("the directory of the last owner was made again")
	}
	want.check(t, see(t, e))
	must(t, e.Checkpoint(ctx))
	want.check(t, see(t, e))
	closeHome(t, e)
}

// An image of a burst is made before the files of its jobs are written, unless the disk is
// full: then they are written all the same.
func TestAnImageOfABurstDoesNotWaitForFiles(t *testing.T) {
	t.Parallel()
	const jobs = 5100
	files := func(dir string) int {
		entries, err := os.ReadDir(filepath.Join(dir, "queues", "q", "pending"))
		must(t, err)
		return len(entries)
	}
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full=", full), func(t *testing.T) {
			t.Parallel()
			m, dir := new(objectstest.Memory), fastDir(t)+"/a"
			var noSpace atomic.Bool
			s, err := openStored(dir, m, queuefs.Options{Fault: func(step string, do func() error) error {
				if noSpace.Load() && strings.HasPrefix(step, "stage p") {
					return syscall.ENOSPC
				}
				return do()
			}, Stored: &stored.Options{Name: "a", Every: 1000}})
			must(t, err)
			q := createQueue(t, s, queuefs.QueueInfo{Identifier: "q"})
			sub := q.Begin()
			for i := range jobs {
				d, err := sub.Add(queuefs.Meta{})
				must(t, err)
				must(t, errOf(fmt.Fprint(d, i)))
			}
			must(t, errOf(sub.Commit(ctx)))
			noSpace.Store(full)
			if err := s.Maintain(ctx); errors.Is(err, queuefs.ErrNoSpace) != full {
				t.Errorf("got %v", err)
			}
			want := 0
			if full {
				want = jobs
			}
			if n := files(dir); n != want {
				t.Errorf("%d jobs have files, want %d", n, want)
			}
			noSpace.Store(false)
			must(t, s.ImageAhead(ctx)) // waits for one that is on its way
			b := mustStored(t, fastDir(t)+"/b", m)
			q, err = b.Queue("q")
			must(t, err)
			if n := q.State().Pending; n != jobs {
				t.Errorf("%d jobs wait, want %d", n, jobs)
			}
			closeHome(t, b)
		})
	}
}

// Each request to the store fails in turn, in one of the ways a request fails: while images
// are made, the journal is released, objects are deleted, and a new machine reads it all.
// Nothing of the home changes, and the next images are made.
func TestImagesOfAHomeWhoseStoreFails(t *testing.T) {
	t.Parallel()
	var fail atomic.Int64 // number of the request, from now on
	var how objectstest.Fault
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault {
		if fail.Add(-1) == 0 {
			return how
		}
		return objectstest.None
	}}
	options := func(i int) queuefs.Options {
		return queuefs.Options{Stored: &stored.Options{Name: fmt.Sprint("owner ", i), TakeOver: true, Patience: 20 * time.Millisecond}}
	}
	s, err := openStored(fastDir(t)+"/first", m, options(0))
	must(t, err)
	workStored(t, s, "one")
	q := createQueue(t, s, queuefs.QueueInfo{Identifier: "some"})
	rounds := 0
	for _, how = range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late, objectstest.Twice, objectstest.Stale} {
		step := int64(long.N(15, 1))
		for at := int64(1); ; at += step {
			rounds++
			submit(t, q, queuefs.Meta{}, strings.Repeat(fmt.Sprint(rounds), 40<<10)[:20<<10+rounds*1000])
			if rounds%3 == 0 {
				must(t, errOf(q.Next(ctx, "somebody")))
			}
			image := s.Image
			if rounds%2 == 0 {
				image = s.ImageAhead
			}
			fail.Store(at)
			_ = image(ctx) // it may fail
			done := fail.Load() > 0
			fail.Store(0)
			if err := s.Err(); err != nil {
				t.Fatalf("fault %d of request %d: %v", how, at, err)
			}
			must(t, image(ctx))
			if done {
				break
			}
		}
	}
	want := see(t, s)
	closeHome(t, s)
	before := m.Objects()
	for _, how = range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late, objectstest.Twice, objectstest.Stale} {
		step := int64(long.N(30, 1))
		for at, done := int64(1), false; !done && !t.Failed(); at += step {
			t.Run(fmt.Sprintf("%d/%d", how, at), func(t *testing.T) {
				for name := range m.Objects() {
					m.Set(name, nil)
				}
				for name, data := range before {
					m.Set(name, data)
				}
				fail.Store(at)
				s, err := openStored(fastDir(t)+"/next", m, options(1))
				if err != nil {
					fail.Store(0)
					s, err = openStored(fastDir(t)+"/next", m, options(2))
				}
				must(t, err)
				_ = s.Bring(ctx)
				done = fail.Load() > 0
				fail.Store(0)
				want.check(t, see(t, s))
				closeHome(t, s)
			})
		}
	}
}

// damages are kinds of damage to an object among those of a store.
func damages(name string, all map[string][]byte) map[string][]byte {
	data := all[name]
	half := len(data) / 2
	flipped := slices.Clone(data)
	flipped[half] ^= 4
	kinds := map[string][]byte{"missing": nil, "truncated": data[:half], "empty": {}, "zeroed": append(slices.Clone(data[:half]), make([]byte, len(data)-half)...), "flipped": flipped}
	kind, _, _ := strings.Cut(name, "/")
	for _, other := range slices.Sorted(maps.Keys(all)) {
		if other != name && strings.HasPrefix(other, kind+"/") && string(all[other]) != string(data) {
			kinds["swapped"] = all[other]
			break
		}
	}
	return kinds
}

// replaced reports whether nobody misses an object: its contents are in another one, or the
// image before stands in for it. Of the end of the journal the directory of its owner knows.
func replaced(name string, all map[string][]byte) bool {
	kind, _, _ := strings.Cut(name, "/")
	last := true
	for other := range all {
		if other != name && kind == "files" && string(all[other]) == string(all[name]) {
			return true
		}
		last = last && !(strings.HasPrefix(other, kind+"/") && other > name)
	}
	return last && (kind == "snapshot" || kind == "journal")
}

// checked reports whether a check of the store names an object, without an owner.
func checked(t *testing.T, m *objectstest.Memory, name string) bool {
	t.Helper()
	st, err := stored.Look(ctx, m)
	if err != nil {
		return strings.Contains(err.Error(), name)
	}
	r, err := st.Check(ctx)
	if err != nil {
		t.Errorf("check: %v", err)
		return false
	}
	return slices.ContainsFunc(r.Faults, func(f durable.Finding) bool { return strings.HasPrefix(name, f.Path) && f.Cure != "" })
}

// What is damaged in the store is named, and never served.
func TestDamageInAStoreIsNamedAndNeverServed(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	submit(t, s.Queues()[0], queuefs.Meta{}, "after the image")
	must(t, s.Image(ctx))
	submit(t, s.Queues()[0], queuefs.Meta{}, "at the end")
	want := see(t, s)
	closeHome(t, s)
	whole := m.Objects()
	st, err := stored.Look(ctx, m)
	must(t, err)
	needed := map[string]bool{} // a daemon reads all of them
	for _, o := range st.Image.Objects {
		needed[o.Name] = o.Live == o.Size
	}
	newest := image.ManifestName(st.Image.Number)
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		for kind, to := range damages(name, whole) {
			for n, data := range whole {
				m.Set(n, data)
			}
			for n := range m.Objects() {
				if whole[n] == nil {
					m.Set(n, nil)
				}
			}
			m.Set(name, to)
			if !checked(t, m, name) && !(to == nil && replaced(name, whole)) {
				t.Errorf("%s, %s: a check finds nothing", name, kind)
			}
			named := false
			s, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Report: func(p queuefs.Problem) {
				named = named || strings.HasPrefix(name, strings.TrimPrefix(p.Path, "store: "))
			},
				Stored: &stored.Options{Name: "b", TakeOver: true, Patience: time.Millisecond}})
			if err != nil {
				if !strings.Contains(err.Error(), name) && !errors.Is(err, queuefs.ErrJournalLost) {
					t.Errorf("%s, %s: opening does not name it: %v", name, kind, err)
				}
				continue
			}
			_ = s.Bring(ctx)
			if !named && (needed[name] || name == newest && to != nil) {
				t.Errorf("%s, %s: nobody is told", name, kind)
			}
			for _, q := range s.Queues() {
				was := want.world[q.ID()]
				for id := range was.byID {
					p, err := q.Payload(id)
					if err != nil {
						if !named {
							t.Errorf("%s, %s: %s/%v has no payload, and nobody was told: %v", name, kind, q.ID(), id, err)
						}
						continue
					}
					text, err := io.ReadAll(p)
					p.Close()
					if err != nil || string(text) != was.byID[id].payload {
						t.Errorf("%s, %s: %s/%v has another payload, %v", name, kind, q.ID(), id, err)
					}
				}
			}
			closeHome(t, s)
		}
	}
}

// A store without any image of what came before its journal has lost it: nobody serves the
// rest as if it were all. The directory of the last owner goes on, and makes the next image.
func TestAStoreThatLostItsImagesIsRefused(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir := fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	must(t, s.Image(ctx))
	workStored(t, s, "two")
	want := see(t, s)
	closeHome(t, s)
	for name := range m.Objects() {
		if strings.HasPrefix(name, image.Manifests) {
			m.Set(name, nil)
		}
	}
	if !checked(t, m, image.Manifests) {
		t.Error("a check finds nothing")
	}
	before := len(m.Objects())
	for _, standby := range []bool{false, true} {
		_, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Stored: &stored.Options{Name: "b", TakeOver: true, Standby: standby, Patience: time.Millisecond}})
		if err == nil || !strings.Contains(err.Error(), image.Manifests+" has no image of the records before") {
			t.Fatalf("a fresh machine: got %v", err)
		}
	}
	if n := len(m.Objects()); n < before {
		t.Errorf("%d objects are left of %d", n, before)
	}
	s, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "a again", TakeOver: true}})
	must(t, err)
	want.check(t, see(t, s))
	must(t, s.Image(ctx))
	closeHome(t, s)
	c := mustStored(t, fastDir(t)+"/c", m)
	want.check(t, see(t, c))
	closeHome(t, c)
}

// An owner sleeps in the middle of its deletions, another one takes over, and makes images
// of its own. What the first one then deletes is nothing of theirs.
func TestAnOwnerSleepsWhileItDeletes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"image/", "snapshot/", "journal/"} {
		asleep, awake := make(chan struct{}), make(chan struct{})
		var slept atomic.Bool
		m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
			if r.Op == "Delete" && strings.HasPrefix(r.Name, prefix) && slept.CompareAndSwap(false, true) {
				close(asleep)
				<-awake
			}
			return objectstest.None
		}}
		a := mustStored(t, fastDir(t)+"/a", m)
		workStored(t, a, "a")
		done := make(chan error, 1)
		go func() {
			for n := range 20 {
				if slept.Load() {
					break
				}
				_ = a.SetService(ctx, func(i *queuefs.ServiceInfo) error {
					i.Description = fmt.Sprint(n)
					return nil
				})
				_ = a.Image(ctx)
			}
			<-awake
			done <- a.Image(ctx)
		}()
		<-asleep
		b := mustStored(t, fastDir(t)+"/b", m)
		for n := range 4 {
			workStored(t, b, fmt.Sprint("b", n))
			must(t, b.Image(ctx))
		}
		want := see(t, b)
		close(awake)
		wantErr(t, <-done, queuefs.ErrFenced, "%s: the former owner", prefix)
		_ = a.Close()
		closeHome(t, b)
		c := mustStored(t, fastDir(t)+"/c", m)
		want.check(t, see(t, c))
		closeHome(t, c)
	}
}

// Without a whole manifest the directory of the last owner goes on, a standby takes over with
// all that it knows, and a journal that has released nothing makes the home alone. The next
// images are whole. Another directory is refused, and takes nothing from the owner.
func TestAHomeWithoutAManifest(t *testing.T) {
	t.Parallel()
	for images := 1; images <= 3; images++ {
		for _, who := range []string{"last owner", "standby", "another directory"} {
			t.Run(fmt.Sprint(who, " ", images), func(t *testing.T) {
				m := new(objectstest.Memory)
				dir := fastDir(t) + "/a"
				s := mustStored(t, dir, m)
				b := standBy(t, "b", m)
				for n := range images {
					workStored(t, s, fmt.Sprint("round", n))
					advance(t, b)
					must(t, s.Image(ctx))
					advance(t, b)
				}
				want := see(t, s)
				damage := func() {
					for name, data := range m.Objects() {
						if strings.HasPrefix(name, image.Manifests) {
							m.Set(name, data[:len(data)-1])
						}
					}
				}
				switch who {
				case "last owner":
					closeHome(t, b)
					closeHome(t, s)
					damage()
					if images == 3 { // the journal does not reach back to its beginning
						if _, err := openStored(fastDir(t)+"/c", m, queuefs.Options{}); err == nil || !strings.Contains(err.Error(), image.Manifests) {
							t.Errorf("another directory: %v", err)
						}
					}
					s = mustStored(t, dir, m)
				case "standby":
					damage()
					must(t, b.TakeOver(ctx, false))
					_ = s.Close() // it is fenced
					s = b
				case "another directory":
					closeHome(t, b)
					closeHome(t, s)
					damage()
					var err error
					if s, err = openStored(fastDir(t)+"/c", m, queuefs.Options{}); err != nil {
						if images == 1 || !strings.Contains(err.Error(), image.Manifests) {
							t.Error(err)
						}
						return
					}
				}
				want.check(t, see(t, s))
				for range 2 {
					submit(t, s.Queues()[0], queuefs.Meta{}, "after it")
					must(t, s.Image(ctx))
				}
				want = see(t, s)
				closeHome(t, s)
				if !checked(t, m, "") {
					d := mustStored(t, fastDir(t)+"/d", m)
					must(t, d.Bring(ctx))
					want.check(t, see(t, d))
					closeHome(t, d)
				}
			})
		}
	}
}

// After an image that failed, or its checkpoint, the next attempt comes after a pause, which
// doubles up to a minute. One by hand does not wait, and success ends the pause.
func TestAnImageThatFailsIsTriedAfterAPause(t *testing.T) {
	t.Parallel()
	var failing, full atomic.Bool
	now := time.Now()
	m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
		if failing.Load() && strings.HasPrefix(r.Name, "snapshot/") {
			return objectstest.Before
		}
		return objectstest.None
	}}
	s, err := openStored(fastDir(t)+"/a", m, queuefs.Options{
		Now: func() time.Time { return now },
		Fault: func(step string, do func() error) error {
			if full.Load() && strings.HasPrefix(step, "put ") {
				return syscall.ENOSPC
			}
			return do()
		},
		Stored: &stored.Options{Name: "a", Every: 1, Patience: time.Millisecond}})
	must(t, err)
	q := createQueue(t, s, queuefs.QueueInfo{Identifier: "q"})
	submit(t, q, queuefs.Meta{}, "payload")
	paused := func(what string, want time.Duration) {
		t.Helper()
		now = now.Add(want - 1)
		early := s.ImageDue()
		now = now.Add(1)
		if early || !s.ImageDue() {
			t.Errorf("%s: the pause is not %v", what, want)
		}
	}
	failing.Store(true)
	for range 2 {
		if s.Image(ctx) == nil {
			t.Error("an image was made")
		}
		paused("by hand", time.Second)
	}
	failing.Store(false)
	submit(t, q, queuefs.Meta{}, "payload")
	full.Store(true)
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		wantErr(t, s.Maintain(ctx), queuefs.ErrNoSpace, "")
		paused("full disk", want*time.Second)
	}
	full.Store(false)
	must(t, s.Image(ctx))
	submit(t, q, queuefs.Meta{}, "payload")
	if !s.ImageDue() {
		t.Error("there is a pause after an image")
	}
	closeHome(t, s)
}
