package publisher_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
)

// untilMade ticks until what waits for room has been made.
func (s *source) untilMade() {
	s.Helper()
	err := errors.New("no Tick")
	for n := 0; err != nil && n < 200; n++ {
		err = s.pub.Tick(context.Background())
	}
	if err != nil {
		s.Errorf("there is room: %v", err)
	}
	s.settle()
}

// Packages of one queue that find room do not keep the jobs of another whose
// packages find none, nor do those of another set.
func TestEachSetWaitsForRoomByItself(t *testing.T) {
	room := int64(1000)
	s := newSource(t, publisher.Options{MaxEntries: 6, Room: func(octets int64) bool { return octets <= room }}, "large", "small")
	large, small := s.queue("large"), s.queue("small")
	s.submit(large, slices.Repeat([]string{strings.Repeat("payload", 50_000)}, 6)...)
	s.consume(large, 4)
	must(t, s.pub.Flush())
	if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "queue large") != 2 {
		t.Errorf("both sets wait for room: %v", err)
	}
	for room = 2000; room < 60_000; room += 2000 { // enough for small, at some time for one set only
		s.submit(small, slices.Repeat([]string{"x"}, 3)...)
		s.consume(small, 3)
		must(t, s.pub.Flush())
		for range 3 {
			if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("with room for %d octets: %v", room, err)
			}
			if since := s.pub.Needs("large"); !since.IsZero() {
				t.Fatalf("with room for %d octets jobs of large are needed since %v", room, since)
			}
		}
	}
	room = 0
	if n := cull(s, large); n != 4 {
		t.Errorf("%d jobs of large are culled, want 4", n)
	}
	if n := cull(s, small); n < 80 {
		t.Errorf("%d jobs of small are culled", n)
	}
	room = 1 << 30
	s.untilMade()
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// Lists that wait for room to be packed are let go of as others are: that makes
// some.
func TestListsThatWaitForRoomAreNotKept(t *testing.T) {
	room := int64(1000)
	s := newSource(t, publisher.Options{MaxEntries: 6, KeepOctets: 1, Room: func(octets int64) bool { return octets <= room }}, "jobs")
	q := s.queue("jobs")
	for range 5 {
		s.submitN(q, 6)
		s.consume(q, 6)
		must(t, s.pub.Flush())
	}
	for range 3 {
		err := s.pub.Tick(context.Background())
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	for _, st := range s.pub.State() {
		if st.Lists != 1 || st.Packages != 0 {
			t.Errorf("%v: %d lists and %d packages are kept, want the last list", st.Set, st.Lists, st.Packages)
		}
		if st.Waiting > 0 && !errors.Is(st.Err, syscall.ENOSPC) {
			t.Errorf("%v: a list waits because of %v", st.Set, st.Err)
		}
	}
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	s.submitN(q, 3)
	room = 1 << 30
	s.untilMade()
	m.incremental(nil)
	m.compare(q)
	s.crash()
	q = s.queue("jobs")
	s.submitN(q, 6)
	s.settle()
	m.dumps()
	m.incremental(nil)
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// A set that waits for room keeps no other from being published now.
func TestPublishGoesOnWithoutTheSetsThatWait(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6, Room: func(octets int64) bool { return octets <= 100_000 }}, "small", "large")
	large, small := s.queue("large"), s.queue("small")
	s.submit(large, slices.Repeat([]string{strings.Repeat("payload", 50_000)}, 6)...)
	s.submit(large, "x")
	must(t, s.pub.Flush())
	if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	s.submit(small, "x", "y")
	if err := s.pub.Publish(context.Background()); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "small") {
		t.Errorf("published but for what waits for room: %v", err)
	}
	for _, st := range s.pub.State() {
		if want := st.Queue == "small"; st.Dumps > 0 != want || (st.Err == nil) != want {
			t.Errorf("%s, %v: %d Resource Dumps, %v", st.Queue, st.Set, st.Dumps, st.Err)
		}
	}
}

