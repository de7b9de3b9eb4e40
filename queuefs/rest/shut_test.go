package rest_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// TestAQueueWhosePropertiesCannotBeRead answers every request to it with its name and the
// way out. The state of the service names it, and other queues are served.
func TestAQueueWhosePropertiesCannotBeRead(t *testing.T) {
	was := newService(t)
	was.submit("a", queuefs.Meta{})
	if _, err := was.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"}); err != nil {
		t.Fatal(err)
	}
	dir := was.svc.Dir()
	if err := was.svc.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "queues/jobs/queue-info.txt"), now, now); err != nil { // or nobody reads it
		t.Fatal(err)
	}
	var reads atomic.Int32 // of jobs is the first one
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 4 << 20, Reads: func(step string, do func() error) error {
		if step == "properties" && reads.Add(1) == 1 {
			return syscall.EIO
		}
		return do()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.Queue("jobs")
	if err != nil {
		t.Fatal(err)
	}
	s := (&site{t: t, svc: svc, q: q}).serve(rest.Options{})
	for _, r := range []string{"GET /state/jobs", "GET /state/jobs/j000000000001", "POST /consume/jobs", "GET /content/jobs", "POST /content/jobs", "PUT /state/jobs",
		"DELETE /state/jobs", "POST /hold/jobs/j000000000001", "POST /cull/jobs", "GET /queues/jobs/queue-info.txt", "GET /queues/jobs/payload/j000000000001", "GET /events/jobs"} {
		method, path, _ := strings.Cut(r, " ")
		body := s.direct(method, path, "").want(t, 503).body
		if !strings.Contains(body, "queue jobs is shut: queue-info.txt cannot be read now: input/output error") || !strings.Contains(body, "opens by itself") {
			t.Errorf("%s: got %s", r, body)
		}
	}
	s.direct("GET", "/state/other", "").want(t, 200)
	if got := s.direct("GET", "/state", "", "Accept", "text/x-anvl").want(t, 200).body; !strings.Contains(got, "shutQueue: ") {
		t.Errorf("the service: got %s", got)
	}
	if _, err := svc.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	s.direct("GET", "/state/jobs", "").want(t, 200)
	if got := s.direct("GET", "/state", "", "Accept", "text/x-anvl").want(t, 200).body; strings.Contains(got, "shut") {
		t.Errorf("the service: got %s", got)
	}
}
