package uws_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
)

// told returns the events of the queue after one: "subject phase" of phases,
// the kind of others.
func (w *world) told(after queuefs.Seq) (all []string) {
	w.t.Helper()
	events, err := w.q.Events(after, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == queuefs.Phase {
			all = append(all, strings.TrimSpace(e.Subject+" "+e.Phase))
		} else {
			all = append(all, e.Kind.String())
		}
	}
	return all
}

// wantTold compares the events since the last call.
func (w *world) wantTold(since *queuefs.Seq, want ...string) {
	w.t.Helper()
	if got := w.told(*since); !slices.Equal(got, want) {
		w.t.Errorf("got events %q, want %q", got, want)
	}
	*since = w.q.Seq()
}

func TestPhasesOfStagedJobsAreEvents(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 1\n")
	seq := w.q.Seq()
	a := w.create("a=1")
	w.wantTold(&seq, idOf(a)+" PENDING")
	w.want(303, "POST", a+"/phase", "PHASE=ABORT")
	w.wantTold(&seq, idOf(a)+" ABORTED")
	w.want(303, "POST", a+"/phase", "PHASE=ABORT") // it is
	w.want(303, "POST", a+"/destruction", "DESTRUCTION=2026-03-01")
	w.wantTold(&seq)
	w.want(303, "DELETE", a, "")
	w.wantTold(&seq, idOf(a))
	b := w.create("a=1")
	w.want(303, "POST", b+"/parameters", "a=2")
	w.want(303, "POST", b+"/phase", "PHASE=RUN")
	w.wantTold(&seq, idOf(b)+" PENDING", "submit")
	w.create("a=1&PHASE=RUN")
	w.want(303, "POST", "sync", "a=1")
	w.wantTold(&seq, "submit", "submit")
	w.want(403, "POST", "async", "a=1&PHASE=ABORT")
	w.wantTold(&seq)
	c := w.create("a=1")
	w.want(303, "POST", c, "ACTION=DELETE")
	d := w.create("a=1")
	w.tick()
	w.wantTold(&seq, idOf(c)+" PENDING", idOf(c), idOf(d)+" PENDING")
	w.sleep(2 * time.Hour)
	w.want(303, "POST", b+"/destruction", "DESTRUCTION=2026-03-01")
	w.tick()
	w.want(404, "GET", d, "")
	if got := w.told(seq); !slices.Contains(got, idOf(d)) {
		t.Errorf("got %q, want an event of the job whose time had come", got)
	}
	if got := names(t, filepath.Join(w.dir, "uws", "q", "staged")); len(got) != 0 {
		t.Errorf("got %q left", got)
	}
}

func TestArchivedAndDestroyedJobsAreEvents(t *testing.T) {
	w := newWorld(t, "uwsArchive: true\nuwsDestruction: 1\n")
	w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	id := ids(w.get("async"))[0]
	seq := w.q.Seq()
	w.sleep(2 * time.Hour)
	w.tick()
	w.phase(w.srv.URL+"/uws/q/async/"+id, "ARCHIVED")
	w.wantTold(&seq, id+" ARCHIVED")
	w.tick()
	w.want(303, "DELETE", "async/"+id, "")
	w.wantTold(&seq, id)
	sub := w.q.Begin() // by other ways
	if _, err := sub.Add(queuefs.Meta{}); err != nil {
		t.Fatal(err)
	}
	jobs, err := sub.Commit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w.want(303, "DELETE", "async/"+jobs[0].ID.String(), "")
	w.wantTold(&seq, "submit", "delete", jobs[0].ID.String())
	w.close()
	w.open(nil)
	w.tick()
	w.wantTold(&seq)
}

// A life does to jobs all that is told of beside what is told of the queue. do
// makes a request, and returns where it leads, "" unless it was acknowledged.
func life(do func(method, where, body string) string, tick func()) {
	job := func(where string) string { return "async/" + idOf(where) }
	a := do("POST", "async", "a=1")
	b := do("POST", "async", "b=1")
	do("POST", job(a)+"/phase", "PHASE=ABORT")
	do("POST", job(b)+"/phase", "PHASE=RUN")
	do("POST", "async", "c=1&PHASE=RUN")
	do("DELETE", job(a), "")
	d := do("POST", "async", "d=1")
	do("DELETE", job(b), "")
	tick()
	do("DELETE", job(d), "")
	do("POST", "async", "e=1")
}

// agree compares what is told with what is there: of each job the last phase
// that was told is the one it has, none is told twice, and none of what never
// was.
func (w *world) agree(when string) {
	w.t.Helper()
	last, times := map[string]string{}, map[string]int{}
	for _, e := range w.told(0) {
		if id, phase, _ := strings.Cut(e, " "); id[0] == 'u' && len(id) == 27 {
			if times[e]++; times[e] > 1 {
				w.t.Errorf("%s: %s is told twice", when, e)
			}
			if phase == "" {
				phase = "gone"
			}
			last[id] = phase
		}
	}
	for _, id := range ids(w.get("async")) {
		if _, known := last[id]; !known {
			last[id] = ""
		}
	}
	queued := map[string]bool{}
	for _, n := range w.q.IDs(queuefs.ListOptions{}) {
		j, err := w.q.Job(n)
		if err != nil {
			w.t.Fatal(err)
		}
		queued[j.Extra.Value("uws-id")] = true
	}
	for id, told := range last {
		status, _, phase := w.do("GET", "async/"+id+"/phase", "")
		switch {
		case status == 404 && told == "gone":
		case status == 200 && phase == told:
		case status == 200 && queued[id] && told != "gone": // the queue tells of it
		default:
			w.t.Errorf("%s: job %s is %d %s, told was %q", when, id, status, phase, told)
		}
	}
	notes, err := filepath.Glob(filepath.Join(w.dir, "uws", "q", "staged", "*.untold-*"))
	if err != nil || len(notes) > 0 {
		w.t.Errorf("%s: left behind %s, %v", when, notes, err)
	}
}

