package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// changeDocuments returns the octets of all documents that follow from events
// alone, by URL.
func changeDocuments(s *source) map[string]string {
	s.Helper()
	docs := map[string]string{}
	for _, list := range s.document(base + "/.well-known/resourcesync").entries {
		for _, c := range s.document(list.Loc).entries {
			if c.Capability == sitemap.ChangeDump {
				continue
			}
			d := s.document(c.Loc)
			docs[c.Loc] = string(d.octets)
			if d.root == sitemap.SitemapIndex {
				for _, e := range d.entries {
					docs[e.Loc] = string(s.document(e.Loc).octets)
				}
			}
		}
	}
	return docs
}

func sameDocuments(t testing.TB, got, want map[string]string) {
	t.Helper()
	for url, w := range want {
		if g, ok := got[url]; !ok {
			t.Errorf("%s is no longer there", url)
		} else if g != w {
			t.Errorf("%s has other octets:\n%.600s\nnot\n%.600s", url, g, w)
		}
	}
	for url := range got {
		if _, ok := want[url]; !ok {
			t.Errorf("%s is new", url)
		}
	}
}

func TestDocumentsAreTheSameAfterCleanStopAndCrash(t *testing.T) {
	for _, stop := range []string{"clean", "crash", "crash after checkpoint", "cursor lost"} {
		t.Run(stop, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs", "other")
			for round := range 7 {
				activity(s, s.queue("jobs"), round)
				activity(s, s.queue("other"), round+1)
				if round == 3 && stop == "crash after checkpoint" {
					must(t, s.svc.Checkpoint(context.Background()))
				}
				must(t, s.pub.Flush())
			}
			want := changeDocuments(s)
			switch stop {
			case "clean":
				s.reopen()
			case "cursor lost":
				s.crash("resourcesync/cutie-cursor")
			default:
				s.crash()
			}
			sameDocuments(t, changeDocuments(s), want)
			activity(s, s.queue("jobs"), 0)
			m := newMirror(s, "jobs", "replica")
			m.since = s.queue("jobs").Info().Created
			m.incremental(nil)
			m.compare(s.queue("jobs"))
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

func TestDocumentsDoNotDependOnWhenEventsAreRead(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	q := s.queue("jobs")
	for round := range 7 {
		activity(s, q, round)
		s.body(s.doc(q, "pending", "changelist.xml"))
	}
	want := changeDocuments(s)
	s.crash("resourcesync") // everything is made again, at once
	sameDocuments(t, changeDocuments(s), want)
}

func TestEventsThatAreGoneLeaveAGap(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.release("jobs")
	s.close()
	must(t, os.RemoveAll(filepath.Join(s.dir, "resourcesync")))
	s.open()
	q := s.queue("jobs")
	state := q.State()
	index := newMirror(s, "jobs", "pending").capability(sitemap.ChangeList)
	if len(index.entries) != 1 || !index.head.From.Equal(state.LastEvent) {
		t.Errorf("index %+v, last event %v", index, state.LastEvent)
	}
	if len(s.problems) != 2 {
		t.Errorf("problems: %q", s.problems)
	}
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	activity(s, q, 1)
	m.incremental(nil)
	m.compare(q)
}

var errFault = errors.New("fault")

// TestEveryStepMayFail fails steps that change the directory, the first two of
// each kind: once before the step is done, once after.
func TestEveryStepMayFail(t *testing.T) {
	t.Parallel()
	steps := eachStep(func(fault durable.Fault) { faulty(t, fault) }, false, func(step string, fault durable.Fault) {
		s := faulty(t, fault)
		s.opts.Fault = nil
		s.crash()
		s.settle()
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, "jobs", set)
			m.since = s.queue("jobs").Info().Created
			m.dumps()
			m.incremental(nil)
			m.compare(s.queue("jobs"))
		}
		temps, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "cutie-tmp-*"))
		must(t, err)
		if len(s.problems) > 0 || len(temps) > 0 || t.Failed() {
			t.Fatalf("%s: problems %q, left behind %q", step, s.problems, temps)
		}
	})
	if kinds := slices.Compact(slices.Sorted(slices.Values(steps))); len(kinds) < 8 {
		t.Errorf("steps: %q", kinds)
	}
}

