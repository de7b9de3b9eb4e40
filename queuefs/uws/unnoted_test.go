package uws_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// RUN that could not be noted has put the job into the queue all the same:
// nothing puts it there again, or takes it for one that was never started.
func TestRunThatCouldNotBeNotedIsDoneOnce(t *testing.T) {
	for name, then := range map[string]func(w *world, job string) int{
		"again":   func(w *world, job string) int { s, _, _ := w.do("POST", job+"/phase", "PHASE=RUN"); return s },
		"aborted": func(w *world, job string) int { s, _, _ := w.do("POST", job+"/phase", "PHASE=ABORT"); return s },
		"gone":    func(w *world, job string) int { s, _, _ := w.do("DELETE", job, ""); return s },
		"left":    func(w *world, job string) int { return 507 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.quiet = true
			job := w.create("a=1")
			full := true
			if err := w.h.Jobs("q", func(step string, do func() error) error {
				if full && strings.HasPrefix(step, "stage ") {
					return syscall.ENOSPC
				}
				return do()
			}); err != nil {
				t.Fatal(err)
			}
			w.do("POST", job+"/phase", "PHASE=RUN")
			if status := then(w, job); status != 507 {
				t.Errorf("got %d, want 507: the record cannot be written", status)
			}
			if err := w.h.Tick(context.Background()); err == nil {
				t.Error("nobody is told")
			}
			full = false
			w.sleep(2e9)
			w.tick()
			if s := w.q.State(); s.Pending != 1 || s.Deleted != 0 {
				t.Errorf("got %d pending, %d deleted, want one job", s.Pending, s.Deleted)
			}
			w.phase(job, "QUEUED")
			if got := names(t, filepath.Join(w.dir, "uws", "q", "staged")); len(got) != 0 {
				t.Errorf("got %v staged", got)
			}
			w.want(303, "POST", job+"/phase", "PHASE=RUN")
			w.want(303, "DELETE", job, "")
			if s := w.q.State(); s.Pending != 0 || s.Deleted != 1 {
				t.Errorf("got %d pending, %d deleted, want none pending", s.Pending, s.Deleted)
			}
		})
	}
}

// When the journal fails, nobody knows whether RUN has put the job into the
// queue before the home is opened again: until then nothing can be done to it.
func TestRunOfUnknownEndIsSettledAtTheNextStart(t *testing.T) {
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
