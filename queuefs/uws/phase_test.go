package uws_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/testdata/long"
)

// told returns the kinds of the events of the queue after one.
func (w *world) told(after job.Seq) (all []string) {
	w.t.Helper()
	events, err := w.q.Events(after, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		all = append(all, e.Kind.String())
	}
	return all
}

// A ledger has what a client knows of its jobs: the phases each of them may be
// in, several after a request that was not acknowledged. "" is no job.
type ledger map[string][]string

// A life does to jobs all that UWS does beside what consumers do. do makes a
// request for a job, which leads to the phase, and returns where the job is.
func life(do func(job, phase, method, part, body string) string, tick func()) {
	a := do("", "PENDING", "POST", "", "a=1")
	b := do("", "PENDING", "POST", "", "b=1&c=1")
	do(a, "ABORTED", "POST", "/phase", "PHASE=ABORT")
	do(b, "PENDING", "POST", "/parameters", "b=2")
	do(b, "QUEUED", "POST", "/phase", "PHASE=RUN")
	do("", "QUEUED", "POST", "", "c=1&PHASE=RUN")
	do(a, "", "DELETE", "", "")
	d := do("", "PENDING", "POST", "", "d=1")
	do(b, "", "DELETE", "", "")
	tick()
	do(d, "", "DELETE", "", "")
	do("", "PENDING", "POST", "", "e=1")
}

// until returns the phases of a job while a request for another one is on its
// way. The work on a job ends before the job is destroyed.
func until(was []string, phase string) []string {
	may := append(slices.Clone(was), phase)
	if phase == "" {
		may = append(may, "ABORTED")
	}
	return may
}

// lead is do of a life that keeps a ledger.
func (w *world) lead(jobs ledger) func(job, phase, method, part, body string) string {
	return func(job, phase, method, part, body string) string {
		if job == "" && method != "POST" || job == "" && part != "" {
			return "" // of a job that was not made
		}
		if job != "" {
			jobs[job] = until(jobs[job], phase)
		}
		status, location, _ := w.do(method, "async"+strings.TrimSuffix("/"+job, "/")+part, body)
		if status != 303 {
			return job
		}
		if job == "" {
			job = idOf(location)
		}
		jobs[job] = []string{phase}
		return job
	}
}

// agree compares what clients know with what is there.
func (w *world) agree(when string, jobs ledger) {
	w.t.Helper()
	listed := ids(w.get("async"))
	for id, may := range jobs {
		status, _, phase := w.do("GET", "async/"+id+"/phase", "")
		if status == 404 {
			phase = ""
		}
		if !slices.Contains(may, phase) || status != 200 && status != 404 {
			w.t.Errorf("%s: job %s is %d %q, its client knows of %q", when, id, status, phase, may)
		}
		if n := len(slices.DeleteFunc(slices.Clone(listed), func(o string) bool { return o != id })); n != 1 && phase != "" || n != 0 && phase == "" {
			w.t.Errorf("%s: job %s, which is %q, is %d times in the list", when, id, phase, n)
		}
	}
	for _, id := range w.q.IDs(index.Filter{Status: job.Pending}) {
		cut, err := w.q.Job(id)
		if err != nil {
			w.t.Fatal(err)
		}
		in, err := w.q.Payload(id)
		if err != nil {
			w.t.Fatal(err)
		}
		buf := make([]byte, in.Size())
		if _, err := in.Read(buf); err != nil {
			w.t.Error(err)
		}
		in.Close()
		if got := strings.ReplaceAll(cut.Sidecar, "; ", "&"); got != string(buf) {
			w.t.Errorf("%s: job %v has %s in the sidecar and %s in the payload", when, id, got, buf)
		}
	}
}

