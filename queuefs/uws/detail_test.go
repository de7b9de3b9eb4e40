package uws_test

import (
	"strings"
	"testing"

	"cutie/queuefs"
)

// A worker says why a job failed in a form of its choice, such as a VOTable.
func TestErrorDetailOfAWorker(t *testing.T) {
	w := newWorld(t, "")
	for name, outcome := range map[string]queuefs.Outcome{"error": queuefs.Failed, "error.vot": queuefs.Failed, "log": queuefs.Failed} {
		job := w.create("a=1&PHASE=RUN")
		w.finish(w.take(), queuefs.Conclusion{Outcome: outcome, Message: "no disk"}, name)
		detail := name != "log"
		text := w.get(job)
		if want := `hasDetail="` + map[bool]string{true: "true", false: "false"}[detail] + `"><uws:message>no disk<`; !strings.Contains(text, want) {
			t.Errorf("%s: got no %s in %s", name, want, text)
		}
		valid(t, "1.1", text)
		want := "no disk"
		if detail {
			want = "result " + name
		}
		if got := w.get(job + "/error"); got != want {
			t.Errorf("%s: got error %q, want %q", name, got, want)
		}
		sync := strings.Replace(job, "/async/", "/sync/", 1)
		if !detail {
			w.want(422, "GET", sync, "")
		} else if to, _ := w.want(303, "GET", sync, ""); to != job+"/error" {
			t.Errorf("%s: sync leads to %s", name, to)
		}
	}
	// A job without an error has none, whatever its results are called.
	job := w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "error")
	if got := w.get(job + "/error"); got != "" {
		t.Errorf("got error %q of a completed job", got)
	}
	// The results of a destroyed job stay away, late ones too.
	job = w.create("a=1&PHASE=RUN")
	taken := w.take()
	w.want(303, "POST", job+"/phase", "PHASE=ABORT")
	w.want(303, "DELETE", job, "")
	if _, err := w.q.NewResult(t.Context(), taken.ID, taken.Token, "late", "", nil); err == nil {
		t.Error("a destroyed job takes results")
	}
}
