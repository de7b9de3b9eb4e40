package publisher_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/sitemap"
)

// many returns a source of n queues, q000 to the last one, with a job each.
func many(t *testing.T, o publisher.Options, n int) (s *source, ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("q%03d", i))
	}
	s = newSource(t, o, ids...)
	for _, id := range ids {
		s.submit(s.queue(id), "job of "+id)
	}
	return s, ids
}

func (s *source) ticks(n int) {
	s.Helper()
	for range n {
		must(s, s.pub.Tick(context.Background()))
	}
}

// ofSets returns the documents with the state of all sets of a queue.
func (s *source) ofSets(id string) (all []string) {
	for _, set := range []string{"pending", "replica"} {
		for _, doc := range []string{"capabilitylist.xml", "changelist.xml", "resourcelist.xml", "changelist-index.xml", "changelist-archive.xml"} {
			resp := s.get(s.doc(s.queue(id), set, doc))
			body := ""
			if resp.StatusCode == 200 {
				body = string(s.body(s.doc(s.queue(id), set, doc)))
			}
			all = append(all, fmt.Sprint(set, " ", doc, " ", resp.StatusCode, resp.Header["Etag"], body))
		}
	}
	return all
}

func TestQueuesAtRestArePublishedLikeOpenOnes(t *testing.T) {
	s, ids := many(t, publisher.Options{MaxEntries: 4}, 12)
	s.ticks(1)
	for _, id := range ids[:4] { // with closed lists, packages and dumps
		s.submitN(s.queue(id), 7)
	}
	must(t, s.pub.Publish(context.Background()))
	want, state := map[string][]string{}, s.pub.State()
	for _, id := range ids {
		want[id] = s.ofSets(id)
	}
	s.pub.KeepOpen(0)
	if s.ticks(1); s.pub.Open() != 0 {
		t.Fatalf("%d queues are open", s.pub.Open())
	}
	if got := s.pub.State(); !slices.Equal(got, state) || s.pub.Open() != 0 {
		t.Errorf("state at rest, with %d open:\n%v\nwant\n%v", s.pub.Open(), got, state)
	}
	for _, id := range ids {
		if got := s.ofSets(id); !slices.Equal(got, want[id]) {
			t.Errorf("%s: got\n%q\nwant\n%q", id, got, want[id])
		}
	}
	if s.pub.Open() != len(ids) {
		t.Errorf("%d queues are open after requests to all", s.pub.Open())
	}
	s.ticks(1)
	s.consume(s.queue(ids[3]), 1)
	must(t, s.pub.Flush())
	if s.pub.Open() != 1 {
		t.Errorf("%d queues are open after an event of one", s.pub.Open())
	}
	for _, st := range s.pub.State() {
		if st.Read != st.Event {
			t.Errorf("%s has events to %d of %d", st.Queue, st.Read, st.Event)
		}
	}
	must(t, s.pub.Synced())
	s.crash()
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
	for _, id := range slices.Concat(ids[:3], ids[4:]) {
		if got := s.ofSets(id); !slices.Equal(got, want[id]) {
			t.Errorf("%s after a crash: got\n%q\nwant\n%q", id, got, want[id])
		}
	}
}

func TestOpeningAHomeReadsFewQueues(t *testing.T) {
	s, ids := many(t, publisher.Options{}, 130)
	s.ticks(1)
	state := s.pub.State()
	s.reopen()
	if s.pub.Open() > 100 {
		t.Errorf("%d queues are open after the start", s.pub.Open())
	}
	before := s.pub.Open()
	if got := s.pub.State(); !slices.Equal(got, state) || s.pub.Open() != before {
		t.Errorf("state at rest, with %d open:\n%v\nwant\n%v", s.pub.Open(), got, state)
	}
	last := ids[len(ids)-1]
	if s.body(s.doc(s.queue(last), "replica", "changelist.xml")); s.pub.Open() != before+1 {
		t.Errorf("%d queues are open after a request to one", s.pub.Open()-before)
	}
	s.pub.KeepOpen(0)
	s.ticks(len(ids)) // look at one more each, at least
	if s.pub.KeepOpen(len(ids)); s.pub.Open() != 0 {
		t.Errorf("%d queues are open", s.pub.Open())
	}
	if s.ticks(1); s.pub.Open() != 0 {
		t.Error("a queue is looked at twice")
	}
}

func TestWorkOfAQueueAtRestIsDoneWhenItIsDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	o := publisher.Options{Period: time.Hour, DumpPeriod: 2 * day, Now: func() time.Time { return now }}
	o.Keep = 5 * day
	s, ids := many(t, o, 5)
	s.pub.KeepOpen(0)
	rest := func() { // at least two Ticks: one to wake, one to do the work
		t.Helper()
		for n := 0; n < 2 || s.pub.Open() > 0; n++ {
			if n == 100 {
				t.Fatalf("%d queues are not put to rest", s.pub.Open())
			}
			now = now.Add(time.Second)
			s.ticks(1)
		}
	}
	rest() // each gets its first dump
	q := s.queue(ids[2])
	s.submit(q, "one more")
	rest()
	dumps := func() (n int) {
		for _, st := range s.pub.State() {
			n += st.Dumps
		}
		return n
	}
	lists := func() (n int) {
		for _, st := range s.pub.State() {
			n += st.Lists
		}
		return n
	}
	if dumps() != 10 || lists() != 0 || s.pub.Open() > 0 {
		t.Fatalf("%d dumps, %d closed lists, %d queues open", dumps(), lists(), s.pub.Open())
	}
	now = now.Add(time.Hour + time.Second)
	rest()
	if lists() != 10 || dumps() != 10 {
		t.Errorf("%d lists closed and %d dumps after their period", lists(), dumps())
	}
	if e := newMirror(s, ids[0], "replica").capability(sitemap.ChangeDump).entries; len(e) != 1 {
		t.Errorf("%d packages", len(e))
	}
	now = now.Add(2 * day)
	rest()
	if dumps() != 12 {
		t.Errorf("%d dumps after the period of dumps", dumps())
	}
	now = now.Add(5*day + time.Hour)
	rest()
	if dumps() != 10 {
		t.Errorf("%d dumps after the time to keep a former one", dumps())
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %s", strings.Join(s.problems, "\n"))
	}
}

func TestScrubReadsQueuesAtRestAndLeavesFewOpen(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, ids := many(t, publisher.Options{Pace: names.Pace{Rate: 1 << 40}, Now: func() time.Time { return now }}, 300)
	s.pub.KeepOpen(0)
	now = now.Add(time.Second)
	s.ticks(1)
	damaged := filepath.Join(s.dir, "resourcesync", ids[299], "replica", "changelist-000000000001.entries")
	edit(t, damaged, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	for range 2 {
		must(t, s.pub.Scrub(context.Background()))
		now = now.Add(time.Second)
	}
	if c := s.pub.Care(); c.Passes != 1 || c.Lost != 1 {
		t.Errorf("%d passes, %d files set aside", c.Passes, c.Lost)
	}
	if n := s.pub.Open(); n > 100 {
		t.Errorf("%d queues are open", n)
	}
}
