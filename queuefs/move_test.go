package queuefs_test

import (
	"errors"
	"fmt"
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

// A current follower has all there is.
type current struct{}

func (current) Flush() error  { return nil }
func (current) Synced() error { return nil }

// push moves a home from a directory into a store.
func push(dir string, m *objectstest.Memory) (err error) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, PushTo: &stored.Options{Objects: m, Name: "the directory " + filepath.Base(dir), Patience: 20 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Follow(current{})
	return s.Push(ctx)
}

// pull moves a home from a store into a directory.
func pull(dir string, m *objectstest.Memory) (err error) {
	s, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "pull", Patience: 20 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Follow(current{})
	return s.MoveHere(ctx, "the directory "+filepath.Base(dir))
}

// local opens a home in its directory.
func local(t testing.TB, dir string) *queuefs.Service {
	t.Helper()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	must(t, err)
	return s
}

// refused tells where a home can be opened.
func refused(t testing.TB, dir string, m *objectstest.Memory) (here, there error) {
	t.Helper()
	s, here := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if here == nil {
		closeHome(t, s)
	}
	s, there = openStored(fastDir(t)+"/other", m, queuefs.Options{Stored: &stored.Options{Name: "other", Patience: 20 * time.Millisecond}})
	if there == nil {
		closeHome(t, s)
	}
	return here, there
}

func copyStore(m *objectstest.Memory) *objectstest.Memory {
	c := new(objectstest.Memory)
	for name, data := range m.Objects() {
		c.Set(name, data)
	}
	return c
}

// A home moves into a store, out of it into another directory, and back, and is the same all
// the way; work goes on in each place.
func TestAHomeMovesIntoAStoreAndBack(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a, b := fastDir(t)+"/a", fastDir(t)+"/b"
	s := local(t, a)
	workStored(t, s, "one")
	must(t, s.Checkpoint(ctx))
	workStored(t, s, "two")
	want := see(t, s)
	if err := push(a, m); !errors.As(err, new(*queuefs.LockedError)) {
		t.Errorf("a home in use: got %v", err)
	}
	closeHome(t, s)
	must(t, push(a, m))
	if here, there := refused(t, a, m); !errors.Is(here, queuefs.ErrStored) || there != nil {
		t.Errorf("after the push: in the directory %v, in the store %v", here, there)
	}
	if err := push(a, m); !errors.Is(err, queuefs.ErrArrived) {
		t.Errorf("a second push: got %v", err)
	}
	for _, dir := range []string{a, fastDir(t) + "/fresh"} { // its cache, and a new one
		s = mustStored(t, dir, m)
		want.check(t, see(t, s))
		closeHome(t, s)
	}
	s = mustStored(t, a, m)
	workStored(t, s, "three")
	want = see(t, s)
	if err := pull(b, m); !errors.As(err, new(*queuefs.OwnedError)) {
		t.Errorf("a home in use: got %v", err)
	}
	closeHome(t, s)
	must(t, pull(b, m))
	if here, there := refused(t, b, m); here != nil || !errors.As(there, new(*queuefs.MovedError)) {
		t.Errorf("after the pull: in the directory %v, in the store %v", here, there)
	}
	if err := pull(b, m); !errors.Is(err, queuefs.ErrUnstored) {
		t.Errorf("a second pull: got %v", err)
	}
	c := copyDated(t, b) // the directory alone has all of it
	for _, dir := range []string{c, b} {
		s = local(t, dir)
		want.check(t, see(t, s))
		workStored(t, s, "four")
		now := see(t, s)
		closeHome(t, s)
		s = local(t, dir)
		now.check(t, see(t, s))
		if dir == b {
			want = now
		}
		closeHome(t, s)
	}
	if err := push(a, m); !errors.Is(err, queuefs.ErrArrived) {
		t.Errorf("a push of the former cache: got %v", err)
	}
	must(t, push(b, m)) // back to the store it came from
	s = mustStored(t, fastDir(t)+"/last", m)
	want.check(t, see(t, s))
	workStored(t, s, "five")
	must(t, s.Image(ctx))
	must(t, s.Image(ctx))
	want = see(t, s)
	closeHome(t, s)
	s = mustStored(t, fastDir(t)+"/verylast", m)
	want.check(t, see(t, s))
	closeHome(t, s)
	st, err := stored.Look(ctx, m)
	must(t, err)
	r, err := st.Check(ctx)
	must(t, err)
	if len(r.Faults) > 0 {
		t.Errorf("faults in the store: %v", r.Faults)
	}
	if d := fastDir(t) + "/second"; !errors.Is(func() error { closeHome(t, local(t, d)); return push(d, m) }(), queuefs.ErrThere) {
		t.Error("a store with a home takes another one")
	}
}

// Each request to the store fails in turn, or the process ends there for good. At no time can
// the home be opened in both places; another attempt moves it.
func TestAMoveThatIsInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	home := fastDir(t) + "/home"
	s := local(t, home)
	workStored(t, s, "one")
	want := see(t, s)
	closeHome(t, s)
	pushed := new(objectstest.Memory)
	cache := copyDated(t, home)
	must(t, push(cache, pushed))
	for _, out := range []bool{false, true} {
		for _, how := range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late} {
			for _, gone := range []bool{false, true} { // from there on, no request succeeds
				step := int64(long.N(23, 1))
				for at, done := int64(1), false; !done && !t.Failed(); at += step {
					t.Run(fmt.Sprintf("Out=%v/%v/ForGood=%v/%d", out, how, gone, at), func(t *testing.T) {
						var n atomic.Int64
						m := copyStore(new(objectstest.Memory))
						dir, move := copyDated(t, home), push
						if out {
							m, dir, move = copyStore(pushed), fastDir(t)+"/new", pull
						}
						m.Fault = func(objectstest.Request) objectstest.Fault {
							switch i := n.Add(1); {
							case i == at:
								return how
							case i > at && gone:
								return objectstest.Before
							}
							return objectstest.None
						}
						first := move(dir, m)
						done = n.Load() < at
						m.Fault = nil
						now := copyStore(m)
						begun := slices.ContainsFunc(slices.Collect(maps.Keys(now.Objects())), func(n string) bool { return strings.HasPrefix(n, "journal/") })
						here, there := refused(t, copyDated(t, dir), now)
						if begun && here == nil && there == nil || first == nil && (out && here != nil || !out && there != nil) || !begun && here != nil {
							t.Fatalf("after %v: in the directory %v, in the store %v", first, here, there)
						}
						switch err := move(dir, m); {
						case err == nil, first == nil, out && errors.Is(err, queuefs.ErrHere), !out && errors.Is(err, queuefs.ErrArrived):
						default:
							t.Fatalf("after %v: the second attempt: %v", first, err)
						}
						var s *queuefs.Service
						if out {
							s = local(t, dir)
						} else {
							s = mustStored(t, fastDir(t)+"/new", m)
						}
						want.check(t, see(t, s))
						closeHome(t, s)
					})
				}
			}
		}
	}
}
