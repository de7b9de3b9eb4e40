package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
)

// eventsOf returns all events of a queue after the given one.
func eventsOf(t testing.TB, q *queuefs.Queue, after queuefs.Seq) []queuefs.Event {
	t.Helper()
	events, err := q.Events(after, 1<<30)
	if err != nil || len(events) != int(q.Seq()-after) {
		t.Fatalf("%s: got %d events after %d of %d, %v", q.ID(), len(events), after, q.Seq(), err)
	}
	return events
}

// sameEvents compares events in all they say.
func sameEvents(t testing.TB, got, want []queuefs.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d events, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

// allKinds has something of every kind happen in a queue.
func allKinds(t *testing.T, s *queuefs.Service, q *queuefs.Queue) {
	t.Helper()
	submit(t, q, queuefs.Meta{MediaType: "text/plain", Sidecar: "x\ny"}, "one")
	submit(t, q, queuefs.Meta{}, "")
	submit(t, q, queuefs.Meta{MediaType: strings.Repeat("m", 1024)}, strings.Repeat("large", 50_000))
	fillQueue(t, q, 4, 10)
	text := "said"
	_, err := q.Describe(ctx, 1, queuefs.Description{Sidecar: &text})
	must(t, err)
	_, err = q.Hold(ctx, 1, "wait")
	must(t, err)
	_, err = q.Release(ctx, 1)
	must(t, err)
	taken := takeOne(t, q, time.Hour)
	_, err = q.Extend(ctx, 1, taken.Token, 2*time.Hour)
	must(t, err)
	must(t, putResult(q, 1, taken.Token, "first", "one"))
	_, err = q.Conclude(ctx, 1, taken.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no luck"})
	must(t, err)
	_, err = q.RequeueEnd(ctx, 1)
	must(t, err)
	_, err = q.Requeue(ctx, 1)
	must(t, err)
	_, err = q.NextN(ctx, "w", 3)
	must(t, err)
	_, err = q.Delete(ctx, 4)
	must(t, err)
	tellPhase(t, q, "u1", "PENDING")
	tellPhase(t, q, strings.Repeat("~", 128), strings.Repeat("P", 32))
	tellPhase(t, q, "u1", "")
	if got := cullQueue(t, s, q.ID()); len(got) != 4 { // an update of queue-info.txt first
		t.Fatalf("culled %v", got)
	}
}

// TestEventsInMemoryAreThoseOfTheJournal compares events of all kinds as they
// are in memory with what the journal has of them.
func TestEventsInMemoryAreThoseOfTheJournal(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	allKinds(t, s, q)
	compare := func(after queuefs.Seq) []queuefs.Event {
		t.Helper()
		for seq := after + 1; seq <= q.Seq(); seq++ {
			if !q.Remembers(seq) {
				t.Errorf("event %d is not in memory", seq)
			}
		}
		got := eventsOf(t, q, after)
		s.ForgetEvents()
		if q.Remembers(after + 1) {
			t.Error("what is forgotten is in memory")
		}
		want := eventsOf(t, q, after)
		sameEvents(t, got, want)
		return want
	}
	want := compare(0)
	seen := map[queuefs.Kind]bool{}
	for _, e := range want {
		seen[e.Kind] = true
	}
	for k := queuefs.Submit; k <= queuefs.Phase; k++ {
		if !seen[k] {
			t.Errorf("there was no %v", k)
		}
	}
	closeHome(t, s)

	// What other hands do meanwhile, with a media type that no submitter could
	// give, becomes events when the home is opened. The others are not replayed
	// into the memory.
	job := "/j000000000005"
	text, err := os.ReadFile(dir + "/queues/jobs/pending" + job)
	must(t, err)
	text = append(text, "mediaType: "+strings.Repeat("m", 70_000)+"\n"...)
	must(t, os.WriteFile(dir+"/queues/jobs/deleted"+job, text, 0o666))
	must(t, os.Remove(dir+"/queues/jobs/pending"+job))
	last := q.Seq()
	s, q = openHome(t, dir, queuefs.Options{})
	if q.Seq() != last+1 {
		t.Errorf("got %d events of other hands", q.Seq()-last)
	}
	if q.Remembers(last) {
		t.Error("an event was replayed into the memory")
	}
	compare(last)
	sameEvents(t, eventsOf(t, q, 0)[:last], want)
	closeHome(t, s)
}

// TestWhoFollowsCloselyReadsNoFile empties the files of the journal under an
// open home: what was committed last is answered all the same.
func TestWhoFollowsCloselyReadsNoFile(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	allKinds(t, s, q)
	want := eventsOf(t, q, 0)
	journal := map[string][]byte{}
	for _, name := range segments(t, dir) {
		data, err := os.ReadFile(name)
		must(t, err)
		journal[name] = data
		must(t, os.Truncate(name, 0))
	}
	sameEvents(t, eventsOf(t, q, 0), want)
	for _, n := range []int{1, 3} {
		events, err := q.Events(q.Seq()-3, n)
		must(t, err)
		sameEvents(t, events, want[len(want)-3:][:n])
	}
	s.ForgetEvents()
	if events, err := q.Events(q.Seq()-1, 1); err == nil {
		t.Errorf("read %+v from a journal that is empty", events)
	}
	for name, data := range journal {
		must(t, os.WriteFile(name, data, 0o666))
	}
	sameEvents(t, eventsOf(t, q, 0), want)
	closeHome(t, s)
}

// TestEventsPartlyInMemory reads events of which any are in memory and the
// others in the journal, close to each other or far apart.
func TestEventsPartlyInMemory(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	sizes := []int{1, 1, 70_000, 1, 70_000, 70_000, 1}
	for missing := range 1 << len(sizes) {
		after := q.Seq()
		for i, size := range sizes {
			submit(t, q, queuefs.Meta{MediaType: fmt.Sprint("x/", i)}, strings.Repeat("x", size))
		}
		want := eventsOf(t, q, after)
		for i := range sizes {
			if missing>>i&1 != 0 {
				q.ForgetEvent(after + queuefs.Seq(i+1))
			}
		}
		sameEvents(t, eventsOf(t, q, after), want)
		some, err := q.Events(after+2, 3)
		must(t, err)
		sameEvents(t, some, want[2:5])
		if t.Failed() {
			t.Fatalf("without %07b", missing)
		}
	}
}

// TestMoreEventsThanFitInMemory has two queues drive the events of each other,
// and their own, out of memory.
func TestMoreEventsThanFitInMemory(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 16 << 20})
	defer closeHome(t, s)
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	must(t, err)
	queues := []*queuefs.Queue{q, other}
	got := make([][]queuefs.Event, len(queues)) // as it was read closely
	inMemory := func() (n int) {
		for _, q := range queues {
			for seq := range q.Seq() {
				if q.Remembers(seq + 1) {
					n++
				}
			}
		}
		return n
	}
	for range 7 {
		for i, q := range queues {
			fillQueue(t, q, 700, 1)
			got[i] = append(got[i], eventsOf(t, q, q.Seq()-700)...)
		}
	}
	if n := inMemory(); n == 0 || n > queuefs.RecentEvents {
		t.Errorf("%d events are in memory, of %d at the most", n, queuefs.RecentEvents)
	}
	for i, q := range queues {
		sameEvents(t, eventsOf(t, q, 0), got[i])
	}
	s.ForgetEvents()
	for i, q := range queues {
		sameEvents(t, eventsOf(t, q, 0), got[i])
	}
}

