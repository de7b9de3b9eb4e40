package rest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// Every request to a queue whose directory is lost is answered with the reason and the cure,
// and DELETE with lost removes the queue.
func TestAQueueWhoseDirectoryIsLost(t *testing.T) {
	was := newService(t)
	was.submit("a", queuefs.Meta{})
	if _, err := was.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"}); err != nil {
		t.Fatal(err)
	}
	dir := was.svc.Dir()
	if err := was.svc.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "queues/jobs")); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.Queue("other")
	if err != nil {
		t.Fatal(err)
	}
	s := (&site{t: t, svc: svc, q: q}).serve(rest.Options{})
	for _, r := range []string{"GET /state/jobs", "POST /consume/jobs", "POST /content/jobs", "PUT /state/jobs", "DELETE /state/jobs", "GET /queues/jobs/payload/j000000000001", "GET /events/jobs"} {
		method, path, _ := strings.Cut(r, " ")
		if body := s.direct(method, path, "").want(t, 503).body; !strings.Contains(body, "queue jobs is not served: its directory queues/jobs is lost") || !strings.Contains(body, "rmqueue --lost jobs") {
			t.Errorf("%s: got %s", r, body)
		}
	}
	if got := s.direct("GET", "/state", "", "Accept", "text/x-anvl").want(t, 200).body; !strings.Contains(got, "lostQueue: ") {
		t.Errorf("the service: got %s", got)
	}
	s.direct("DELETE", "/state/other?lost", "").want(t, 409)
	s.direct("DELETE", "/state/none?lost", "").want(t, 404)
	s.direct("DELETE", "/state/jobs?lost=x", "").want(t, 400)
	s.direct("DELETE", "/state/jobs?lost", "").want(t, 200)
	s.direct("GET", "/state/jobs", "").want(t, 404)
	if got := s.direct("GET", "/state", "", "Accept", "text/x-anvl").want(t, 200).body; strings.Contains(got, "lost") {
		t.Errorf("the service: got %s", got)
	}
	s.direct("PUT", "/state/jobs", "").want(t, 201)
}
