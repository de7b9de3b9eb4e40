package work

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// homeWithAJob returns a home with one job in the queue jobs.
func homeWithAJob(t *testing.T, payload string) (*reach.Target, string) {
	t.Helper()
	find := reach.Finder{Home: t.TempDir() + "/home", Warn: t.Logf, Say: t.Logf}
	if err := queuefs.Init(find.Home, queuefs.ServiceInfo{}); err != nil {
		t.Fatal(err)
	}
	home, err := find.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	if _, err := home.CreateQueue(t.Context(), queuefs.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	u := client.Upload{Size: int64(len(payload)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(payload)), nil }}
	ids, err := home.Submit(t.Context(), "jobs", u)
	if err != nil {
		t.Fatal(err)
	}
	return home, ids[0]
}

// A proxy that loses an answer sends the result again. The job has it then, and no other one.
func TestAResultThatWasSentAgainIsStored(t *testing.T) {
	t.Parallel()
	home, _ := homeWithAJob(t, "work")
	d, err := home.NextFor(t.Context(), "jobs", queuefs.Take{Lease: time.Hour}, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.Body.Close()
	w := &Worker{Client: home.Client, Queue: "jobs", Lease: time.Hour, Warn: t.Logf, Say: t.Logf}
	path := filepath.Join(t.TempDir(), "output")
	for _, c := range []struct {
		text string
		want error
	}{{"done", nil}, {"done", nil}, {"else", queuefs.ErrResultExists}} {
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := w.putResult(t.Context(), t.Context(), d, "result", path, "text/plain"); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.text, err, c.want)
		}
	}
}
