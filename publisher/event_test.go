package publisher_test

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A script is a queue whose history is given, for kinds of events that a
// queue does not have often. Payloads of lost jobs are gone.
type script struct {
	*queuefs.Queue
	events []queuefs.Event
	lost   map[queuefs.JobID]bool
}

func (q *script) Seq() queuefs.Seq { return queuefs.Seq(len(q.events)) }

func (q *script) State() queuefs.QueueState {
	st := q.Queue.State()
	st.Seq = q.Seq()
	return st
}

func (q *script) Events(after queuefs.Seq, max int) ([]queuefs.Event, error) {
	events := q.events[min(int(after), len(q.events)):]
	return events[:min(len(events), max)], nil
}

// Journaled has no parts: they are found in the queue, if at all.
func (q *script) Journaled(after queuefs.Seq, max, _ int) (out []queuefs.Journaled, _ error) {
	events, err := q.Events(after, max)
	for _, e := range events {
		out = append(out, queuefs.Journaled{Event: e})
	}
	return out, err
}

func (q *script) Payload(id queuefs.JobID) (*queuefs.Payload, error) {
	if q.lost[id] {
		return nil, queuefs.ErrNoJob
	}
	return q.Queue.Payload(id)
}

func (q *script) Pass() queuefs.Pass { return q }

// add makes an event of a job that the queue below has.
func (q *script) add(kind queuefs.Kind, id queuefs.JobID, from, to queuefs.Status) {
	real, _ := q.Queue.Events(queuefs.Seq(id)-1, 1)
	e := real[0]
	e.Seq, e.Time = q.Seq()+1, e.Time.Add(time.Duration(len(q.events)+1)*time.Second)
	e.Kind, e.From, e.To = kind, from, to
	q.events = append(q.events, e)
}

type scripts struct {
	*queuefs.Service
	q *script
}

func (s scripts) Queues() []*script { return []*script{s.q} }
func (s scripts) Queue(name string) (*script, error) {
	if name == s.q.ID() {
		return s.q, nil
	}
	return nil, queuefs.ErrNoQueue
}

// newScript returns a source with n jobs submitted, and its scripted queue.
func newScript(t *testing.T, o publisher.Options, n int) (*source, *script) {
	s := newSource(t, o, "jobs")
	q := &script{Queue: s.queue("jobs"), lost: map[queuefs.JobID]bool{}}
	for _, j := range s.submitN(q.Queue, n) {
		q.add(queuefs.Submit, j.ID, 0, queuefs.Pending)
	}
	must(t, s.pub.Close())
	s.svc.Follow(nil)
	var err error
	s.pub, err = publisher.New(scripts{s.svc, q}, s.opts)
	must(t, err)
	return s, q
}

func TestEachEventBecomesItsEntries(t *testing.T) {
	const none, pending, consumed, deleted = queuefs.Status(0), queuefs.Pending, queuefs.Consumed, queuefs.Deleted
	for _, c := range []struct {
		kind             queuefs.Kind
		from, to         queuefs.Status
		pending, replica string
	}{
		{queuefs.Submit, none, pending, "created payload", "created payload, created pending"},
		{queuefs.Consume, pending, consumed, "deleted payload", "deleted pending, created consumed"},
		{queuefs.Delete, pending, deleted, "deleted payload", "deleted pending, created deleted"},
		{queuefs.Requeue, consumed, pending, "created payload", "deleted consumed, created pending"},
		{queuefs.Requeue, deleted, pending, "created payload", "deleted deleted, created pending"},
		{queuefs.Update, pending, pending, "", "updated pending"},
		{queuefs.Update, consumed, consumed, "", "updated consumed"},
		{queuefs.Hold, pending, pending, "", "updated pending"},
		{queuefs.Release, pending, pending, "", "updated pending"},
		{queuefs.Extend, consumed, consumed, "", "updated consumed"},
		{queuefs.Conclude, consumed, consumed, "", "updated consumed"},
		{queuefs.Cull, consumed, none, "", "deleted consumed, deleted payload"},
		{queuefs.Cull, pending, none, "deleted payload", "deleted pending, deleted payload"},
		{queuefs.Submit, none, none, "", ""}, // nothing that is seen
	} {
		s, q := newScript(t, publisher.Options{}, 1)
		q.events = nil
		q.add(c.kind, 1, c.from, c.to)
		for set, want := range map[string]string{"pending": c.pending, "replica": c.replica} {
			d := s.document(s.doc(q.Queue, set, "changelist.xml"))
			if set == "replica" { // it is the first event of the queue
				want = strings.TrimSuffix("created jobs, "+want, ", ")
			}
			var got []string
			for _, e := range d.entries {
				parts := strings.Split(e.Loc, "/")
				got = append(got, string(e.Change)+" "+parts[len(parts)-2])
				ev := q.events[0]
				if e.Event != c.kind.String() || e.Seq != 1 || !e.DateTime.Equal(ev.Time) || e.LastMod.IsZero() {
					t.Errorf("%v in %s: %+v", c.kind, set, e)
				}
				if gone := e.Change == sitemap.Deleted; gone != (len(e.Hashes) == 0) || gone != (e.Length < 0) || gone != (e.Type == "") {
					t.Errorf("%v in %s: %+v", c.kind, set, e)
				}
				payload := base + "/queues/jobs/payload/j000000000001"
				var links []sitemap.Link
				switch {
				case e.Loc == payload && c.to != none && (set == "pending" || e.Change == sitemap.Created):
					links = []sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: base + "/state/jobs/j000000000001"}}
					if set == "pending" && e.Change == sitemap.Created {
						links = append(links, sitemap.Link{Rel: sitemap.RelCollection, Href: base + "/state/jobs"})
					}
				case e.Loc == base+"/queues/jobs/queue-info.txt":
				case e.Loc != payload && e.Change != sitemap.Deleted:
					links = []sitemap.Link{{Rel: sitemap.RelDescribes, Href: payload},
						{Rel: sitemap.RelAlternate, Href: base + "/state/jobs/j000000000001"}}
				}
				if !reflect.DeepEqual(e.Links, links) {
					t.Errorf("%v in %s: %s %s has links %+v, want %+v", c.kind, set, e.Change, e.Loc, e.Links, links)
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%v from %v to %v in %s: got %q, want %q", c.kind, c.from, c.to, set, got, want)
			}
		}
	}
}

