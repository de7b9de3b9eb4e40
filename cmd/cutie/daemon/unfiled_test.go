package daemon

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
)

func TestMetricsTellHowManyJobsHaveNoFilesYet(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := q.Begin()
	defer s.Discard()
	for range 3 {
		if _, err := s.Add(queuefs.Meta{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	told := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		if err := newMeter(storageMetrics(svc)).serve(w, httptest.NewRequest("GET", "/metrics", nil)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.Body.String(), "\ncutie_jobs_unfiled "+want+"\n") {
			t.Errorf("want %s, got %s", want, w.Body)
		}
	}
	told("3")
	if err := svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	told("0")
}
