package uws_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cutie/queuefs"
)

func TestRecordsThatCouldNotBeOpenedAreTriedAgain(t *testing.T) {
	w := newWorld(t, "")
	job := "async/" + idOf(w.create("a=1"))
	w.close()
	staged := filepath.Join(w.dir, "uws", "q", "staged")
	if err := os.Rename(staged, staged+".away"); err != nil {
		t.Fatal(err)
	}
	write(t, staged, "no directory")
	w.open(nil)
	w.quiet = true
	w.want(500, "GET", job, "")
	if err := w.h.Tick(context.Background()); err == nil {
		t.Error("nobody is told")
	}
	if err := w.h.MayRemove("q"); !errors.Is(err, queuefs.ErrNotEmpty) {
		t.Errorf("got %v, want the queue kept", err)
	}
	if !w.h.Spares("q", 1) {
		t.Error("a job of which nothing is known is not spared")
	}
	remove(t, staged)
	if err := os.Rename(staged+".away", staged); err != nil {
		t.Fatal(err)
	}
	w.want(500, "GET", job, "") // it was tried just now
	w.sleep(time.Second)
	w.phase(job, "PENDING")
	w.tick()
}
