package uws_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
)

// Clients make, upload, follow and abort jobs of a queue that somebody removes
// whenever he may, and makes again. No job is lost that is PENDING.
func TestQueueGoesAndComesUnderItsClients(t *testing.T) {
	w := newWorld(t, "")
	ctx := context.Background()
	working, end := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var lives atomic.Int64
	turn, done := make(chan bool, 2), make(chan bool, 2) // a life each
	for _, upload := range []bool{false, true} {
		clients.Go(func() {
			body, header := "a=1", []string{}
			if upload {
				var mediaType string
				body, mediaType = parts(t, map[string]string{"file": strings.Repeat("x", 5000)}, "a", "1")
				header = []string{"Content-Type", mediaType}
			}
			for range turn {
				if w.comeAndGo(body, header) {
					lives.Add(1)
				}
				done <- true
			}
		})
	}
	ticking := make(chan bool)
	go func() {
		defer close(ticking)
		for working.Err() == nil {
			if err := w.h.Tick(ctx); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	}()
	refused, removed, seen := 0, 0, int64(0)
	for n := 0; removed < 10 && !t.Failed(); n++ {
		turn <- true
		if n%3 > 0 { // else one client at a time, so that there may be no job
			turn <- true
			<-done
		}
		w.cull()
		err := w.svc.RemoveQueue(ctx, "q") // while a client is at it
		<-done
		if errors.Is(err, queuefs.ErrNotEmpty) && lives.Load() >= seen+3 {
			refused++
			w.cull()
			err = w.svc.RemoveQueue(ctx, "q")
		}
		if errors.Is(err, queuefs.ErrNotEmpty) {
			continue
		}
		if err == nil {
			_, err = w.svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1})
			removed, seen = removed+1, lives.Load()
		}
		if err != nil {
			t.Error(err)
		}
	}
	close(turn)
	end()
	clients.Wait()
	<-ticking
	w.cull()
	if err := w.svc.RemoveQueue(ctx, "q"); err != nil {
		t.Error(err)
	}
	if got := w.spooled(); len(got) != 0 {
		t.Errorf("got %v left", got)
	}
	t.Logf("%d removals refused", refused)
}

// comeAndGo is the life of a job that is not started; false if there was no
// queue for it.
func (w *world) comeAndGo(body string, header []string) bool {
	send := func(method, where, body string, fine ...int) {
		status, _, text := w.do(method, where, body)
		for _, s := range fine {
			if s == status {
				return
			}
		}
		w.t.Errorf("%s %s %s: got %d %s, want %v", method, where, body, status, text, fine)
	}
	status, job, text := w.do("POST", "async", body, header...)
	if status == 404 {
		return false
	}
	if status != 303 {
		w.t.Errorf("made: got %d %s", status, text)
		return false
	}
	send("GET", job, "", 200)
	send("GET", "async", "", 200)
	var followed sync.WaitGroup
	followed.Go(func() { send("GET", job+"?WAIT=-1", "", 200, 404) })
	send("POST", job+"/phase", "PHASE=ABORT", 303)
	followed.Wait()
	send("DELETE", job, "", 303, 404)
	return true
}