// A Resource Dump that is to be replaced and cannot be does not keep the lists
// since, which wait for room themselves.
func TestADumpThatIsNotReplacedKeepsNoLists(t *testing.T) {
	for _, o := range []publisher.Options{{Keep: 2 * time.Hour}, {KeepOctets: 1}} {
		room, now := int64(1<<30), time.Now()
		o.MaxEntries, o.DumpPeriod = 6, time.Hour
		o.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
		o.Room = func(octets int64) bool { return octets <= room }
		s := newSource(t, o, "jobs")
		q := s.queue("jobs")
		s.submitN(q, 6)
		s.settle()
		if st := s.pub.State()[0]; st.Dumps != 1 {
			t.Fatalf("there are %d Resource Dumps", st.Dumps)
		}
		room = 10
		for range 4 {
			s.submitN(q, 6)
			s.consume(q, 6)
			must(t, s.pub.Flush())
			now = now.Add(10 * time.Hour)
			for range 2 {
				if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
		}
		for _, st := range s.pub.State() {
			if st.Lists != 1 || st.Dumps != 0 || st.Waiting != 1 || !errors.Is(st.Err, syscall.ENOSPC) {
				t.Errorf("Keep %v, KeepOctets %d: %+v", o.Keep, o.KeepOctets, st)
			}
		}
	}
}

// Of a Resource Dump that finds no room half way nothing stays, and that it waits is
// told until it is made, though lists are.
func TestAResourceDumpThatWaitsLeavesNothing(t *testing.T) {
	room, now := true, time.Now()
	asked := 0
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour, MaxPackage: 1,
		Now: func() time.Time { now = now.Add(time.Millisecond); return now },
		Room: func(int64) bool {
			asked++
			return room || asked == 1 // for the first package of one
		}}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, queuefs.PageJobs+10)
	must(t, s.pub.Flush())
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", "*", "*"))
		must(t, err)
		return names
	}
	before := files()
	room = false
	var err error
	for range 50 { // each works for a tenth of a second at the most
		if err = s.pub.Tick(context.Background()); err != nil && strings.Count(err.Error(), "Resource Dump") == 2 {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "Resource Dump") != 2 {
		t.Fatalf("Resource Dumps of both sets wait for room: %v", err)
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("there are %d files, want the %d that were there:\n%q", len(after), len(before), after)
	}
	room = true
	s.untilMade()
	for _, st := range s.pub.State() {
		if st.Dumps != 1 || st.Err != nil {
			t.Errorf("%v: %d Resource Dumps, %v", st.Set, st.Dumps, st.Err)
		}
	}
}

// A Resource Dump finds room by itself, though lists of its set find none.
func TestAResourceDumpWaitsForNoLists(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6, Room: func(octets int64) bool { return octets <= 30_000 }}, "jobs")
	q := s.queue("jobs")
	s.submit(q, slices.Repeat([]string{strings.Repeat("payload", 50_000)}, 6)...)
	s.consume(q, 6)
	s.submit(q, "x")
	must(t, s.pub.Flush())
	err := s.pub.Publish(context.Background())
	if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "closed list") != 2 || strings.Count(err.Error(), "Resource Dump") != 1 {
		t.Errorf("closed lists of both sets wait for room, and one Resource Dump: %v", err)
	}
	for _, st := range s.pub.State() {
		dumps := 0
		if st.Set == publisher.Pending { // nothing large is pending
			dumps = 1
		}
		if st.Dumps != dumps || !errors.Is(st.Err, syscall.ENOSPC) {
			t.Errorf("%v: %d Resource Dumps, want %d; %v", st.Set, st.Dumps, dumps, st.Err)
		}
	}
}

// What cannot be made for another reason than want of room keeps nothing else
// either, and is told until it is made.
func TestWhatIsNotMadeKeepsNothingElse(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6}, "jobs")
	must(t, s.pub.Close())
	failing := true
	s.opts.Fault = func(step string, do func() error) error {
		if failing && step == "rename to pending" { // of whatever is made for this set, the first
			return errFault
		}
		return do()
	}
	s.openPublisher()
	s.submitN(s.queue("jobs"), 9)
	must(t, s.pub.Flush())
	if err := s.pub.Tick(context.Background()); !errors.Is(err, errFault) || strings.Count(err.Error(), "closed list") != 1 {
		t.Errorf("one closed list fails: %v", err)
	}
	if err := s.pub.Publish(context.Background()); !errors.Is(err, errFault) || strings.Contains(err.Error(), "replica") {
		t.Errorf("what is to be published of the pending set fails: %v", err)
	}
	for _, st := range s.pub.State() {
		want := st.Set == publisher.Replica
		if (st.Packages > 0) != want || (st.Dumps > 0) != want || (st.Err == nil) != want {
			t.Errorf("%v: %d packages, %d Resource Dumps, %v", st.Set, st.Packages, st.Dumps, st.Err)
		}
	}
	failing = false
	s.untilMade()
	for _, st := range s.pub.State() {
		if st.Packages == 0 || st.Err != nil {
			t.Errorf("%v: %d packages, %v", st.Set, st.Packages, st.Err)
		}
	}
}
