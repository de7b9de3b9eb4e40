package uws_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// undated takes the time of creation out of the file of the queue, as it is in
// queues that were made by hand.
func (w *world) undated() {
	w.t.Helper()
	name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, regexp.MustCompile(`(?m)^created:.*\n`).ReplaceAll(text, nil), 0o666); err != nil {
		w.t.Fatal(err)
	}
	then := w.clock().Add(-time.Hour)
	if err := os.Chtimes(name, then, then); err != nil {
		w.t.Fatal(err)
	}
}

// A file that does not say when its queue was made may be edited, and nothing
// that came before is of a former queue then.
func TestJobsOutliveAnEditOfAnUndatedQueue(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	w.undated()
	w.open(nil)
	staged, started := idOf(w.create("a=1")), idOf(w.create("a=1&PHASE=RUN"))
	w.want(303, "DELETE", "async/"+idOf(w.create("a=1&PHASE=RUN")), "")
	w.close()
	name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(text)+"description: edited\n")
	later := w.clock().Add(time.Hour)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
	w.open(nil)
	w.tick()
	if got := w.q.Info().Description; got != "edited" {
		t.Errorf("got %q", got)
	}
	w.phase("async/"+staged, "PENDING")
	w.phase("async/"+started, "QUEUED")
	if got := ids(w.get("async")); len(got) != 2 {
		t.Errorf("got %v, want two jobs", got)
	}
}

// What is older than its queue is not deleted, for the date of a queue may be
// wrong.
func TestRecordsOlderThanTheirQueueAreSetAside(t *testing.T) {
	w := newWorld(t, "")
	body, mediaType := parts(t, map[string]string{"f": "the file"}, "a", "1")
	staged := idOf(w.create(body, "Content-Type", mediaType))
	started := idOf(w.create("a=1&PHASE=RUN"))
	w.close()
	name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, regexp.MustCompile(`(?m)^created:.*\n`).ReplaceAllString(string(text), "created: 2026-02-01T00:00:00Z\n"))
	w.open(nil)
	w.want(404, "GET", "async/"+staged, "")
	w.sleep(48 * time.Hour)
	if err := w.h.Tick(context.Background()); err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "2 ") {
		t.Errorf("got %v, want one line that counts them", err)
	}
	w.tick() // it was told once
	got := names(t, filepath.Join(w.dir, "uws", "q", "corrupt"))
	slices.Sort(got)
	want := []string{staged, staged + ".upload0", started}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v set aside, want %v", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "uws", "q", "corrupt", staged+".upload0")); string(text) != "the file" {
		t.Errorf("got %q, %v", text, err)
	}
}

// The files that came with a record are kept with it.
func TestUploadsOfARecordThatCannotBeUnderstoodAreSetAside(t *testing.T) {
	w := newWorld(t, "")
	body, mediaType := parts(t, map[string]string{"f": "one", "g": "two"}, "a", "1")
	job := idOf(w.create(body, "Content-Type", mediaType))
	w.close()
	write(t, filepath.Join(w.dir, "uws", "q", "staged", job), "nonsense\n")
	w.open(nil)
	if err := w.h.Tick(context.Background()); err == nil {
		t.Error("nobody is told")
	}
	if got := names(t, filepath.Join(w.dir, "uws", "q", "corrupt")); len(got) != 3 {
		t.Errorf("got %v set aside, want the record and two files", got)
	}
}
