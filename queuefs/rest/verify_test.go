package rest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// Cutie 0.3, 3.2: verifyOnRead holds for a job that is peeked at, too.
func TestPeekVerifiesOnRead(t *testing.T) {
	s := newSite(t, rest.Options{})
	payload := strings.Repeat("payload ", 32<<10)
	id := s.submit(payload, queuefs.Meta{}).ID
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.svc.Dir(), "queues/jobs/payload", id.String())
	if err := os.WriteFile(name, []byte("P"+payload[1:]), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/content/jobs", "/content/jobs/" + id.String()} {
		s.do("GET", path, "").want(t, 200)
	}
	s.do("POST", "/state/jobs?verifyOnRead=true", "").want(t, 200)
	for _, path := range []string{"/content/jobs", "/content/jobs/" + id.String()} {
		if got := s.do("GET", path, "").want(t, 500).exception(t); !strings.Contains(got, "damaged") {
			t.Errorf("%s: got %q", path, got)
		}
	}
	s.wantCounts(1, 0, 0) // peeking changes nothing
}
