package uws_test

import (
	"context"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/uws"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSettingsThatMakeNoSenseChangeNothing(t *testing.T) {
	w := newWorld(t, "uwsExecutionDuration: 5\n")
	job := w.create("a=1&PHASE=RUN")
	w.take()
	name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(text)+"uwsVersion: 2.0\n")
	for range 2 {
		if _, err := w.svc.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.q.State().Damage; !strings.Contains(got, "uwsVersion") {
		t.Errorf("got %q, want what is wrong", got)
	}
	w.tick()
	w.phase(job, "EXECUTING")
	w.sleep(6 * time.Second)
	w.h.Tick(context.Background())
	w.phase(job, "ABORTED")
}

// The secret part of the identifier protects a job whose other elements are damaged.
func TestDamagedRecordIsNotFoundByItsNumberAlone(t *testing.T) {
	w := newWorld(t, "")
	id, wrong := idOf(w.create("a=1")), idOf(w.create("a=1"))
	w.damage(1, func(text string) string { return text + "uws-duration: soon\n" })
	w.phase("async/"+id, "UNKNOWN")
	w.want(404, "GET", "async/"+id[:9]+wrong[9:], "")
}

func TestCheckFindsElementsWithoutSense(t *testing.T) {
	w := newWorld(t, "")
	w.create("a=1")
	w.create("a=1")
	w.damage(1, func(text string) string { return text + "uws-duration: soon\n" })
	w.close()
	inspect := func(repair bool) (found []string) {
		r, err := check.Home(w.dir, check.Options{Repair: repair, Now: w.clock, Segment: 1 << 20, Job: uws.Check})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Problems {
			found = append(found, p.String())
		}
		return found
	}
	const want = "queues/q/pending/j000000000001: uws-duration: \"soon\": no number of seconds"
	for _, repair := range []bool{true, false} { // repair takes the edited file as it is
		if got := inspect(repair); len(got) != 1 || got[0] != want {
			t.Errorf("repair %v: got %q, want %s", repair, got, want)
		}
	}
	w.open(nil)
}

// spared reports whether culling leaves a job alone.
func (w *world) spared(id queuefs.JobID) bool {
	for c, err := range w.svc.Cull(w.t.Context(), queuefs.CullOptions{Queue: "q", Keep: &queuefs.Thresholds{}, Dry: true}) {
		if err != nil {
			w.t.Error(err)
		}
		if c.Job == id {
			return false
		}
	}
	return true
}

// Of a job whose file cannot be read just now nothing is known.
func TestJobThatCannotBeReadIsSpared(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	if err := w.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	spared := w.spared(1)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !spared {
		t.Error("it is not spared")
	}
	w.sleep(3 * time.Hour)
	if w.spared(1) {
		t.Error("it is spared for ever")
	}
}

func TestNobodyWithoutANameFillsAQueue(t *testing.T) {
	w := newWorld(t, "")
	w.as = uws.Caller{}
	made := 0
	for ; made < 5000; made++ {
		if status, _, _ := w.do("POST", "async", "DESTRUCTION=9999-12-31"); status != 303 {
			break
		}
	}
	if made != 1000 {
		t.Errorf("made %d jobs, want 1000", made)
	}
	for _, job := range ids(w.get("async?LAST=1")) {
		if got := w.get("async/" + job + "/destruction"); got != "2027-01-31T12:00:00.000Z" {
			t.Errorf("got destruction %s, want a year", got)
		}
	}
}

// Fields without a file count as parts do, and so does a file that was not chosen.
func TestPartsOfAFormAreCounted(t *testing.T) {
	w := newWorld(t, "")
	chosen := strings.Repeat("--b\r\nContent-Disposition: form-data; name=f; filename=\"\"\r\n\r\n\r\n", 2000)
	code, _, text := w.do("POST", w.srv.URL+"/uws/q/async", chosen+"--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("2000 parts: got %d, %s, want 413", code, text)
	}
	code, _, text = w.do("POST", w.srv.URL+"/uws/q/async", "--b\r\nContent-Disposition: form-data; name=a\r\nX: "+strings.Repeat("x", 100_000),
		"Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("a long header: got %d, %s, want 413", code, text)
	}
}
