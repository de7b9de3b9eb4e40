package publisher_test

import (
	"fmt"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// activity does a bit of everything to a queue.
func activity(s *source, q *queuefs.Queue, round int) {
	s.Helper()
	jobs := s.submitN(q, 5+round%3)
	done := s.consume(q, 3)
	s.remove(q, jobs[len(jobs)-1].ID)
	if round%2 == 0 {
		s.requeue(q, done[1].ID)
	}
	if round%3 == 0 {
		s.requeue(q, jobs[len(jobs)-1].ID)
	}
}

func TestMirrorFollowsFromBaselineAcrossClosedLists(t *testing.T) {
	t.Parallel()
	limits := []int{0, 3, 20}
	if long.On() {
		limits = []int{0, 2, 3, 7, 20}
	}
	for _, max := range limits {
		for _, set := range []string{"pending", "replica"} {
			t.Run(fmt.Sprintf("%s at most %d", set, max), func(t *testing.T) {
				s := newSource(t, publisher.Options{MaxEntries: max}, "jobs")
				q := s.queue("jobs")
				fromNothing := newMirror(s, "jobs", set)
				fromNothing.baseline()
				activity(s, q, 0)
				late := newMirror(s, "jobs", set)
				late.baseline()
				for round := range 8 {
					activity(s, q, round)
					if round%2 == 1 {
						s.settle()
					}
					fromNothing.incremental(nil)
					fromNothing.compare(q)
					late.incremental(nil)
					late.compare(q)
				}
				again := newMirror(s, "jobs", set)
				again.baseline()
				again.compare(q)
				if len(s.problems) > 0 {
					t.Errorf("problems: %q", s.problems)
				}
			})
		}
	}
}

func TestChangeListReplaysThePendingSetAfterEveryEvent(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 4}, "jobs")
	q := s.queue("jobs")
	var want []map[queuefs.JobID]bool // pending jobs after each event
	pending := map[queuefs.JobID]bool{}
	for round := range 6 {
		activity(s, q, round)
	}
	events, err := q.Events(0, 1000)
	must(t, err)
	for _, ev := range events {
		if ev.To == queuefs.Pending {
			pending[ev.Job] = true
		} else {
			delete(pending, ev.Job)
		}
		now := map[queuefs.JobID]bool{}
		for id := range pending {
			now[id] = true
		}
		want = append(want, now)
	}
	m := newMirror(s, "jobs", "pending")
	m.since = q.Info().Created
	var seq uint64
	m.incremental(func(e *sitemap.Entry) {
		if e.Seq != seq+1 || e.Event != events[e.Seq-1].Kind.String() || !e.DateTime.Equal(events[e.Seq-1].Time) {
			t.Errorf("after event %d comes %d %s at %v, the queue has %+v", seq, e.Seq, e.Event, e.DateTime, events[e.Seq-1])
		}
		seq = e.Seq
		// The contents may be of later: count names only.
		if e.Change != sitemap.Deleted {
			m.files[e.Loc] = "there"
		}
		if got := len(m.files); got != len(want[seq-1]) {
			t.Errorf("after event %d: %d pending, want %d", seq, got, len(want[seq-1]))
		}
		for id := range want[seq-1] {
			if m.files[base+"/queues/jobs/payload/"+id.String()] == "" {
				t.Errorf("after event %d: %s is missing", seq, id)
			}
		}
	})
	if seq != uint64(len(events)) {
		t.Errorf("last event %d, want %d", seq, len(events))
	}
}

func TestMirrorFollowsByChangeDumps(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"pending", "replica"} {
		for _, o := range []publisher.Options{{MaxEntries: 9}, {MaxEntries: 30, MaxPackage: 100}, {MaxEntries: 30, MaxPackage: 1}} {
			t.Run(fmt.Sprintf("%s %d %d", set, o.MaxEntries, o.MaxPackage), func(t *testing.T) {
				s := newSource(t, o, "jobs")
				q := s.queue("jobs")
				m := newMirror(s, "jobs", set)
				m.baseline()
				packages := 0
				for round := range 9 {
					activity(s, q, round)
					s.settle()
					packages += m.dumps()
					fetched := newMirror(s, "jobs", set)
					fetched.since, fetched.files = m.since, m.files
					if round%4 == 3 {
						fetched.incremental(nil)
						fetched.compare(q)
						m.since = fetched.since
					}
				}
				if packages < 3 {
					t.Errorf("%d packages", packages)
				}
				if len(s.problems) > 0 {
					t.Errorf("problems: %q", s.problems)
				}
			})
		}
	}
}

func TestDocumentsAreValid(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs", "a^20name,with=signs+", "empty")
	for _, id := range []string{"jobs", "a^20name,with=signs+"} {
		q := s.queue(id)
		for round := range 6 {
			activity(s, q, round)
		}
	}
	s.submitN(s.queue("jobs"), 30)
	s.settle()
	root := base + "/.well-known/resourcesync"
	v.add(s.document(root))
	for _, list := range s.document(root).entries {
		d := s.document(list.Loc)
		v.add(d)
		for _, c := range d.entries {
			d := s.document(c.Loc)
			v.add(d)
			for _, e := range d.entries {
				switch {
				case d.root == sitemap.SitemapIndex:
					v.add(s.document(e.Loc))
				case c.Capability == sitemap.ChangeDump:
					m, _ := openPackage(&mirror{source: s}, s.body(e.Loc))
					v.add(m)
				}
			}
		}
	}
	v.check()
}
