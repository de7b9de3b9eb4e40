package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs"
	homecheck "cutie/queuefs/check"
	queuedir "cutie/queuefs/dir"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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

// A script is a queue whose history is given, for kinds of events that a
// queue does not have often. Payloads of lost jobs are gone.
type script struct {
	*queuefs.Queue
	events []job.Event
	lost   map[job.ID]bool
}

func (q *script) Seq() job.Seq { return job.Seq(len(q.events)) }

func (q *script) State() ledger.State {
	st := q.Queue.State()
	st.Seq = q.Seq()
	return st
}

func (q *script) Events(after job.Seq, max int) ([]job.Event, error) {
	events := q.events[min(int(after), len(q.events)):]
	return events[:min(len(events), max)], nil
}

// Journaled has no parts: they are found in the queue, if at all.
func (q *script) Journaled(after job.Seq, max, _ int) (out []ledger.Journaled, _ error) {
	events, err := q.Events(after, max)
	for _, e := range events {
		out = append(out, ledger.Journaled{Event: e})
	}
	return out, err
}

func (q *script) Payload(id job.ID) (*queuedir.Payload, error) {
	if q.lost[id] {
		return nil, ledger.ErrNoJob
	}
	return q.Queue.Payload(id)
}

func (q *script) Pass() queuefs.Pass { return q }

// add makes an event of a job that the queue below has.
func (q *script) add(kind job.Kind, id job.ID, from, to job.Status) {
	real, _ := q.Queue.Events(job.Seq(id)-1, 1)
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
	return nil, ledger.ErrNoQueue
}

// newScript returns a source with n jobs submitted, and its scripted queue.
func newScript(t *testing.T, o publisher.Options, n int) (*source, *script) {
	s := newSource(t, o, "jobs")
	q := &script{Queue: s.queue("jobs"), lost: map[job.ID]bool{}}
	for _, j := range s.submitN(q.Queue, n) {
		q.add(job.Submit, j.ID, 0, job.Pending)
	}
	must(t, s.pub.Close())
	s.svc.Follow(nil)
	var err error
	s.pub, err = publisher.New(scripts{s.svc, q}, s.opts)
	must(t, err)
	return s, q
}

