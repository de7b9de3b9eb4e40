package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/rest/client"
	"cutie/testdata/tmpfs"
)

// homeWithAJob returns a home with one job in the queue jobs.
func homeWithAJob(t *testing.T, payload string) (*target, string) {
	t.Helper()
	find := finder{Home: t.TempDir() + "/home", Warn: t.Logf, Say: t.Logf}
	must(t, home.Init(find.Home, home.ServiceInfo{}))
	dir, err := find.Find(t.Context())
	must(t, err)
	t.Cleanup(func() { dir.Close() })
	if _, err := dir.CreateQueue(t.Context(), home.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	u := client.Upload{Size: int64(len(payload)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(payload)), nil }}
	ids, err := dir.Submit(t.Context(), "jobs", u)
	must(t, err)
	return dir, ids[0]
}

// A proxy that loses an answer sends the result again. The job has it then, and no other one.
func TestAResultThatWasSentAgainIsStored(t *testing.T) {
	t.Parallel()
	home, _ := homeWithAJob(t, "work")
	d, err := home.NextFor(t.Context(), "jobs", queuefs.Take{Lease: time.Hour}, 0)
	must(t, err)
	d.Body.Close()
	w := &worker{Client: home.Client, Queue: "jobs", Lease: time.Hour, Warn: t.Logf, Say: t.Logf}
	path := filepath.Join(t.TempDir(), "output")
	for _, c := range []struct {
		text string
		want error
	}{{"done", nil}, {"done", nil}, {"else", queuefs.ErrResultExists}} {
		must(t, os.WriteFile(path, []byte(c.text), 0o666))
		if err := w.putResult(t.Context(), t.Context(), d, "result", path, "text/plain"); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.text, err, c.want)
		}
	}
}

// Sums come when there is news, and in the end.
func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		w := &worker{Queue: "jobs", Summary: time.Minute, Warn: func(format string, a ...any) { got = append(got, fmt.Sprintf(format, a...)) }}
		done := make(chan struct{})
		go w.summarize(done)
		w.tally.add(completed)
		w.tally.add(failed)
		time.Sleep(150 * time.Second)
		w.tally.add(lost)
		w.tally.add(retried)
		w.tally.add(retried)
		time.Sleep(time.Minute)
		close(done)
		synctest.Wait()
		want := []string{"jobs: 1 completed, 1 failed, 0 given back so far", "jobs: 1 completed, 1 failed, 0 given back, 2 to be tried again, 1 aborted or lost so far",
			"jobs: 1 completed, 1 failed, 0 given back, 2 to be tried again, 1 aborted or lost"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// A payload that never comes whole makes its job fail in the end, so that the
// jobs after it get their turn. Until then each pause is longer.
func TestUnreadablePayloadFailsInTheEnd(t *testing.T) {
	t.Parallel()
	home, id := homeWithAJob(t, "halfhalf")
	w := &worker{Client: home.Client, Queue: "jobs", Lease: time.Hour, Program: "/nosuch", Warn: t.Logf, Say: t.Logf}
	var backoff time.Duration
	for attempt := 1; attempt <= maxUnread; attempt++ {
		d, err := home.NextFor(t.Context(), "jobs", queuefs.Take{Lease: w.Lease}, 0)
		if err != nil || d.Attempt != attempt {
			t.Fatalf("got attempt %d, %v, want %d", d.Attempt, err, attempt)
		}
		body := d.Body
		d.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)), body}
		wait, err := w.do(t.Context(), d, backoff)
		must(t, err)
		j, err := home.Job(t.Context(), "jobs", id)
		must(t, err)
		if attempt < maxUnread {
			if wait <= backoff || j.Status != job.Pending || j.Message != "the payload could not be read" {
				t.Errorf("attempt %d: waits %v after %v, job is %v: %q", attempt, wait, backoff, j.Status, j.Message)
			}
		} else if wait != 0 || j.Outcome != job.Failed || j.Transient || j.Message != "the payload could not be read: unexpected EOF" {
			t.Errorf("last attempt: waits %v, got %+v", wait, j)
		}
		backoff = wait
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMain makes the program available to tests by its name: as "cutie" in
// PATH, in a process of its own.
func TestMain(m *testing.M) {
	// Built with the race detector, each process would sleep a second at its
	// end.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	tmpfs.Use()
	// Those of the object stores of tests, which do not look at them.
	os.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	os.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	// Tests wait for processes and for storage more than they work.
	flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	testscript.Main(m, map[string]func(){"cutie": main})
}
