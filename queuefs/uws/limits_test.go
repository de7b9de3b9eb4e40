package uws_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

func TestLimitsHoldOverRestarts(t *testing.T) {
	w := newWorld(t, "uwsExecutionDuration: 100\nuwsMaxExecutionDuration: 200\nuwsDestruction: 2\nuwsMaxDestruction: 3\n")
	job := "async/" + idOf(w.create("PHASE=RUN&a=1"))
	slow := "async/" + idOf(w.create("PHASE=RUN&a=1&EXECUTIONDURATION=0&DESTRUCTION=2030-01-01"))
	staged := "async/" + idOf(w.create("a=1&DESTRUCTION=2020-01-01"))
	soon := "async/" + idOf(w.create("a=1&DESTRUCTION=2026-01-31T12:00:07Z"))
	for where, want := range map[string]string{
		job + "/executionduration": "100", slow + "/executionduration": "200",
		job + "/destruction": "2026-01-31T14:00:00.000Z", slow + "/destruction": "2026-01-31T15:00:00.000Z", staged + "/destruction": "2026-01-31T12:01:00.000Z",
		soon + "/destruction": "2026-01-31T12:00:07.000Z",
	} {
		if got := w.get(where); got != want {
			t.Errorf("%s: got %s, want %s", where, got, want)
		}
	}
	w.want(400, "POST", job+"/executionduration", "EXECUTIONDURATION=soon")
	w.want(400, "POST", job+"/destruction", "DESTRUCTION=soon")
	first := w.take()
	w.take()
	w.sleep(99 * time.Second)
	w.tick()
	w.phase(job, "EXECUTING")
	w.want(404, "GET", staged, "")
	w.close()
	w.sleep(2 * time.Second)
	w.open(nil)
	w.tick()
	w.phase(job, "ABORTED")
	w.phase(slow, "EXECUTING")
	if got := w.get(job + "/error"); got != "execution duration exceeded" {
		t.Errorf("got error %q", got)
	}
	if _, err := w.q.Conclude(context.Background(), first.ID, first.Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err == nil {
		t.Error("a late report was taken")
	}
	w.want(303, "POST", slow+"/executionduration", "EXECUTIONDURATION=102")
	w.sleep(2 * time.Second)
	w.tick()
	w.phase(slow, "ABORTED")

	w.sleep(2 * time.Hour)
	w.close()
	w.open(nil)
	w.tick()
	w.want(404, "GET", job, "")
	w.phase(slow, "ABORTED")
	w.sleep(time.Hour)
	w.tick()
	w.want(404, "GET", slow, "")
}

func TestJobIsArchivedWhereTheQueueSaysSo(t *testing.T) {
	w := newWorld(t, "uwsArchive: true\nuwsDestruction: 1\n")
	job := w.create("PHASE=RUN&a=1")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	w.sleep(time.Hour)
	w.tick()
	w.phase(job, "ARCHIVED")
	w.want(404, "GET", job+"/results/result", "")
	if text := w.get(job); !strings.Contains(text, `<uws:parameter id="a">1<`) {
		t.Errorf("got %s, want the parameter of the archived job", text)
	}
	if all, old := ids(w.get("async")), ids(w.get("async?PHASE=ARCHIVED")); len(all) != 0 || len(old) != 1 {
		t.Errorf("got %v and %v, want the job only among the archived", all, old)
	}
	valid(t, "1.1", w.get(job), w.get("async?PHASE=ARCHIVED"))
}

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
