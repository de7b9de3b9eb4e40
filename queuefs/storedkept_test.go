package queuefs_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/testdata/long"
)

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
			canary := filepath.Join(dir, "resourcesync", "canary")
			must(t, os.MkdirAll(filepath.Dir(canary), 0o777))
			must(t, os.WriteFile(canary, nil, 0o666))
			if what == "the last batches" { // the claim of nobody is in doubt: it says how the journal ends
				if a, err := noTakeOver(dir, m); !stored.Damaged(err) {
					a.Close()
					t.Fatalf("got %v, want damage", err)
				}
				for _, name := range lost {
					m.Set(name, whole[name])
				}
			}
			a, err := noTakeOver(dir, m)
			must(t, err)
			want.check(t, see(t, a))
			closeHome(t, a)
			if _, err := os.Stat(canary); err != nil {
				t.Errorf("the directory was made again: %v", err)
			}
		})
	}
}

// A process that claimed the home and changed nothing does not pass the directory of the
// owner before.
func TestAClaimWithoutChangesPassesNoDirectory(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir, want := imagedHome(t, m)
	canary := filepath.Join(dir, "resourcesync", "canary")
	must(t, os.MkdirAll(filepath.Dir(canary), 0o777))
	must(t, os.WriteFile(canary, nil, 0o666))
	b, err := noTakeOver(fastDir(t)+"/b", m)
	must(t, err)
	closeHome(t, b)
	a, err := noTakeOver(dir, m)
	must(t, err)
	want.check(t, see(t, a))
	closeHome(t, a)
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("the directory was made again: %v", err)
	}
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
	for _, part := range []string{"queues.txt", "queues", "resourcesync", "log/index", "callback-urls"} {
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
	alone, err := queuefs.Open(copied, queuefs.Options{AcceptLoss: true})
	must(t, err)
	if got, want := len(alone.Queues()), 6; got != want {
		t.Errorf("the kept home has %d queues, want %d", got, want)
	}
	closeHome(t, alone)

	m.Set(lost, data)
	s, err := noTakeOver(dir, m)
	must(t, err)
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
	closeHome(t, s)
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
	for stop := 0; stop < steps; stop += max(1, steps/long.N(30, steps)) {
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
		s, err := noTakeOver(dir, storeWith(whole))
		must(t, err)
		want.check(t, see(t, s))
		closeHome(t, s)
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
	marker, err := os.ReadFile(filepath.Join(dir, "cutie-store"))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(former, "log"), 0o777))
	for _, name := range []string{"queues.txt", "queues", "log/index", "callback-urls"} {
		must(t, os.Rename(filepath.Join(dir, name), filepath.Join(former, name)))
	}
	must(t, os.WriteFile(filepath.Join(former, "cutie-store"), marker, 0o666))
	must(t, os.MkdirAll(filepath.Join(dir, "queues", "qone", "pending"), 0o777))
	steps, err := stopAfter(copyStore(m), copyDated(t, dir), 1<<30)
	must(t, err)
	for stop := 0; stop < steps; stop += max(1, steps/long.N(30, steps)) {
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
	q := createQueue(t, a, queuefs.QueueInfo{Identifier: "q"})
	done, begun := make(chan int, 1), make(chan bool)
	go func() {
		n := 0
		for {
			if n == 10 {
				close(begun)
			}
			if _, err := trySubmit(q, "payload"); err != nil {
				if !errors.Is(err, queuefs.ErrFenced) {
					t.Error(err)
				}
				done <- n
				return
			}
			n++
			if n == 20 {
				if _, err := a.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "late"}); err != nil && !errors.Is(err, queuefs.ErrFenced) {
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
