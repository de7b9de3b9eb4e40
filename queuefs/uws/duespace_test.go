package uws_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

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
	for n := 0; w.q.TellPhase(t.Context(), "another", "PENDING") == nil; n++ {
		if n == 10_000 {
			t.Fatal("there is no end to the journal")
		}
	}
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