func TestALostPayloadLeavesAGapInTheDump(t *testing.T) {
	s, q := newScript(t, publisher.Options{MaxEntries: 4}, 16)
	s.settle()
	before := s.document(s.doc(q.Queue, "pending", "changedump.xml"))
	if len(before.entries) != 3 {
		t.Fatalf("%d packages", len(before.entries))
	}
	jobs := s.submitN(q.Queue, 9)
	q.lost[jobs[1].ID] = true
	for _, j := range jobs {
		q.add(queuefs.Submit, j.ID, 0, queuefs.Pending)
	}
	s.settle()
	lists := newMirror(s, "jobs", "pending").lists()
	after := s.document(s.doc(q.Queue, "pending", "changedump.xml"))
	// Lists of four: 1 to 12 are packed, 13 to 16 too, 17 to 20 cannot be.
	if len(after.entries) != 1 || !after.head.From.Equal(lists[5].From) || !after.entries[0].Until.Equal(lists[5].Until) {
		t.Errorf("after the gap: from %v %+v; lists %+v", after.head.From, after.entries, lists)
	}
	if len(s.problems) != 2 || !strings.Contains(s.problems[0], jobs[1].ID.String()) {
		t.Errorf("problems: %q", s.problems) // one for each set
	}
	s.body(before.entries[0].Loc) // stays
	must(t, s.pub.Tick(context.Background()))
	if len(s.problems) != 2 {
		t.Errorf("tried again: %q", s.problems)
	}
}

func TestADamagedPayloadIsNotPacked(t *testing.T) {
	s, q := newScript(t, publisher.Options{MaxEntries: 4}, 9)
	q.events[2].Payload.SHA256[7] ^= 1
	s.settle()
	if d := s.document(s.doc(q.Queue, "pending", "changedump.xml")); len(d.entries) != 1 || d.entries[0].From.Before(q.events[3].Time) {
		t.Errorf("packages: %+v", d.entries)
	}
	if len(s.problems) == 0 {
		t.Error("nothing is reported")
	}
}

func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	s, q := newScript(t, publisher.Options{}, 1)
	const n = 50_150
	first := q.events[0]
	for i := 2; i <= n; i++ {
		e := first
		e.Seq, e.Job, e.Time = queuefs.Seq(i), queuefs.JobID(i), first.Time.Add(time.Duration(i)*time.Second)
		q.events = append(q.events, e)
	}
	lists := parse(t, s.body(s.doc(q.Queue, "pending", "changelist-index.xml"))).entries
	if len(lists) != 2 {
		t.Fatalf("%d lists", len(lists))
	}
	for i, want := range []int{50_000, n - 50_000} {
		if got := bytes.Count(s.body(lists[i].Loc), []byte("<loc>")); got != want {
			t.Errorf("list %d has %d entries, want %d", i, got, want)
		}
	}
}
