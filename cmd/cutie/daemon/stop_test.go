package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"cutie/queuefs"
)

// A stop that has many files to write says so, and one that has not is silent.
func TestALongStopSaysWhatItDoes(t *testing.T) {
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []int{0, 10_001} {
		svc, err := queuefs.Open(dir, queuefs.Options{Segment: 20 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(svc.Queues()) == 0 {
			if _, err := svc.CreateQueue(t.Context(), queuefs.QueueInfo{ID: "jobs", Name: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
				t.Fatal(err)
			}
		}
		sub := svc.Queues()[0].Begin()
		for range jobs {
			if _, err := sub.Add(queuefs.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(t.Context()); err != nil && jobs > 0 {
			t.Fatal(err)
		}
		var said bytes.Buffer
		if err := closeHome(svc, zerolog.New(&said)); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(said.String(), `"jobs":10001,`), jobs > 0; got != want || !want && said.Len() > 0 {
			t.Errorf("%d jobs: said %q", jobs, said.String())
		}
	}
}
