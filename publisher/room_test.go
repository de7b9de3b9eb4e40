package publisher_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
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

// still is a clock that stands: a Tick has time for all there is to do.
func still() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// leaps gives options a clock that forward sets ahead, so that what has failed is
// tried again.
func leaps(o publisher.Options) (with publisher.Options, forward func()) {
	now, ahead := time.Now(), atomic.Int64{}
	o.Now = func() time.Time { return now.Add(time.Duration(ahead.Load())) }
	return o, func() { ahead.Add(int64(2 * time.Minute)) }
}

// Packages of one queue find room although those of another find none, and so do those of
// another set.
func TestEachSetWaitsForRoomByItself(t *testing.T) {
	room := int64(1000)
	s := newSource(t, publisher.Options{MaxEntries: 6, Now: still(), HasSpace: func(octets int64) bool { return octets <= room }}, "large", "small")
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
	if more := s.problems; len(more) > 0 {
		t.Errorf("problems: %q", more)
	}
}

// Lists that wait for room to be packed are let go of as others are: that makes
// some.
func TestListsThatWaitForRoomAreNotKept(t *testing.T) {
	room := int64(1000)
	s := newSource(t, publisher.Options{MaxEntries: 6, Retention: publisher.Retention{KeepOctets: 1}, Now: still(), HasSpace: func(octets int64) bool { return octets <= room }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2) // fills a list with queue-info.txt
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
	if more := s.problems; len(more) > 0 {
		t.Errorf("problems: %q", more)
	}
}

// A Resource Dump that is to be replaced and cannot be does not keep the lists
// since, which wait for room themselves.
func TestADumpThatIsNotReplacedKeepsNoLists(t *testing.T) {
	for _, o := range []publisher.Options{{Retention: publisher.Retention{Keep: 2 * time.Hour}}, {Retention: publisher.Retention{KeepOctets: 1}}} {
		room, now := int64(1<<30), time.Now()
		o.MaxEntries, o.DumpPeriod = 6, time.Hour
		o.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
		o.HasSpace = func(octets int64) bool { return octets <= room }
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
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour, MaxPackage: 40 << 10,
		Now:      func() time.Time { now = now.Add(time.Millisecond); return now },
		HasSpace: func(int64) bool { return room }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, index.PageJobs+10)
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
	s := newSource(t, publisher.Options{MaxEntries: 6, HasSpace: func(octets int64) bool { return octets <= 30_000 }}, "jobs")
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
		if st.Set == names.Pending { // nothing large is pending
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
	o, forward := leaps(publisher.Options{MaxEntries: 6})
	s := newSource(t, o, "jobs")
	must(t, s.pub.Close())
	failing := false
	s.opts.Fault = func(step string, do func() error) error {
		if failing && step == "rename to pending" { // of whatever is made for this set
			return errFault
		}
		return do()
	}
	s.openPublisher()
	s.submitN(s.queue("jobs"), 9)
	must(t, s.pub.Flush())
	failing = true
	if err := s.pub.Tick(context.Background()); !errors.Is(err, errFault) || strings.Count(err.Error(), "closed list") != 1 {
		t.Errorf("one closed list fails: %v", err)
	}
	if err := s.pub.Publish(context.Background()); !errors.Is(err, errFault) || strings.Contains(err.Error(), "replica") {
		t.Errorf("what is to be published of the pending set fails: %v", err)
	}
	for _, st := range s.pub.State() {
		want := st.Set == names.Replica
		if (st.Packages > 0) != want || (st.Dumps > 0) != want || (st.Err == nil) != want {
			t.Errorf("%v: %d packages, %d Resource Dumps, %v", st.Set, st.Packages, st.Dumps, st.Err)
		}
	}
	failing = false
	forward()
	s.untilMade()
	for _, st := range s.pub.State() {
		if st.Packages == 0 || st.Err != nil {
			t.Errorf("%v: %d packages, %v", st.Set, st.Packages, st.Err)
		}
	}
}

// Sets that fail late, again and again, leave time for others, and pause longer
// and longer; their jobs are culled, and they are made when that works again.
func TestWhatFailsForEverLeavesTimeForOthers(t *testing.T) {
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 6, Now: func() time.Time { return now }}, "a", "b")
	must(t, s.pub.Close())
	attempts, failing := 0, false
	s.opts.Fault = func(step string, do func() error) error {
		if failing && attempts%2 == 0 && step == "rename to pending" || failing && attempts%2 == 1 && step == "rename to replica" {
			attempts++
			return errFault
		}
		return do()
	}
	s.openPublisher()
	s.submitN(s.queue("a"), 6)
	s.consume(s.queue("a"), 4)
	must(t, s.pub.Flush())
	failing = true
	for range 600 {
		now = now.Add(time.Second)
		if err := s.pub.Tick(context.Background()); err == nil {
			t.Fatal("no error, although something failed")
		}
	}
	if attempts < 10 || attempts > 50 {
		t.Errorf("%d attempts in ten minutes", attempts)
	}
	if n := cull(s, s.queue("a")); n != 4 {
		t.Errorf("%d jobs are culled, want 4", n)
	}
	failing = false
	now = now.Add(time.Minute)
	s.untilMade()
}

