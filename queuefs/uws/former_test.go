package uws_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/uws"
	"cutie/testdata/long"
)

// A formerHome is one of a former version: jobs made here have identifiers that
// say nothing of their numbers, and records beside the queue.
type formerHome struct {
	*world
	staged, jobs string // directories
}

func newFormer(t *testing.T, dir string) formerHome {
	t.Helper()
	w := newWorldIn(t, dir, "")
	at := filepath.Join(w.dir, "uws", "q")
	f := formerHome{w, filepath.Join(at, "staged"), filepath.Join(at, "jobs")}
	for _, dir := range []string{f.staged, f.jobs} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

const formerRecord = "created: 2026-01-31T12:00:00.000Z\nowner: ann\nsubmitter: agent\nrunId: mine\nexecutionDuration: 60\ndestruction: 2026-03-02T12:00:00.000Z\n"

// stage writes the record of a job that was not started.
func (f formerHome) stage(more string, files ...string) (id string) {
	f.t.Helper()
	id = uws.NewID()
	text := formerRecord + "parameter: a=1\nparameter: b+c=%3D\n"
	for i, content := range files {
		text += fmt.Sprintf("upload: f%d\nuploadFilename: name%d\nuploadMediaType: text/x-%d\nuploadSize: %d\n", i, i, i, len(content))
		write(f.t, filepath.Join(f.staged, fmt.Sprint(id, ".upload", i)), content)
	}
	write(f.t, filepath.Join(f.staged, id), text+more)
	return id
}

// submit submits a job as RUN did.
func (f formerHome) submit(id string) queuefs.JobID {
	f.t.Helper()
	sub := f.q.Begin()
	d, err := sub.Add(queuefs.Meta{Owner: "ann", Sidecar: `a=1; b c=\=`, MediaType: "application/x-www-form-urlencoded",
		Extra: anvl.Record{{Name: "uws-id", Value: id}, {Name: "uws-created", Value: "2026-01-31T12:00:00.000Z"}, {Name: "uws-runid", Value: "mine"}}})
	if err != nil {
		f.t.Fatal(err)
	}
	d.Write([]byte("a=1&b+c=%3D"))
	jobs, err := sub.Commit(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return jobs[0].ID
}

// start makes a job of the queue with its record.
func (f formerHome) start(more string) (id string, n queuefs.JobID) {
	f.t.Helper()
	id = uws.NewID()
	n = f.submit(id)
	write(f.t, filepath.Join(f.jobs, id), formerRecord+"job: "+n.String()+"\n"+more)
	return id, n
}

// fill makes jobs in every phase, and returns what clients are to see of each.
func (f formerHome) fill() ledger {
	f.t.Helper()
	ctx := f.t.Context()
	want := ledger{}
	phase := func(id string, n queuefs.JobID, phase string) queuefs.JobID {
		want[id] = []string{phase}
		return n
	}
	start := func(to, more string) queuefs.JobID {
		id, n := f.start(more)
		return phase(id, n, to)
	}
	start("COMPLETED", "")
	f.finish(f.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	start("ERROR", "")
	f.finish(f.take(), queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no"})
	if _, err := f.q.Abort(ctx, start("ABORTED", ""), "aborted"); err != nil {
		f.t.Fatal(err)
	}
	start("", "destroyed: 2026-01-31T12:00:00.000Z\n")
	f.finish(f.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	start("ARCHIVED", "archived: 2026-01-31T13:00:00.000Z\n")
	f.finish(f.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	again := start("QUEUED", "")
	f.finish(f.take(), queuefs.Conclusion{Outcome: queuefs.Failed})
	if _, err := f.q.RequeueEnd(ctx, again); err != nil {
		f.t.Fatal(err)
	}
	executing := start("EXECUTING", "")
	f.take()                              // the one at the end of the queue again
	if j := f.take(); j.ID != executing { // and this one
		f.t.Fatalf("took %v", j.ID)
	}
	for id, phases := range want {
		if phases[0] == "QUEUED" {
			want[id] = []string{"EXECUTING"}
		}
	}
	if _, err := f.q.Hold(ctx, start("HELD", ""), "why"); err != nil {
		f.t.Fatal(err)
	}
	start("QUEUED", "")
	plain := f.submit("")
	write(f.t, filepath.Join(f.jobs, plain.String()), "created: 2026-01-31T12:00:00.000Z\njob: "+plain.String()+"\ndestruction: 2026-03-01T00:00:00.000Z\n")
	want[plain.String()] = []string{"QUEUED"}

	want[f.stage("")] = []string{"PENDING"}
	want[f.stage("", "one file")] = []string{"PENDING"}
	want[f.stage("", "one file", strings.Repeat("another file", 20_000))] = []string{"PENDING"}
	want[f.stage("aborted: 2026-01-31T12:30:00.000Z\n")] = []string{"ABORTED"}
	want[f.stage("running: j000000000001\n")] = []string{"PENDING"} // before the job was submitted
	run := f.stage("running: j000000000001\n")                      // before the record followed
	f.submit(run)
	want[run] = []string{"QUEUED"}
	run, _ = f.start("") // before what was staged had gone
	write(f.t, filepath.Join(f.staged, run), formerRecord+"running: j000000000001\nparameter: a=1\n")
	want[run] = []string{"QUEUED"}
	for _, left := range []string{"cutie-tmp-x", uws.NewID() + ".upload0", run + ".untold-ABORTED-7"} {
		write(f.t, filepath.Join(f.staged, left), "left")
	}
	return want
}

// moved compares what clients see with what they are to see.
func (f formerHome) moved(when string, want ledger) {
	f.t.Helper()
	for id, phases := range want {
		status, _, phase := f.do("GET", "async/"+id+"/phase", "")
		if status == 404 {
			phase = ""
		}
		if phase != phases[0] {
			f.t.Errorf("%s: got %d %q of job %s, want %q", when, status, phase, id, phases[0])
		}
		if phase == "" || id[0] == 'j' {
			continue
		}
		text := f.get("async/" + id)
		for name, want := range map[string]string{"creationTime": "2026-01-31T12:00:00.000Z", "runId": "mine", "ownerId": "ann", "destruction": "2026-03-02T12:00:00.000Z"} {
			if got := element(text, name); got != want && phase != "ARCHIVED" {
				f.t.Errorf("%s: got %s %q of job %s, want %q", when, name, got, id, want)
			}
		}
		if got := element(text, "executionDuration"); got != "60" && !strings.Contains(text, "attempts") {
			f.t.Errorf("%s: got duration %s of job %s", when, got, id)
		}
	}
	if got := len(ids(f.get("async"))); got != len(want)-2 {
		f.t.Errorf("%s: got %d jobs in the list, want all of %d but the destroyed and the archived", when, got, len(want))
	}
	for _, dir := range []string{f.staged, f.jobs} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			f.t.Errorf("%s: %s is still there: %v", when, dir, err)
		}
	}
}

func (f formerHome) reopen() {
	f.close()
	f.open(nil)
}

func TestJobsOfAFormerVersionAreMoved(t *testing.T) {
	f := newFormer(t, t.TempDir())
	want := f.fill()
	f.reopen()
	f.tick()
	f.moved("moved", want)
	f.reopen()
	f.moved("opened again", want)
	for id, phases := range want {
		if phases[0] != "PENDING" {
			continue
		}
		text := f.get("async/" + id)
		if !strings.Contains(text, `<uws:parameter id="b c">=</uws:parameter>`) {
			t.Errorf("got %s", text)
		}
		if strings.Contains(text, "f1") {
			if got := f.get("async/" + id + "/parameters/f1"); got != strings.Repeat("another file", 20_000) {
				t.Errorf("got %d octets of a file", len(got))
			}
		} else if strings.Contains(text, "f0") {
			if got := f.get("async/" + id + "/parameters/f0"); got != "one file" {
				t.Errorf("got %q of a file", got)
			}
		}
		f.want(303, "POST", "async/"+id+"/parameters", "a=2")
		f.want(303, "POST", "async/"+id+"/phase", "PHASE=RUN")
		f.phase("async/"+id, "QUEUED")
		want[id][0] = "QUEUED"
	}
	f.reopen()
	f.moved("started", want)
	f.sleep(100 * 24 * time.Hour)
	f.tick()
	if got := ids(f.get("async")); len(got) != 0 {
		t.Errorf("got %v long after the destruction of all", got)
	}
	f.cull()
	f.reopen()
	f.want(404, "GET", "async/"+uws.NewID(), "")
}

// Jobs that were not started stand in the queue in the order of their making.
func TestJobsOfAFormerVersionKeepTheirOrder(t *testing.T) {
	f := newFormer(t, t.TempDir())
	const jobs = 30
	for i := range jobs { // the names of their records are in no order
		id := uws.NewID()
		created := fmt.Sprintf("created: 2026-01-31T12:00:%02d.000Z\n", i)
		write(t, filepath.Join(f.staged, id), created+strings.SplitN(formerRecord, "\n", 2)[1]+fmt.Sprintf("parameter: n=%d\n", i))
	}
	f.reopen()
	f.tick()
	all, err := f.q.List(queuefs.ListOptions{Held: true})
	if err != nil || len(all) != jobs {
		t.Fatalf("got %d jobs, %v, want %d", len(all), err, jobs)
	}
	for i, j := range all {
		if want := fmt.Sprintf("n=%d", i); j.Sidecar != want {
			t.Errorf("job %v: got %q, want %q", j.ID, j.Sidecar, want)
		}
	}
}

// A move that was broken off at any step is done by the next start.
func TestMoveIsDoneAfterAKillAtAnyStep(t *testing.T) {
	for at, fired := 1, true; fired && !t.Failed(); at += long.N(8, 1) {
		f := newFormer(t, fastDir(t))
		want := f.fill()
		f.close()
		n, mu := 0, sync.Mutex{}
		fired = false
		f.fault, f.quiet = func(step string, do func() error) error {
			mu.Lock()
			n++
			stop := n > at
			fired = fired || stop
			mu.Unlock()
			if stop {
				return syscall.EIO
			}
			return do()
		}, true
		svc, err := queuefs.Open(f.dir, queuefs.Options{Now: f.clock, Fault: f.fault, Segment: 1 << 20})
		if err == nil {
			h, err := uws.New(svc, uws.Options{Now: f.clock})
			if err != nil {
				t.Fatal(err)
			}
			h.Close()
			svc.Close()
		}
		f.fault = nil
		f.open(nil)
		f.tick()
		f.moved(fmt.Sprint("stopped at step ", at), want)
	}
}

// Records that cannot be read, or are older than their queue, are kept for a
// person to look at, with their files.
func TestRecordsThatCannotBeMovedAreSetAside(t *testing.T) {
	f := newFormer(t, t.TempDir())
	strange, fine := f.stage("nonsense\n", "one", "two"), f.stage("")
	started, n := f.start("archived: soon\n")
	old := f.stage("created: 2025-01-31T12:00:00.000Z\n")
	f.reopen()
	err := f.h.Tick(context.Background())
	for _, id := range []string{strange, started, old} {
		if err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("got %v, want %s named", err, id)
		}
	}
	f.tick() // it was told once
	got := names(t, filepath.Join(f.dir, "uws", "q", "corrupt"))
	slices.Sort(got)
	want := []string{strange, strange + ".upload0", strange + ".upload1", started, old}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("got %v set aside, want %v", got, want)
	}
	f.want(404, "GET", "async/"+strange, "")
	f.phase("async/"+fine, "PENDING")
	// The job itself is in the queue, and goes by its number.
	f.phase("async/"+n.String(), "QUEUED")
}

// What cannot be read just now is tried again.
func TestMoveThatFailedIsTriedAgain(t *testing.T) {
	f := newFormer(t, t.TempDir())
	id := f.stage("")
	f.close()
	if err := os.Rename(f.staged, f.staged+".away"); err != nil {
		t.Fatal(err)
	}
	write(t, f.staged, "no directory")
	f.open(nil)
	f.quiet = true
	f.want(500, "GET", "async/"+id, "")
	if err := f.h.Tick(context.Background()); err == nil {
		t.Error("nobody is told")
	}
	if err := os.Remove(f.staged); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.staged+".away", f.staged); err != nil {
		t.Fatal(err)
	}
	f.phase("async/"+id, "PENDING")
}

// A closed queue takes the jobs that it had.
func TestJobsAreMovedIntoAClosedQueue(t *testing.T) {
	f := newFormer(t, t.TempDir())
	id := f.stage("")
	if _, err := f.svc.SetQueue(t.Context(), "q", func(i *queuefs.QueueInfo) error { i.Closed = true; return nil }); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	f.phase("async/"+id, "PENDING")
	f.want(403, "POST", "async", "a=1")
}
