package uws_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// To destroy a job makes room, so it wants none.
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
	full.Store(true)
	w.do("DELETE", a, "")
	if got, _, _ := w.do("GET", a, ""); got != 404 {
		t.Errorf("GET says %d", got)
	}
	full.Store(false)
}

// That a job was aborted is still to be told when the disk is full. It can be
// destroyed all the same, which makes room, and of two notes that a crash left
// none is taken for the other.
func TestAnUntoldJobIsDestroyedOnAFullDisk(t *testing.T) {
	remove := func(w *world, job string) int { s, _, _ := w.do("DELETE", job, ""); return s }
	form := func(w *world, job string) int { s, _, _ := w.do("POST", job, "ACTION=DELETE"); return s }
	for name, c := range map[string]struct {
		destroy func(w *world, job string) int
		noted   bool
		then    func(w *world)
	}{
		"method":                   {remove, false, (*world).tick},
		"form":                     {form, false, (*world).tick},
		"noted":                    {remove, true, (*world).tick},
		"noted, told after a stop": {remove, true, func(w *world) { w.again(); w.tick() }},
	} {
		t.Run(name, func(t *testing.T) {
			var untellable, full atomic.Bool
			w := newBroken(t, func(step string, do func() error) error {
				verb, _, _ := strings.Cut(step, " ")
				switch verb {
				case "put", "rewrite", "stage", "temp", "mkdir":
					if full.Load() {
						return syscall.ENOSPC
					}
				case "prepare":
					if untellable.Load() {
						return syscall.ENOSPC
					}
				}
				return do()
			})
			w.quiet = true
			a := w.create("a=1")
			untellable.Store(true)
			w.fillJournal()
			if got, _, _ := w.do("POST", a+"/phase", "PHASE=ABORT"); got != 507 {
				t.Fatalf("ABORT says %d, want 507: it cannot be told", got)
			}
			w.phase(a, "ABORTED")
			full.Store(!c.noted)
			if got := c.destroy(w, a); got != 507 {
				t.Errorf("got %d, want 507: it cannot be told", got)
			}
			if got, _, _ := w.do("GET", a, ""); got != 404 {
				t.Errorf("GET says %d", got)
			}
			untellable.Store(false)
			full.Store(false)
			c.then(w)
			events, err := w.q.Events(w.q.Seq()-1, 1)
			if err != nil || len(events) != 1 {
				t.Fatal(events, err)
			}
			if last := events[0]; last.Phase != "" || last.Subject != idOf(a) {
				t.Errorf("got %+v, want that it is gone", last)
			}
			if got := names(t, filepath.Join(w.dir, "uws", "q", "staged")); len(got) != 0 {
				t.Errorf("got %v staged", got)
			}
		})
	}
}

// A job that could not be destroyed when it was asked for still has its
// instant.
func TestDestructionThatFailedComesInItsTime(t *testing.T) {
	var broken atomic.Bool
	w := newBroken(t, func(step string, do func() error) error {
		if broken.Load() && strings.HasPrefix(step, "put staged") {
			return syscall.EIO
		}
		return do()
	})
	w.quiet = true
	a := w.create("a=1&DESTRUCTION=2026-01-31T13:00:00Z")
	broken.Store(true)
	if got, _, _ := w.do("DELETE", a, ""); got < 500 {
		t.Fatalf("DELETE says %d", got)
	}
	broken.Store(false)
	w.sleep(2 * time.Hour)
	w.tick()
	w.sleep(2 * time.Second)
	w.tick()
	if got, _, _ := w.do("GET", a, ""); got != 404 {
		t.Errorf("an hour after its destruction GET says %d", got)
	}
}

// The instant of a job comes whose phase is untold, on a full disk.
func TestAnUntoldJobIsDestroyedInItsTimeOnAFullDisk(t *testing.T) {
	var untellable atomic.Bool
	w := newBroken(t, func(step string, do func() error) error {
		if strings.HasPrefix(step, "prepare") && untellable.Load() {
			return syscall.ENOSPC
		}
		return do()
	})
	w.quiet = true
	a := w.create("a=1&DESTRUCTION=" + w.clock().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"))
	untellable.Store(true)
	w.fillJournal()
	if got, _, _ := w.do("POST", a+"/phase", "PHASE=ABORT"); got != 507 {
		t.Fatalf("ABORT says %d", got)
	}
	w.sleep(2 * time.Hour)
	for range 5 {
		_ = w.h.Tick(t.Context())
		w.sleep(2 * time.Second)
	}
	for _, n := range names(t, filepath.Join(w.dir, "uws", "q", "staged")) {
		if n == idOf(a) {
			t.Errorf("the job is still there an hour after its instant")
		}
	}
	untellable.Store(false)
}

// fillJournal tells phases until there is no room for more.
func (w *world) fillJournal() {
	w.t.Helper()
	for n := 0; w.q.TellPhase(w.t.Context(), "another", "PENDING") == nil; n++ {
		if n == 10_000 {
			w.t.Fatal("there is no end to the journal")
		}
	}
}