// What cannot be let go of in one set keeps nothing else from being published now.
func TestPublishGoesOnWithoutTheSetsThatCannotBeShortened(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6, Retention: publisher.Retention{KeepOctets: 1}}, "bad", "good")
	must(t, s.pub.Close())
	failing := false
	s.opts.Fault = func(step string, do func() error) error {
		if failing && step == "remove pending" {
			return errFault
		}
		return do()
	}
	s.openPublisher()
	s.submitN(s.queue("bad"), 30)
	failing = true
	must(t, s.pub.Flush())
	s.submitN(s.queue("good"), 4)
	if err := s.pub.Publish(context.Background()); !errors.Is(err, errFault) {
		t.Errorf("what cannot be removed is not told: %v", err)
	}
	for _, st := range s.pub.State() {
		if st.Dumps == 0 {
			t.Errorf("%s, %v: no Resource Dump", st.Queue, st.Set)
		}
	}
}

// That a list got no package is told although something later of its set was made,
// or was not either.
func TestPublishTellsOfListsPassedOver(t *testing.T) {
	s, q := newScript(t, publisher.Options{MaxEntries: 4}, 6)
	q.lost[3] = true
	q.add(job.Consume, 3, job.Pending, job.Consumed)
	if _, err := q.Queue.Take(context.Background(), queuefs.Take{By: "w", Max: 1}); err != nil {
		t.Fatal(err)
	}
	err := s.pub.Publish(context.Background())
	if err == nil || !strings.Contains(err.Error(), "pending: no package") {
		t.Errorf("that a list of the pending set got no package is not told: %v", err)
	}
}

// Lists that come faster than packages are completed are let go of as others are, with the
// Resource Dump that kept them. Nothing is told: what is there is true.
func TestListsThatComeFasterThanPackagesAreNotKept(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	s := newSource(t, publisher.Options{MaxEntries: 6, DumpPeriod: time.Hour, Retention: publisher.Retention{KeepOctets: 10_000}}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2)
	s.settle()
	for range 30 {
		s.submitN(q, 6)
		s.consume(q, 6)
		s.pub.Tick(stopped) // one step of the work
		for _, st := range s.pub.State() {
			if st.Octets > 50_000 {
				t.Fatalf("%v: %d lists, %d packages and %d dumps take %d octets", st.Set, st.Lists, st.Packages, st.Dumps, st.Octets)
			}
		}
	}
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	s.submitN(q, 20)
	m.incremental(nil)
	m.compare(q)
	s.crash()
	q = s.queue("jobs")
	s.submitN(q, 6)
	m.incremental(nil)
	m.compare(q)
	s.settle()
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}
