package publisher_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/sitemap"
)

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
