package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// phases tells of n phases of what is no job of the queue.
func (s *source) phases(q *queuefs.Queue, n int) {
	s.Helper()
	for i := range n {
		must(s, q.TellPhase(context.Background(), fmt.Sprint("u", i), []string{"PENDING", "ABORTED", ""}[i%3]))
	}
}

// A tagged is a document with its entity tag.
type tagged struct{ tag, body string }

// tagged returns all documents that lead to each other below the Capability
// Lists of a queue, packages among them; not those that describe it, and say
// how many events it has had.
func (s *source) tagged(q *queuefs.Queue) map[string]tagged {
	s.Helper()
	all := map[string]tagged{}
	var visit func(uri string)
	visit = func(uri string) {
		resp := s.get(uri)
		if resp.StatusCode != http.StatusOK {
			s.Fatalf("%s: %s", uri, resp.Status)
		}
		body := read(s, resp)
		all[uri] = tagged{resp.Header.Get("ETag"), string(body)}
		if !strings.HasSuffix(uri, ".xml") {
			return
		}
		d := parse(s, body)
		var next []string
		for _, l := range d.head.Links {
			next = append(next, l.Href)
		}
		for _, e := range d.entries {
			next = append(next, e.Loc)
		}
		for _, uri := range next {
			if _, seen := all[uri]; !seen && strings.Contains(uri, "/.well-known/resourcesync/"+q.ID()+"/") && !strings.Contains(uri, "/about.") {
				visit(uri)
			}
		}
	}
	for set := range publisher.Set(2) {
		visit(s.pub.CapabilityList(q.ID(), set))
	}
	return all
}

func (s *source) wantTagged(when string, q *queuefs.Queue, want map[string]tagged) {
	s.Helper()
	got := s.tagged(q)
	for uri, w := range want {
		if g := got[uri]; g != w {
			s.Errorf("%s: %s is %s, want %s: %.300s", when, uri, g.tag, w.tag, g.body)
		}
	}
	if len(got) != len(want) {
		s.Errorf("%s: %d documents, want %d", when, len(got), len(want))
	}
}

// wantRead tests that the lists have all events.
func (s *source) wantRead(when string) {
	s.Helper()
	for _, st := range s.pub.State() {
		if st.Read != st.Event || st.Lag != 0 || st.Err != nil || st.Waiting != 0 {
			s.Errorf("%s: got %+v", when, st)
		}
	}
}

// What is published says nothing of phases of what is no job, and is not
// another because of them.
func TestPhasesChangeNothingPublished(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		t.Run(dialect.String(), func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 40, Dialect: dialect, Current: time.Hour}, "jobs")
			q := s.queue("jobs")
			s.phases(q, 3) // before the first job
			for round := range 9 {
				activity(s, q, round)
				for i := range 20 {
					s.describe(q, fmt.Sprint(round, i))
				}
			}
			s.settle()
			must(t, s.pub.Publish(context.Background()))
			want := s.tagged(q)
			if len(want) < 18 {
				t.Fatalf("only %d documents", len(want))
			}
			for uri, d := range want {
				if strings.HasSuffix(uri, ".xml") && strings.Contains(d.body, `cut:event="phase"`) {
					t.Errorf("%s tells of phases", uri)
				}
			}
			s.phases(q, 600) // more than are read at a time
			s.settle()
			s.wantTagged("after phases", q, want)
			s.wantRead("after phases")
			s.reopen()
			q = s.queue("jobs")
			s.settle()
			s.wantTagged("opened again", q, want)
			s.phases(q, 5)
			s.crash()
			q = s.queue("jobs")
			s.settle()
			s.wantTagged("after a crash", q, want)
			s.wantRead("after a crash")
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// Phases between the events of jobs, also where a list is closed, leave lists
// and packages whole, and what is made again has the same octets.
func TestPhasesBetweenOtherEvents(t *testing.T) {
	for _, max := range []int{2, 3, 7} {
		s := newSource(t, publisher.Options{MaxEntries: max}, "jobs")
		q := s.queue("jobs")
		sets := []string{"pending", "replica"}
		mirrors := make([]*mirror, len(sets))
		for i, set := range sets {
			mirrors[i] = newMirror(s, "jobs", set)
			mirrors[i].baseline()
		}
		for round := range 8 {
			s.phases(q, round%3)
			for range 2 + round%2 {
				s.submitN(q, 1)
				s.phases(q, 1)
			}
			s.consume(q, 1)
			s.phases(q, round%4)
			for _, m := range mirrors {
				m.incremental(nil)
				m.compare(q)
			}
		}
		s.settle()
		s.wantRead("before")
		lists := func() map[string][]byte {
			m := map[string][]byte{}
			for _, set := range sets {
				index := s.document(s.doc(q, set, "changelist-index.xml"))
				m[s.doc(q, set, "changelist-index.xml")] = index.octets
				for _, e := range append(index.entries, s.document(s.doc(q, set, "changedump.xml")).entries...) {
					m[e.Loc] = s.body(e.Loc)
				}
			}
			return m
		}
		want := lists()
		s.rebuild()
		s.settle()
		got := lists()
		for uri, octets := range want {
			if !bytes.Equal(got[uri], octets) {
				t.Errorf("at most %d: %s is another", max, uri)
			}
		}
		for _, set := range sets {
			m := newMirror(s, "jobs", set)
			m.since = q.Info().Created
			m.dumps()
			m.incremental(nil)
			m.compare(q)
		}
		if len(want) < 12 || len(got) != len(want) || len(s.problems) > 0 {
			t.Errorf("at most %d: %d documents, then %d, problems %q", max, len(want), len(got), s.problems)
		}
	}
}

