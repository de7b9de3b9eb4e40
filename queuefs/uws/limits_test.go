package uws_test

import (
	"testing"
	"time"
)

func TestPendingJobIsArchivedWhereTheQueueSaysSo(t *testing.T) {
	w := newWorld(t, "uwsArchive: true\nuwsDestruction: 1\n")
	body, mediaType := parts(t, map[string]string{"file": "content"}, "a", "1")
	job := w.create(body, "Content-Type", mediaType)
	w.sleep(time.Hour)
	w.tick()
	w.phase(job, "ARCHIVED")
	if got := w.get(job + "/parameters/a"); got != "1" {
		t.Errorf("got parameter %q, want 1", got)
	}
	if got := w.get(job + "/parameters/file"); got != "content" {
		t.Errorf("got file %q", got)
	}
	w.close()
	w.open(nil)
	job = w.srv.URL + "/uws/q/async/" + idOf(job)
	w.phase(job, "ARCHIVED")
	valid(t, "1.1", w.get(job))
}