// eachStep lets every step of play fail, once before it is done and once after. A
// short test takes the first two steps of each kind and one of both ways. With dies
// nothing is done from then on, as in a killed process. It gives try the fault and its
// name, and returns the steps.
func eachStep(play func(durable.Fault), dies bool, try func(name string, fault durable.Fault)) (steps []string) {
	play(func(step string, do func() error) error {
		steps = append(steps, step)
		return do()
	})
	count := map[string]int{}
	for n, step := range steps {
		if count[step]++; !long.On() && count[step] > 2 || long.Race() && n%5 != 0 {
			continue
		}
		for _, done := range []bool{false, true} {
			if !long.On() && done == (n%2 == 0) {
				continue
			}
			i := -1
			try(fmt.Sprintf("step %d, %s (done %v)", n, step, done), func(_ string, do func() error) error {
				if i++; i < n || i > n && !dies {
					return do()
				}
				if done && i == n {
					do()
				}
				return errFault
			})
		}
	}
	return steps
}

// faulty runs a queue with a publisher whose steps may fail.
func faulty(t *testing.T, fault durable.Fault) *source {
	t.Helper()
	s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs")
	must(t, s.pub.Close())
	s.opts.Fault = fault
	s.openFaulty()
	for round := range 2 {
		activity(s, s.queue("jobs"), round)
		for _, err := range []error{s.pub.Flush(), s.pub.Synced(), s.pub.Tick(context.Background())} {
			if err != nil && !errors.Is(err, errFault) && !errors.Is(err, ledger.ErrFailed) {
				t.Fatal(err)
			}
		}
	}
	return s
}

// openFaulty opens the publisher, again if the fault hit that.
func (s *source) openFaulty() {
	s.Helper()
	pub, err := publisher.New(s.svc, s.opts)
	if errors.Is(err, errFault) {
		pub, err = publisher.New(s.svc, s.opts)
	}
	must(s, err)
	s.pub = pub
	s.svc.Follow(pub)
}

func TestClosedListsNeverChange(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6}, "jobs")
	q := s.queue("jobs")
	closed := map[string]string{}
	for round := range 10 {
		activity(s, q, round)
		if round%3 == 2 {
			s.crash()
			q = s.queue("jobs")
		}
		if round%2 == 1 {
			s.settle()
		}
		for _, set := range []string{"pending", "replica"} {
			for _, e := range newMirror(s, "jobs", set).capability(sitemap.ChangeList).entries {
				if e.Until.IsZero() {
					continue
				}
				d := s.document(e.Loc)
				resp := s.get(e.Loc)
				now := resp.Header.Get("ETag") + string(d.octets)
				if was, ok := closed[e.Loc]; ok && was != now {
					t.Fatalf("%s has changed", e.Loc)
				}
				closed[e.Loc] = now
				if got := resp.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
					t.Errorf("%s: Cache-Control %q", e.Loc, got)
				}
			}
		}
	}
	if len(closed) < 10 {
		t.Errorf("%d closed lists", len(closed))
	}
	for url := range closed {
		s.body(url)
	}
}

// release makes the engine let go of the events so far.
func (s *source) release(queue string) {
	s.Helper()
	s.forgetful()
	before := s.queue(queue).Seq()
	for range 60 {
		for range 10 {
			s.submit(s.queue(queue), strings.Repeat("x", 100_000))
		}
		must(s, s.svc.Checkpoint(context.Background()))
		if _, err := s.queue(queue).Events(before, 1); errors.Is(err, ledger.ErrGone) {
			return
		}
	}
	s.Fatal("the journal has all events still")
}

// forgetful opens the home as one that keeps no events for packages.
func (s *source) forgetful() {
	s.Helper()
	if s.keepLog == 0 {
		s.keepLog = -1
		s.reopen()
	}
}

