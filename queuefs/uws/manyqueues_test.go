package uws_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
)

// Queues that no client of UWS asks about cost a Tick nothing; mistakes in their
// settings are reported all the same, for as long as they are there.
func TestQueuesAtRestCostATickNothing(t *testing.T) {
	w := newWorld(t, "")
	for i := range 20 {
		id := fmt.Sprintf("q%d", i)
		if _, err := w.svc.CreateQueue(context.Background(), queuefs.QueueInfo{ID: id, CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	w.take0()
	w.tick()
	if got := w.h.Lists(); got != 0 {
		t.Errorf("got %d lists after a Tick, want 0", got)
	}
	w.want(200, "GET", w.srv.URL+"/uws/q7/async", "")
	w.tick()
	if got := w.h.Lists(); got != 1 {
		t.Errorf("got %d lists after a request, want 1", got)
	}
	if err := w.svc.RemoveQueue(context.Background(), "q7"); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if got := w.h.Lists(); got != 0 {
		t.Errorf("got %d lists after the removal of the queue, want 0", got)
	}
	name := filepath.Join(w.dir, "queues", "q3", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, append(text, "uwsArchive: perhaps\n"...), 0o600)
	}
	for range 2 { // a file must hold still between two calls
		if err == nil {
			_, err = w.svc.Reload(context.Background())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	w.tick()
	if q, err := w.svc.Queue("q3"); err != nil || !strings.Contains(q.State().Damage, "uwsArchive") {
		t.Errorf("got error %v, want a state that names uwsArchive", err)
	}
}

// take0 submits a job to the first of the queues and takes it, without a lease.
func (w *world) take0() {
	w.t.Helper()
	q, err := w.svc.Queue("q0")
	if err != nil {
		w.t.Fatal(err)
	}
	sub := q.Begin()
	defer sub.Discard()
	if _, err = sub.Add(queuefs.Meta{}); err == nil {
		_, err = sub.Commit(context.Background())
	}
	if err == nil {
		_, err = q.Next(context.Background(), "worker")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
