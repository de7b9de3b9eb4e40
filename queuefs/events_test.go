package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
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
		if !reflect.DeepEqual(got[i], want[i]) {
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

// TestEventsAreTheSameWhenOpenedAgain has events of all kinds, and then of other
// hands while the home is closed.
func TestEventsAreTheSameWhenOpenedAgain(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	allKinds(t, s, q)
	want := eventsOf(t, q, 0)
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

	job := "/j000000000005"
	text, err := os.ReadFile(dir + "/queues/jobs/pending" + job)
	must(t, err)
	text = append(text, "mediaType: "+strings.Repeat("m", 70_000)+"\n"...) // no submitter could give it
	must(t, os.WriteFile(dir+"/queues/jobs/deleted"+job, text, 0o666))
	must(t, os.Remove(dir+"/queues/jobs/pending"+job))
	last := q.Seq()
	s, q = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if q.Seq() != last+1 {
		t.Errorf("got %d events of other hands", q.Seq()-last)
	}
	sameEvents(t, eventsOf(t, q, 0)[:last], want)
}

// TestEventsCloseAndFarApart reads events whose records are neighbours in the
// journal, or have large payloads between them.
func TestEventsCloseAndFarApart(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for large := range 1 << 6 {
		after := q.Seq()
		for i := range 6 {
			size := 1 + large>>i&1*70_000
			submit(t, q, queuefs.Meta{MediaType: fmt.Sprint("x/", i)}, strings.Repeat("x", size))
		}
		events := eventsOf(t, q, after)
		for i, e := range events {
			if e.Payload.Type != fmt.Sprint("x/", i) || e.Seq != after+queuefs.Seq(i+1) {
				t.Errorf("%06b: got %+v", large, e)
			}
		}
		some, err := q.Events(after+2, 3)
		must(t, err)
		sameEvents(t, some, events[2:5])
	}
}

// TestAQueueMadeAgainHasNoFormerEvents removes a queue and makes one of its name.
func TestAQueueMadeAgainHasNoFormerEvents(t *testing.T) {
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
	if _, err := again.Events(last-1, 1); !errors.Is(err, queuefs.ErrGone) {
		t.Errorf("events of the former queue: got %v", err)
	}
	got := eventsOf(t, again, last)
	if len(got) != 1 || got[0].Seq != last+1 || got[0].Kind != queuefs.Submit {
		t.Errorf("got %+v", got)
	}
}

// TestFollowersOfManyCommitters follows queues, closely and from far behind,
// while many change them.
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
				}
			})
		}
	}
	all.Wait()
	for i, q := range queues {
		want := eventsOf(t, q, 0)
		for _, got := range seen[i] {
			if !slices.Equal(got, want) {
				t.Errorf("%s: a follower has seen other events than the journal has", q.ID())
			}
		}
	}
}
