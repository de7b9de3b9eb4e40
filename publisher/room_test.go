package publisher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cutie/publisher"
)

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
	s.settle()
	if err := s.pub.Tick(context.Background()); err != nil {
		t.Errorf("there is room: %v", err)
	}
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
	s.settle()
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