// TestAQueueMadeAgainRemembersNothing removes a queue and makes one of its name.
func TestAQueueMadeAgainRemembersNothing(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{}, "x")
	submit(t, q, queuefs.Meta{}, "y")
	_, err := q.NextN(ctx, "w", 2)
	must(t, err)
	cullQueue(t, s, "jobs")
	last := q.Seq()
	must(t, s.RemoveQueue(ctx, "jobs"))
	again, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
	must(t, err)
	submit(t, again, queuefs.Meta{}, "z")
	for seq := range last {
		if again.Remembers(seq + 1) {
			t.Errorf("it remembers event %d of the former queue", seq+1)
		}
	}
	if _, err := again.Events(last-1, 1); !errors.Is(err, queuefs.ErrGone) {
		t.Errorf("events of the former queue: got %v", err)
	}
	got := eventsOf(t, again, last)
	s.ForgetEvents()
	sameEvents(t, got, eventsOf(t, again, last))
	if len(got) != 1 || got[0].Seq != last+1 || got[0].Kind != queuefs.Submit {
		t.Errorf("got %+v", got)
	}
}

// TestFollowersOfManyCommitters follows queues, closely and from far behind,
// while many change them and events are forgotten.
func TestFollowersOfManyCommitters(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: 16 << 20})
	defer closeHome(t, s)
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	must(t, err)
	queues := []*queuefs.Queue{q, other}
	const committers, each = 4, 60
	done, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	follow := func(q *queuefs.Queue, atOnce int) (events []queuefs.Event) {
		for len(events) < committers*each {
			if err := q.Wait(done, queuefs.Seq(len(events))); err != nil {
				t.Error(err)
				break
			}
			some, err := q.Events(queuefs.Seq(len(events)), atOnce)
			if err != nil {
				t.Error(err)
				break
			}
			events = append(events, some...)
		}
		return events
	}
	var all sync.WaitGroup
	seen := make([][3][]queuefs.Event, len(queues))
	for i, q := range queues {
		for n := range seen[i] {
			all.Go(func() { seen[i][n] = follow(q, 1+20*n) })
		}
		for n := range committers {
			all.Go(func() {
				for k := range each {
					submit(t, q, queuefs.Meta{MediaType: fmt.Sprintf("x/%d-%d", n, k)}, "x")
					q.ForgetEvent(q.Seq() - queuefs.Seq(k%3))
				}
			})
		}
	}
	all.Wait()
	s.ForgetEvents()
	for i, q := range queues {
		want := eventsOf(t, q, 0)
		for _, got := range seen[i] {
			if !slices.Equal(got, want) {
				t.Errorf("%s: a follower has seen other events than the journal has", q.ID())
			}
		}
	}
}