func TestEachEventBecomesItsEntries(t *testing.T) {
	const none, pending, consumed, deleted = job.Status(0), job.Pending, job.Consumed, job.Deleted
	for _, c := range []struct {
		kind             job.Kind
		from, to         job.Status
		pending, replica string
	}{
		{job.Submit, none, pending, "created payload", "created payload, created pending"},
		{job.Consume, pending, consumed, "deleted payload", "deleted pending, created consumed"},
		{job.Delete, pending, deleted, "deleted payload", "deleted pending, created deleted"},
		{job.Requeue, consumed, pending, "created payload", "deleted consumed, created pending"},
		{job.Requeue, deleted, pending, "created payload", "deleted deleted, created pending"},
		{job.Update, pending, pending, "", "updated pending"},
		{job.Update, consumed, consumed, "", "updated consumed"},
		{job.Hold, pending, pending, "", "updated pending"},
		{job.Release, pending, pending, "", "updated pending"},
		{job.Extend, consumed, consumed, "", "updated consumed"},
		{job.Conclude, consumed, consumed, "", "updated consumed"},
		{job.Cull, consumed, none, "", "deleted consumed, deleted payload"},
		{job.Cull, pending, none, "deleted payload", "deleted pending, deleted payload"},
		{job.Submit, none, none, "", ""}, // nothing that is seen
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
		q.add(job.Submit, j.ID, 0, job.Pending)
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
		e.Seq, e.Job, e.Time = job.Seq(i), job.ID(i), first.Time.Add(time.Duration(i)*time.Second)
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

// promoted returns a home made of the directories of the queue jobs alone, with the changes
// after some time.
func promoted(s *source, changes []sitemap.Entry, from time.Time, damage func(dir string)) *source {
	s.Helper()
	return s.fork(func(c *source) {
		for _, name := range []string{"log", "resourcesync"} {
			must(c, os.RemoveAll(filepath.Join(c.dir, name)))
		}
		last := job.Seq(changes[len(changes)-1].Seq)
		_, err := homecheck.Home(c.dir, homecheck.Options{Rebuild: true, Last: map[string]homecheck.Last{"jobs": {Seq: last, Time: changes[len(changes)-1].DateTime}}})
		must(c, err)
		must(c, set.Inherit(c.dir, "jobs", &set.Inherited{Base: base + "/", From: from, First: job.Seq(changes[0].Seq), Last: last},
			func(add func(*sitemap.Entry) error) error {
				for i := range changes {
					e := changes[i]
					e.Links = nil
					if err := add(&e); err != nil {
						return err
					}
				}
				return nil
			}))
		if damage != nil {
			damage(filepath.Join(c.dir, "resourcesync", "jobs"))
		}
	})
}

// changesOf returns the entries of all Change Lists of the replica, and since when.
func changesOf(s *source) (all []sitemap.Entry, from time.Time) {
	s.Helper()
	d := newMirror(s, "jobs", "replica").capability(sitemap.ChangeList)
	for _, e := range d.entries {
		all = append(all, s.document(e.Loc).entries...)
	}
	return all, d.head.From
}

// A queue made of a copy publishes the lists of its original again, goes on with them, and a
// follower of the original needs nothing else.
func TestAQueueInheritsTheChangesOfItsOriginal(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	follower := newMirror(s, "jobs", "replica")
	follower.baseline()
	for round := range 3 {
		activity(s, q, round+1)
	}
	changes, from := changesOf(s)
	if changes[0].Seq != 1 {
		t.Fatalf("the index begins with event %d", changes[0].Seq)
	}
	want := changeDocumentsOf(s)
	s.close()

	c := promoted(s, changes, from, nil)
	sameDocuments(t, changeDocumentsOf(c), want)
	c.crash() // the cursor does not know yet
	sameDocuments(t, changeDocumentsOf(c), want)
	activity(c, c.queue("jobs"), 4)
	c.settle()
	c.reopen() // the cursor does
	follower.source = c
	follower.incremental(nil)
	follower.compare(c.queue("jobs"))
	if got, _ := changesOf(c); len(got) <= len(changes) || got[len(changes)].Seq != changes[len(changes)-1].Seq+1 {
		t.Errorf("the lists have %d changes, the original had %d", len(got), len(changes))
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "resourcesync", "jobs", "inherited*")); err != nil || len(left) > 0 {
		t.Errorf("%q are there still, %v", left, err)
	}
	if len(c.problems) > 0 {
		t.Errorf("problems: %q", c.problems)
	}
}

// The changes of a copy may begin after those of the original.
func TestAQueueInheritsTheLastChanges(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	follower := newMirror(s, "jobs", "replica")
	follower.baseline()
	since, before := follower.since, q.Seq()
	activity(s, q, 1)
	changes, _ := changesOf(s)
	for job.Seq(changes[0].Seq) <= before {
		changes = changes[1:]
	}
	s.close()
	c := promoted(s, changes, since, nil)
	follower.source = c
	follower.incremental(nil)
	follower.compare(c.queue("jobs"))
	if d := follower.capability(sitemap.ChangeList); !d.head.From.Equal(since) {
		t.Errorf("the lists begin with %v, want %v", d.head.From, since)
	}
}

// Damaged changes are not published: the lists begin after them, and say so.
func TestDamagedChangesAreNotInherited(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 20}, "jobs")
	activity(s, s.queue("jobs"), 0)
	changes, from := changesOf(s)
	last := changes[len(changes)-1]
	s.close()
	for name, damage := range map[string]func(text []byte) []byte{
		"a bit": func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
		"cut":   func(text []byte) []byte { return text[:len(text)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			c := promoted(s, changes, from, func(dir string) {
				file := filepath.Join(dir, "inherited.gz")
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, os.WriteFile(file, damage(text), 0o600))
			})
			if got, since := changesOf(c); len(got) > 0 || !since.Equal(last.Changed()) {
				t.Errorf("got %d changes since %v", len(got), since)
			}
			if !strings.Contains(strings.Join(c.problems, "\n"), "changes of the original") {
				t.Errorf("problems: %q", c.problems)
			}
			activity(c, c.queue("jobs"), 1)
			if got, _ := changesOf(c); len(got) == 0 || got[0].Seq != last.Seq+1 {
				t.Errorf("the lists do not go on: %v", got)
			}
		})
	}
}