func changeDocumentsOf(s *source) map[string]string {
	docs := map[string]string{}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		for _, e := range m.capability(sitemap.ChangeList).entries {
			docs[e.Loc] = string(s.body(e.Loc))
		}
	}
	return docs
}

func TestAQueueWithoutEventsLeavesNothingOnDisk(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs", "idle")
	s.submitN(s.queue("jobs"), 1)
	s.settle()
	changeDocuments(s)
	names, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "*"))
	must(t, err)
	if got := fmt.Sprint(names); strings.Contains(got, "idle") || !strings.Contains(got, "jobs") {
		t.Errorf("resourcesync has %s", got)
	}
}

// rebuild does so between two publishers.
func (s *source) rebuild() (aside string) {
	s.Helper()
	must(s, s.pub.Close())
	aside, err := publisher.Rebuild(s.svc, s.opts)
	must(s, err)
	s.openPublisher()
	return aside
}

func TestRebuiltListsAreThoseOfBefore(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs", "other")
	q := s.queue("jobs")
	for round := range 6 {
		activity(s, q, round)
	}
	s.settle()
	docs := func() map[string][]byte {
		m := map[string][]byte{}
		for _, set := range []string{"pending", "replica"} {
			for _, name := range []string{"capabilitylist.xml", "resourcelist.xml", "resourcelist-000001.xml", "changelist.xml", "changelist-index.xml"} {
				m[s.doc(q, set, name)] = s.body(s.doc(q, set, name))
			}
			for _, e := range s.document(s.doc(q, set, "changelist-index.xml")).entries {
				m[e.Loc] = s.body(e.Loc)
			}
		}
		return m
	}
	want := docs()
	if len(want) < 16 {
		t.Fatalf("%d documents", len(want))
	}
	if aside := s.rebuild(); aside != "resourcesync.1" {
		t.Errorf("what was there is in %q", aside)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "resourcesync.1", "jobs", "pending", "inventory")); err != nil {
		t.Error(err)
	}
	s.settle()
	got := docs()
	for uri, octets := range want {
		if !bytes.Equal(got[uri], octets) {
			t.Errorf("%s is another: %.400s", uri, got[uri])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d documents, want %d", len(got), len(want))
	}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.since = q.Info().Created
		m.dumps()
		m.incremental(nil)
		m.compare(q)
	}
	if aside := s.rebuild(); aside != "resourcesync.2" {
		t.Errorf("the second time it is in %q", aside)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestRebuiltListsBeginAnew loses events that a checkpoint let go of.
func TestRebuiltListsBeginAnew(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.release("jobs")
	last := s.queue("jobs").State().LastEvent
	s.rebuild()
	m := newMirror(s, "jobs", "replica")
	if from := m.capability(sitemap.ChangeList).head.From; !from.Equal(last) {
		t.Errorf("the lists begin at %v, want %v", from, last)
	}
	m.baseline()
	activity(s, s.queue("jobs"), 1)
	m.incremental(nil)
	m.compare(s.queue("jobs"))
}

func TestStateTellsHowFarPublishingIs(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 4}, "jobs", "idle")
	q := s.queue("jobs")
	s.submitN(q, 6)
	at := func(queue string, set names.Set) publisher.SetState {
		for _, st := range s.pub.State() {
			if st.Queue == queue && st.Set == set {
				return st
			}
		}
		t.Fatalf("no state of %s %s", queue, set)
		return publisher.SetState{}
	}
	got := at("jobs", names.Pending)
	if want := (publisher.SetState{Queue: "jobs", Set: names.Pending, Event: 6, Lag: got.Lag}); got != want || got.Lag <= 0 {
		t.Errorf("before a tick: got %+v, want %+v", got, want)
	}
	must(t, s.pub.Flush())
	got = at("jobs", names.Replica) // two entries an event, and queue-info.txt
	if want := (publisher.SetState{Queue: "jobs", Set: names.Replica, Event: 6, Read: 6, Open: 2, Lists: 3, Waiting: 3, Octets: s.onDisk("jobs", "replica")}); got != want {
		t.Errorf("after a flush: got %+v, want %+v", got, want)
	}
	s.settle()
	got = at("jobs", names.Replica)
	packages := len(s.document(s.doc(q, "replica", "changedump.xml")).entries)
	if want := (publisher.SetState{Queue: "jobs", Set: names.Replica, Event: 6, Read: 6, Open: 2, Lists: 3, Packages: packages, Octets: s.onDisk("jobs", "replica")}); got != want || packages == 0 {
		t.Errorf("after ticks: got %+v, want %+v", got, want)
	}
	if got, want := at("idle", names.Pending), (publisher.SetState{Queue: "idle", Set: names.Pending}); got != want {
		t.Errorf("of an idle queue: got %+v, want %+v", got, want)
	}
	must(t, s.pub.Publish(context.Background()))
	if got := at("jobs", names.Pending); got.Dumps != 1 || got.Err != nil {
		t.Errorf("after a publication: %+v", got)
	}
	if d := s.document(s.doc(q, "pending", "resourcedump.xml")); d.head.Capability != sitemap.ResourceDump {
		t.Errorf("the Resource Dump is a %s", d.head.Capability)
	}
}

