package uws_test

import (
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
