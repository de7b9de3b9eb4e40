package check_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// A queue made of its files goes on after the last event that it had elsewhere, also if
// no job file is as late, and the clock here is behind.
func TestEventsOfARebuiltQueueAreAfterThoseElsewhere(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test", BaseURI: "https://cutie.example.org/", Identifier: "x"}))
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	open := func() *queuefs.Service {
		s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, Now: func() time.Time { return clock }})
		must(t, err)
		return s
	}
	s := open()
	q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "a", CullingSize: -1, CullingAge: -1})
	must(t, err)
	submit(t, q, queuefs.Meta{}, "payload")
	clock = clock.Add(time.Hour)
	_, err = s.SetQueue(ctx, "a", func(i *queuefs.QueueInfo) error { i.Description = "new"; return nil })
	must(t, err)
	was := q.State()
	must(t, s.Close())

	must(t, os.RemoveAll(filepath.Join(dir, "log")))
	clock = clock.Add(-30 * time.Minute)
	_, err = check.Home(dir, check.Options{Rebuild: true, Segment: segment, Now: func() time.Time { return clock },
		Last: map[string]check.Last{"a": {Seq: was.Seq, Time: was.LastEvent}}})
	must(t, err)
	s = open()
	defer s.Close()
	q, err = s.Queue("a")
	must(t, err)
	if got := q.State(); got.Seq != was.Seq || !got.LastEvent.Equal(was.LastEvent) {
		t.Errorf("the last event is %d of %v, elsewhere it was %d of %v", got.Seq, got.LastEvent, was.Seq, was.LastEvent)
	}
	j, err := q.Delete(ctx, 1)
	must(t, err)
	if got := q.State(); got.Seq != was.Seq+1 || !got.LastEvent.After(was.LastEvent) || !j.Deleted.After(was.LastEvent) {
		t.Errorf("job %v was deleted by event %d of %v at %v, after event %d of %v", j.ID, got.Seq, got.LastEvent, j.Deleted, was.Seq, was.LastEvent)
	}
}