// With another base URI or version the history begins after the last event: in both
// directions, with closed lists and without.
func TestTheHistoryBeginsAnewByOneRule(t *testing.T) {
	t.Parallel()
	for _, max := range []int{0, 6} {
		for _, other := range []publisher.Options{{BaseURI: base, Dialect: sitemap.V10}, {BaseURI: "https://elsewhere.test/"}} {
			t.Run(fmt.Sprintf("%d %s %v", max, other.BaseURI, other.Dialect), func(t *testing.T) {
				s := newSource(t, publisher.Options{MaxEntries: max}, "jobs", "empty")
				activity(s, s.queue("jobs"), 0)
				must(t, s.pub.Tick(context.Background()))
				first := s.opts
				other.MaxEntries = max
				for round, o := range []publisher.Options{other, first, other} {
					s.close()
					s.refused(o)
					s.open() // as it was
					if s.changesOf("jobs", "pending"); len(s.problems) > 0 {
						t.Errorf("refused: problems %q", s.problems)
					}
					s.close()
					o.Anew = true
					s.opts = o
					s.open()
					q := s.queue("jobs")
					last := q.State().LastEvent
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						if index := m.capability(sitemap.ChangeList); len(index.entries) != 1 || !index.head.From.Equal(last) {
							t.Errorf("round %d, %s: %d lists since %v, want one since %v", round, set, len(index.entries), index.head.From, last)
						}
					}
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						m.baseline()
						m.compare(q)
						activity(s, q, round)
						m.incremental(nil)
						m.compare(q)
					}
					for url, doc := range changeDocumentsOf(s) {
						if !strings.HasPrefix(url, o.BaseURI) || o.BaseURI != base && strings.Contains(doc, base) {
							t.Errorf("round %d: %s speaks of another base URI", round, url)
						}
					}
					must(t, s.pub.Publish(context.Background()))
					s.crash()
					if len(s.problems) > 0 {
						t.Errorf("round %d: problems %q", round, s.problems)
					}
				}
			})
		}
	}
}

// refused opens the publisher with options that it must refuse.
func (s *source) refused(o publisher.Options) {
	s.Helper()
	svc, err := queuefs.Open(s.dir, queuefs.Options{Now: s.now, Segment: 2 << 20})
	must(s, err)
	pub, err := publisher.New(svc, o)
	var change *publisher.ChangeError
	if !errors.As(err, &change) {
		s.Fatalf("got %v, %v", pub, err)
	}
	must(s, svc.Close())
}

func TestNothingPublishedIsNoHistory(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.close()
	s.opts.BaseURI = "https://elsewhere.test"
	s.open()
	s.submitN(s.queue("jobs"), 3)
	if got := s.changesOf("jobs", "pending"); len(got) != 3 || len(s.problems) > 0 {
		t.Errorf("got %d changes, problems %q", len(got), s.problems)
	}
}