// A period that has only phases closes no list.
func TestPhasesCloseNoList(t *testing.T) {
	now := time.Now()
	s := newSource(t, publisher.Options{Period: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1)
	must(t, s.pub.Tick(context.Background()))
	now = now.Add(2 * time.Hour)
	s.settle() // closes the list of the job
	want := s.tagged(q)
	s.phases(q, 4)
	now = now.Add(2 * time.Hour)
	s.settle()
	s.wantTagged("after a period", q, want)
	s.submitN(q, 1)
	now = now.Add(2 * time.Hour)
	s.settle()
	if lists := s.document(s.doc(q, "pending", "changelist-index.xml")).entries; len(lists) != 3 || !lists[1].From.Equal(lists[0].Until) {
		t.Errorf("got %+v", lists)
	}
}

// Who waits for the open list waits on while there are but phases.
func TestPhasesAnswerNobodyWhoWaits(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: dialect}, "jobs")
		q := s.queue("jobs")
		s.submitN(q, 1)
		url := s.doc(q, "replica", "changelist.xml")
		w := s.wait(context.Background(), url, s.tag(url), "wait=60")
		for range 5 {
			s.phases(q, 1)
			must(t, s.pub.Tick(context.Background()))
		}
		j := s.submitN(q, 1)[0]
		if body := read(t, s.tick(w)); !bytes.Contains(body, []byte("/payload/"+j.ID.String()+"<")) {
			t.Errorf("%v: answered before there was a change: %s", dialect, body)
		}
	}
}

// Nobody is notified of phases.
func TestPhasesAreNoNotification(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: dialect}, "jobs")
		q := s.queue("jobs")
		n := s.notifier()
		s.submitN(q, 1)
		s.settle()
		for set := range publisher.Set(2) {
			changes, documents := s.topicOf("jobs", set, "change-notification"), s.topicOf("jobs", set, "framework-notification")
			at, err := n.Latest(changes)
			must(t, err)
			stood, err := n.Latest(documents)
			must(t, err)
			s.phases(q, 3)
			must(t, s.pub.Tick(context.Background()))
			c, err := n.Content(changes, at)
			must(t, err)
			if c.Body != nil || c.More {
				t.Errorf("%v: of %v: %s", dialect, set, c.Body)
			}
			if now, err := n.Latest(documents); err != nil || now != stood {
				t.Errorf("%v: documents of %v: got %s, want %s, %v", dialect, set, now, stood, err)
			}
			j := s.submitN(q, 1)[0]
			c, err = n.Content(changes, c.Upto)
			must(t, err)
			if d := parse(t, c.Body); len(d.entries) != 1+int(set) || !strings.HasSuffix(d.entries[0].Loc, j.ID.String()) {
				t.Errorf("%v: of %v: got %+v, want the job alone", dialect, set, d.entries)
			}
			s.settle()
		}
	}
}

// No Resource Dump is made because of phases, nor is one dropped.
func TestPhasesWantNoResourceDump(t *testing.T) {
	now := time.Now()
	s := newSource(t, publisher.Options{DumpPeriod: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	dump := s.doc(q, "pending", "resourcedump.xml")
	s.phases(q, 2)
	s.settle()
	if got := s.get(dump).StatusCode; got != http.StatusNotFound {
		t.Errorf("before the first job: got %d", got)
	}
	s.submitN(q, 3)
	s.settle()
	want := s.body(dump)
	for range 3 {
		s.phases(q, 2)
		now = now.Add(2 * time.Hour)
		s.settle()
		must(t, s.pub.Publish(context.Background()))
		if got := s.body(dump); !bytes.Equal(got, want) {
			t.Errorf("got %s", got)
		}
	}
	s.submitN(q, 1)
	now = now.Add(2 * time.Hour)
	s.settle()
	if got := s.body(dump); bytes.Equal(got, want) {
		t.Error("no dump is made of what was submitted since")
	}
}