// fastDir is a directory in memory, if there is such a file system.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "uws-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newBroken makes a world whose steps, those of the service and of the Handler,
// go through fault from now on.
func newBroken(t *testing.T, fault func(step string, do func() error) error) *world {
	w := newWorldIn(t, fastDir(t), "")
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
	w.h.Close() // whether it can is of no interest
	w.svc.Close()
	w.fault = nil
	w.open(nil)
	w.tick()
	w.tick()
}

// acknowledged is do of a life: what it returns has been told.
func (w *world) acknowledged(method, where, body string) string {
	if strings.HasSuffix(where, "async/") || strings.Contains(where, "async//") {
		return "" // of a job that was not made
	}
	seq := w.q.Seq()
	status, location, _ := w.do(method, where, body)
	if status != 303 {
		return ""
	}
	if got := w.told(seq); len(got) == 0 {
		w.t.Errorf("%s %s %s was acknowledged, and is not told", method, where, body)
	}
	return location
}

func TestEveryStepOfAPhaseFails(t *testing.T) {
	const stride = 3 // different ways to fail begin at different steps
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
				life(w.acknowledged, func() { w.h.Tick(context.Background()) })
				if w.svc.Err() == nil && !way.stops {
					w.h.Tick(context.Background())
					w.sleep(2 * time.Second) // what could not be done is tried again
					w.tick()
					w.agree(fired)
				}
				w.again()
				w.agree(fired + ", opened again")
				if fired == "" && at < 40 {
					t.Errorf("only %d steps", at)
				}
			})
		}
	}
}

// copy returns a copy of the home as it stands: what a kill would leave.
func (w *world) copy() string {
	w.t.Helper()
	for tries := 0; ; tries++ {
		to := filepath.Join(fastDir(w.t.(*testing.T)), "home")
		err := os.CopyFS(to, os.DirFS(w.dir))
		if err == nil {
			return to
		}
		// What the journal prepares got its name, or was removed, meanwhile.
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			w.t.Fatal(err)
		}
	}
}

// What a kill leaves before any step is told when the home is opened again,
// once; and not once more after that.
func TestKillAtAnyStepOfAPhase(t *testing.T) {
	type kill struct {
		at, dir string
		told    []string // acknowledged by then
	}
	var kills []kill
	var mu sync.Mutex
	var known []string // nil: what comes is of no interest
	var w *world
	w = newBroken(t, func(step string, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			kills = append(kills, kill{step, w.copy(), slices.Clone(known)})
		}
		return do()
	})
	mu.Lock()
	known = []string{}
	mu.Unlock()
	life(func(method, where, body string) string {
		location := w.acknowledged(method, where, body)
		now := w.told(0)
		mu.Lock()
		defer mu.Unlock()
		known = now
		return location
	}, w.tick)
	w.agree("without a kill")
	mu.Lock()
	known = nil
	mu.Unlock()
	w.close()
	home := w.dir
	for _, k := range kills {
		w.dir, w.fault = k.dir, nil
		w.open(nil)
		w.tick()
		w.agree("killed before " + k.at)
		now := w.told(0)
		if len(now) < len(k.told) || !slices.Equal(now[:len(k.told)], k.told) {
			t.Errorf("killed before %s: got %q, acknowledged was %q", k.at, now, k.told)
		}
		w.again()
		if got := w.told(0); !slices.Equal(got, now) {
			t.Errorf("killed before %s: got %q after another start, want %q", k.at, got, now)
		}
		w.srv.Close()
		w.h.Close()
		w.svc.Close()
	}
	if len(kills) < 40 {
		t.Errorf("only %d steps", len(kills))
	}
	w.dir = home
	w.open(nil) // for the end of the test
}

// A job that is aborted keeps its queue from being removed no longer: when that
// comes before the event there is nobody to tell, and the job is aborted.
func TestAbortedWhileItsQueueIsRemoved(t *testing.T) {
	var w *world
	var once sync.Once
	var aborting atomic.Bool
	w = newBroken(t, func(step string, do func() error) error {
		err := do()
		if aborting.Load() && step == "rename to staged" {
			once.Do(func() {
				if err := w.svc.RemoveQueue(context.Background(), "q"); err != nil {
					t.Error(err)
				}
			})
		}
		return err
	})
	a := w.create("a=1")
	aborting.Store(true)
	w.want(303, "POST", a+"/phase", "PHASE=ABORT")
	w.want(404, "GET", a, "")
}
