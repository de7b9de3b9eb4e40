package uws_test

import (
	"context"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

// Who may only submit has to do with his own jobs, and with nobody else's.
func TestWhoMayOnlySubmitFollowsHisOwnJobs(t *testing.T) {
	w := newWorld(t, "")
	ctx := context.Background()
	ann, bob, nobody := uws.Caller{Name: "ann", Own: true}, uws.Caller{Name: "bob", Own: true}, uws.Caller{Own: true}
	sub := w.q.Begin()
	for _, m := range []queuefs.Meta{{Owner: "ann"}, {}} {
		if _, err := sub.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	others, err := sub.Commit(ctx) // not by UWS: one of ann, and one of nobody
	if err != nil {
		t.Fatal(err)
	}
	for range others {
		w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	}
	hers, nobodys := "async/"+others[0].ID.String(), "async/"+others[1].ID.String()

	w.as = ann
	job := w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	for _, where := range []string{job, job + "/phase", job + "/parameters", job + "/parameters/a", job + "/results", job + "/results/result", hers, hers + "/results/result"} {
		w.want(200, "GET", where, "")
	}
	w.want(303, "GET", "sync/"+idOf(job), "")
	w.want(403, "GET", nobodys, "")
	w.want(403, "GET", nobodys+"/results/result", "")
	w.want(403, "DELETE", nobodys, "")
	if got := ids(w.get("async")); len(got) != 2 {
		t.Errorf("got %v, want ann's two jobs", got)
	}

	w.as = nobody
	free := w.create("a=1")
	w.want(200, "GET", free, "") // the name says that it was told
	w.want(403, "GET", job, "")
	w.want(403, "GET", nobodys, "")
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got %v listed for somebody without a name", got)
	}

	w.as = bob
	for _, where := range []string{"", "/phase", "/results/result", "/parameters/a", "/owner"} {
		if _, text := w.want(403, "GET", job+where, ""); strings.Contains(text, "ann") {
			t.Errorf("%s: got %q", where, text)
		}
	}
	w.want(403, "GET", "sync/"+idOf(job), "")
	w.want(403, "POST", job+"/phase", "PHASE=ABORT")
	w.want(403, "DELETE", job, "")
	w.as = uws.Caller{Name: "bob", Own: true, Delete: true}
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got %v listed for bob", got)
	}

	w.as = ann
	w.want(303, "DELETE", job, "")
	staged := w.create("a=1")
	w.want(303, "POST", staged+"/phase", "PHASE=ABORT")
	w.phase(staged, "ABORTED")
	w.want(303, "DELETE", staged, "")
}
