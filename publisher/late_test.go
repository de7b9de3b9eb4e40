package publisher_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// Who begins with the Resource Dump needs all changes since it, however old these
// are.
func TestTheIndexReachesBackToTheResourceDump(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{MaxEntries: 20, Retention: publisher.Retention{Current: time.Hour}, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	for round := range 8 {
		now = now.Add(time.Hour)
		activity(s, q, round)
		s.settle()
	}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.dump()
		m.incremental(nil)
		m.compare(q)
		m.dump()
		m.dumps()
		m.incremental(nil)
		m.compare(q)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// dumpAt returns at of the Resource Dump, zero if there is none.
func dumpAt(s *source, set string) time.Time {
	s.Helper()
	resp := s.get(s.doc(s.queue("jobs"), set, "resourcedump.xml"))
	if resp.StatusCode != http.StatusOK {
		return time.Time{}
	}
	return parse(s, read(s, resp)).head.At
}

func TestADumpFarBehindIsMadeAgain(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 100, DumpPeriod: 1000 * time.Hour}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 30)
	s.settle()
	first := dumpAt(s, "pending")
	if first.IsZero() {
		t.Fatal("no dump was made")
	}
	s.submitN(q, 60)
	s.settle()
	if at := dumpAt(s, "pending"); !at.Equal(first) {
		t.Errorf("made again at %v, although there are few changes", at)
	}
	s.submitN(q, 200)
	s.settle()
	if at := dumpAt(s, "pending"); at.Equal(first) {
		t.Error("the dump is as it was, and far behind")
	}
	m := newMirror(s, "jobs", "pending")
	m.dump()
	m.incremental(nil)
	m.compare(q)
}

// A dump before a gap in the Change Lists leads nowhere.
func TestADumpBeforeAGapIsMadeAgain(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 30)
	must(t, s.pub.Publish(context.Background()))
	must(t, s.svc.Checkpoint(context.Background()))
	s.close()
	svc, err := queuefs.Open(s.dir, queuefs.Options{Now: s.now, Segment: 2 << 20})
	must(t, err)
	s.svc = svc
	s.submitN(s.queue("jobs"), 20)
	must(t, svc.Checkpoint(context.Background()))
	s.submitN(s.queue("jobs"), 3)
	must(t, svc.Checkpoint(context.Background()))
	must(t, svc.Close())
	s.open()
	s.submitN(s.queue("jobs"), 1)
	s.settle()
	m := newMirror(s, "jobs", "replica")
	m.dump()
	m.incremental(nil)
	m.compare(s.queue("jobs"))
}

func TestPublishNowMakesAChangeDump(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "pending")
	m.baseline()
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	if n := m.dumps(); n != 1 {
		t.Errorf("%d packages, want 1", n)
	}
	m.compare(q)
	must(t, s.pub.Publish(context.Background())) // nothing new
	if n := len(m.capability(sitemap.ChangeDump).entries); n != 1 {
		t.Errorf("%d packages, want 1", n)
	}
}

// Who asks for what is no longer kept is led to where to begin anew.
func TestWhatIsNoLongerKeptIsGone(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{MaxEntries: 8, Retention: publisher.Retention{Keep: time.Hour}, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	former := map[string][]string{}
	for round := range 3 {
		activity(s, q, round)
	}
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) {
			if strings.Contains(url, "-0000") && !strings.Contains(url, "resourcelist-000001.xml") {
				former[set] = append(former[set], url)
			}
		}
		if len(former[set]) < 5 {
			t.Fatalf("%s: only %q", set, former[set])
		}
	}
	for range 3 {
		now = now.Add(2 * time.Hour)
		activity(s, q, 1)
		must(t, s.pub.Publish(context.Background()))
		must(t, s.pub.Tick(context.Background()))
	}
	for set, urls := range former {
		list := s.document(s.doc(q, set, "resourcelist.xml"))
		dump := s.document(s.doc(q, set, "resourcedump.xml"))
		for _, url := range urls {
			resp := s.get(url)
			text := string(read(t, resp))
			if resp.StatusCode != http.StatusGone {
				t.Errorf("%s: %s", url, resp.Status)
				continue
			}
			for _, want := range []string{s.doc(q, set, "resourcelist.xml"), list.head.At.Format(time.RFC3339Nano), s.doc(q, set, "resourcedump.xml"), dump.head.At.Format(time.RFC3339Nano)} {
				if !strings.Contains(text, want) {
					t.Errorf("%s says nothing of %s: %s", url, want, text)
				}
			}
		}
	}
	for _, never := range []string{"changelist-999999999999.xml", "resourcedump-999999999999.xml", "changedump-999999999999.zip", "other.xml"} {
		if resp := s.get(s.doc(q, "pending", never)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", never, resp.Status)
		}
	}
}

func TestWhatWasPublishedOfARemovedQueueIsGone(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs", "other")
	url := s.doc(s.queue("jobs"), "pending", "changelist.xml")
	ask := func(when string, want int) {
		t.Helper()
		if resp := s.get(url); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", when, resp.Status, want)
		}
	}
	ask("at first", 200)
	must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
	ask("removed", 410)
	s.reopen()
	ask("opened again", 410)
	s.crash()
	ask("after a crash", 410)
	if resp := s.get(strings.Replace(url, "/jobs/", "/never/", 1)); resp.StatusCode != 404 {
		t.Errorf("a queue that never was: %s", resp.Status)
	}
	s.queue("jobs")
	ask("made again", 200)
	must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
	s.reopen()
	ask("removed again", 410)
}
