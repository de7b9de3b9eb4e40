package uws_test

import (
	"testing"
)

// uws-client deletes a job at async/ID/, by a method that it repeats nowhere else.
func TestSlashAtTheEndIsTheSameResource(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	if got := ids(w.get("async/?PHASE=PENDING")); len(got) != 1 {
		t.Errorf("got jobs %v, want the one that was made", got)
	}
	w.want(303, "POST", job+"/parameters/", "a=2")
	w.want(303, "PUT", job+"/parameters/a/", "3", "Content-Type", "text/plain")
	if got := w.get(job + "/parameters/a/"); got != "3" {
		t.Errorf("got %q, want the new value", got)
	}
	if at, _ := w.want(303, "POST", job+"/phase/", "PHASE=RUN"); at != job {
		t.Errorf("got %s, want the job", at)
	}
	if got := w.get(job + "/phase/"); got != "QUEUED" {
		t.Errorf("got %s", got)
	}
	w.want(200, "GET", "capabilities/", "")
	w.want(303, "DELETE", job+"/", "")
	w.want(404, "GET", job+"/", "")
	at, _ := w.want(303, "POST", "async/", "a=1")
	w.want(303, "POST", at+"/", "ACTION=DELETE")
	w.want(303, "POST", "sync/", "a=1")
	w.want(303, "GET", "sync/?a=1", "")
}

// Who may do something is decided by the path, so that one path is one thing.
func TestPathThatIsNoneMakesNoJob(t *testing.T) {
	w := newWorld(t, "")
	job := "async/" + idOf(w.create("a=1"))
	for _, request := range [][2]string{
		{"GET", "sync//?a=1"}, {"GET", "sync/%2F?a=1"}, {"GET", "/sync?a=1"}, {"POST", "sync//"}, {"POST", "async//"}, {"POST", job + "//"},
		{"GET", "async//"}, {"GET", "async//" + idOf(job)}, {"GET", job + "//phase"}, {"GET", job + "/nothing/"}, {"GET", ""},
	} {
		body := ""
		if request[0] != "GET" {
			body = "PHASE=RUN"
		}
		w.want(404, request[0], request[1], body)
	}
	w.want(405, "HEAD", "sync/?a=1", "")
	if got := ids(w.get("async")); len(got) != 1 {
		t.Errorf("got jobs %v, want the one that was made", got)
	}
	w.phase(job, "PENDING")
}

func TestLookingAtSyncMakesNoJob(t *testing.T) {
	w := newWorld(t, "")
	for _, query := range []string{"", "?", "?RUNID=x", "?PHASE=RUN"} {
		w.want(403, "GET", "sync"+query, "")
	}
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got jobs %v, want none", got)
	}
}
