package uws_test

import (
	"testing"
)

// Who may do something is decided by the path, so that one path is one thing.
func TestSlashAtTheEndMakesNoJob(t *testing.T) {
	w := newWorld(t, "")
	job := "async/" + idOf(w.create("a=1"))
	for _, request := range [][2]string{
		{"GET", "sync/?a=1"}, {"HEAD", "sync/?a=1"}, {"POST", "sync/"}, {"GET", "sync//?a=1"}, {"GET", "sync/%2F?a=1"}, {"GET", "/sync?a=1"},
		{"POST", "async/"}, {"POST", job + "/"}, {"DELETE", job + "/"}, {"POST", job + "/phase/"}, {"PUT", job + "/parameters/a/"},
		{"GET", "async//"}, {"GET", "async//" + idOf(job)}, {"GET", job + "//phase"}, {"GET", job + "/nothing/"}, {"GET", ""},
	} {
		body := ""
		if request[0] != "GET" && request[0] != "HEAD" {
			body = "PHASE=RUN"
		}
		w.want(404, request[0], request[1], body)
	}
	if got := ids(w.get("async")); len(got) != 1 {
		t.Errorf("got jobs %v, want the one that was made", got)
	}
	w.phase(job, "PENDING")
}

func TestSlashTooManyIsTakenAwayFromWhatIsRead(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	for from, want := range map[string]string{
		"async/":             w.srv.URL + "/uws/q/async",
		"async/?PHASE=ERROR": w.srv.URL + "/uws/q/async?PHASE=ERROR",
		job + "/phase/":      job + "/phase",
		"capabilities/":      w.srv.URL + "/uws/q/capabilities",
	} {
		if at, _ := w.want(307, "GET", from, ""); at != want {
			t.Errorf("%s: got %s, want %s", from, at, want)
		}
	}
}