// newBroken makes a world whose steps go through fault from now on.
func newBroken(t *testing.T, fault func(step string, do func() error) error) *world {
	w := newWorldIn(t, t.TempDir(), "")
	w.close()
	var begun atomic.Bool
	w.fault, w.quiet = func(step string, do func() error) error {
		if strings.HasPrefix(step, "sync") || step == "journal sync" {
			do = func() error { return nil } // nothing here hangs on the storage
		}
		if !begun.Load() {
			return do()
		}
		return fault(step, do)
	}, true
	w.open(nil)
	begun.Store(true)
	return w
}

// again opens the home as the next process does, without faults.
func (w *world) again() {
	w.t.Helper()
	w.srv.Close()
	w.h.Close()
	w.svc.Close() // whether it can is of no interest
	w.fault = nil
	w.open(nil)
	w.tick()
	w.tick()
}

func TestEveryStepOfAPhaseFails(t *testing.T) {
	stride := long.N(7, 1) // different ways to fail begin at different steps
	for i, way := range []struct {
		name        string
		err         error
		done, stops bool
	}{
		{"fails", syscall.EIO, false, false},
		{"fails but happened", syscall.EIO, true, false},
		{"no space", syscall.ENOSPC, false, false},
		{"no space but happened", syscall.ENOSPC, true, false},
		{"process stops before", syscall.EIO, false, true},
		{"process stops behind", syscall.EIO, true, true},
	} {
		for at, fired := 1+i%stride, "first"; fired != "" && !t.Failed(); at += stride {
			t.Run(fmt.Sprint(way.name, " at step ", at), func(t *testing.T) {
				var mu sync.Mutex
				n := 0
				fired = ""
				w := newBroken(t, func(step string, do func() error) error {
					mu.Lock()
					n++
					first, after := n == at, n > at
					if first {
						fired = step
					}
					mu.Unlock()
					switch {
					case first && way.done:
						do()
						return way.err
					case first, after && way.stops:
						return way.err
					}
					return do()
				})
				jobs := ledger{}
				life(w.lead(jobs), func() { w.h.Tick(context.Background()); w.svc.Checkpoint(context.Background()) })
				if w.svc.Err() == nil && !way.stops {
					w.tick()
					w.agree(fired, jobs)
				}
				w.again()
				w.agree(fired+", opened again", jobs)
				if fired == "" && at < 20 {
					t.Errorf("only %d steps", at)
				}
			})
		}
	}
}

// To destroy a job makes free space, so it needs none.
func TestAPendingJobIsDestroyedOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	w := newBroken(t, func(step string, do func() error) error {
		verb, _, _ := strings.Cut(step, " ")
		switch verb {
		case "put", "rewrite", "stage", "temp", "mkdir", "prepare":
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return do()
	})
	w.quiet = true
	a := w.create("a=1")
	b := w.create("b=1&DESTRUCTION=" + w.clock().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"))
	full.Store(true)
	w.want(303, "DELETE", a, "")
	w.want(404, "GET", a, "")
	w.sleep(2 * time.Hour)
	w.tick()
	w.want(404, "GET", b, "")
	full.Store(false)
}

// When the journal fails, nobody knows whether RUN has started the job before the
// home is opened again: until then nothing can be done to it.
func TestRunOfUnknownEndIsKnownAtTheNextStart(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	broken := false
	w.fault = func(step string, do func() error) error {
		if err := do(); err != nil || !broken || step != "journal sync" {
			return err
		}
		return syscall.EIO // but it happened
	}
	w.open(nil)
	w.quiet = true
	id := idOf(w.create("a=1"))
	broken = true
	w.want(503, "POST", "async/"+id+"/phase", "PHASE=RUN")
	w.want(503, "POST", "async/"+id+"/phase", "PHASE=RUN")
	w.want(503, "POST", "async/"+id+"/destruction", "DESTRUCTION=2026-03-01")
	w.want(503, "DELETE", "async/"+id, "")
	w.srv.Close()
	w.h.Close()
	if err := w.svc.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	w.fault = nil
	w.open(nil)
	w.phase("async/"+id, "QUEUED")
	if got := w.q.State().Pending; got != 1 {
		t.Errorf("got %d jobs in the queue, want 1", got)
	}
}
