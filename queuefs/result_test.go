package queuefs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
)

// leasedJob opens a home with one job, which it takes.
func leasedJob(t testing.TB) (dir string, s *queuefs.Service, q *queuefs.Queue, token string) {
	t.Helper()
	dir = fastDir(t)
	s, q = openHome(t, dir, queuefs.Options{Now: clock()})
	fillQueue(t, q, 1, 1)
	return dir, s, q, takeOne(t, q, time.Hour).Token
}

func TestResultNamesFromOutside(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "../../pending/j000000000001", "/etc/passwd", "a\x00b", "a b", "a\n",
		"ä", "%2e%2e", `a\b`, strings.Repeat("x", 65)} {
		wantErr(t, putResult(q, 1, token, name, "x"), queuefs.ErrBadName, "put %q", name)
		if _, _, err := q.Result(1, name); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("get %q: got %v", name, err)
		}
	}
	names := []string{"a", "-", "_", "a.b..c", "cutie-tmp-x", "j000000000001", strings.Repeat("x", 64)}
	for _, name := range names {
		must(t, putResult(q, 1, token, name, "of "+name))
	}
	j, err := q.Job(1)
	must(t, err)
	var got []string
	for _, r := range j.Results {
		got = append(got, r.Name)
		if c := result(t, q, 1, r.Name); c != "of "+r.Name {
			t.Errorf("%s: got %q", r.Name, c)
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("got %q want %q", got, names)
	}
	for name, want := range map[string]error{"A": queuefs.ErrNoResult, "b": queuefs.ErrNoResult} {
		if _, _, err := q.Result(1, name); !errors.Is(err, want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := q.Result(2, "a"); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("result of no job: got %v", err)
	}
	// A result may look like what is swept when a home is opened.
	must(t, s.Checkpoint(ctx))
	want := observe(t, s)
	closeHome(t, s)
	s, _ = openHome(t, dir, queuefs.Options{})
	want.expect(t, s)
}

// TestBadResultsAreRefused commits what is wrong, and finds nothing of it.
func TestBadResultsAreRefused(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	must(t, putResult(q, 1, token, "there", "x"))
	wantErr(t, putResult(q, 1, token, "there", "y"), queuefs.ErrResultExists, "second of a name")
	wantErr(t, errOf(q.NewResult(ctx, 1, token, "long", strings.Repeat("x", 256), nil)), queuefs.ErrTooBig, "long media type")
	wantErr(t, errOf(q.NewResult(ctx, 1, token, "odd", "", []digest.Value{{}})), queuefs.ErrBadName, "digest of no kind")
	write := func(name string, expect ...digest.Value) *queuefs.ResultUpload {
		t.Helper()
		d, err := q.NewResult(ctx, 1, token, name, "", expect)
		must(t, err)
		must(t, errOf(io.WriteString(d, "content")))
		return d
	}
	for _, typ := range digest.Types() {
		wantErr(t, errOf(write("wrong", digest.Sum(typ, []byte("other"))).Commit(ctx)), queuefs.ErrDigest, "wrong %v", typ)
		name := "right" + strings.ReplaceAll(typ.Token(), "/", "-")
		r, err := write(name, digest.Sum(typ, []byte("content"))).Commit(ctx)
		if want := (queuefs.Result{Name: name, Size: 7, SHA256: sha256.Sum256([]byte("content"))}); err != nil || r != want {
			t.Errorf("%v: got %+v, %v want %+v", typ, r, err, want)
		}
	}
	d := write("twice")
	must(t, errOf(d.Commit(ctx)))
	if _, err := d.Commit(ctx); err == nil {
		t.Error("committed twice")
	}
	if _, err := d.Write([]byte("x")); err == nil {
		t.Error("written to after it was committed")
	}
	d.Discard()
	write("dropped").Discard()
	first, second := write("race"), write("race")
	must(t, errOf(first.Commit(ctx)))
	wantErr(t, errOf(second.Commit(ctx)), queuefs.ErrResultExists, "the later of two")
	late := write("late")
	must(t, errOf(q.Return(ctx, 1, token, "")))
	wantErr(t, errOf(late.Commit(ctx)), queuefs.ErrLease, "after the job was returned")
	if got := standing(t, q, 1); got != "pending" {
		t.Errorf("got %s", got)
	}
	everywhere(t, s, dir)
}

func TestResultsAreLimited(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	var wg sync.WaitGroup
	var made atomic.Int64
	for n := range queuefs.MaxResults + 20 {
		wg.Go(func() {
			switch err := putResult(q, 1, token, fmt.Sprint("r", n), fmt.Sprint(n)); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, queuefs.ErrTooBig):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	j, err := q.Job(1)
	must(t, err)
	if made.Load() != queuefs.MaxResults || len(j.Results) != queuefs.MaxResults {
		t.Errorf("made %d, job has %d", made.Load(), len(j.Results))
	}
	everywhere(t, s, dir)
}

// TestResultsOfEachAttempt gives results of the same names in several
// attempts, with files written between them or not: those of the last one are
// left.
func TestResultsOfEachAttempt(t *testing.T) {
	for file := range 8 { // bits: write files after the first result, the requeue, the second result
		dir := fastDir(t)
		s, q := openHome(t, dir, queuefs.Options{Now: clock()})
		fillQueue(t, q, 1, 1)
		step := func(bit int) {
			if file&bit != 0 {
				must(t, s.Maintain(ctx))
			}
		}
		for n := range 3 {
			token := takeOne(t, q, time.Hour).Token
			must(t, putResult(q, 1, token, "same", fmt.Sprint("same ", n)))
			step(1)
			must(t, putResult(q, 1, token, fmt.Sprint("own", n), fmt.Sprint("own ", n)))
			step(4)
			if n < 2 {
				must(t, errOf(q.Requeue(ctx, 1)))
				step(2)
			}
		}
		if got, want := standing(t, q, 1), "consumed leased; result same text/plain same 2; result own2 text/plain own 2"; got != want {
			t.Errorf("files %b: got %s want %s", file, got, want)
		}
		everywhere(t, s, dir)
	}
}

// TestCheckTellsOfResults damages results by hand.
func TestCheckTellsOfResults(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	for _, name := range []string{"whole", "lost", "edited", "short"} {
		must(t, putResult(q, 1, token, name, "of "+name))
	}
	closeHome(t, s)
	in := filepath.Join(dir, "queues", "jobs", "result")
	must(t, os.Remove(filepath.Join(in, "j000000000001", "lost")))
	must(t, os.WriteFile(filepath.Join(in, "j000000000001", "edited"), []byte("OF edited"), 0o666))
	must(t, os.WriteFile(filepath.Join(in, "j000000000001", "short"), []byte("of"), 0o666))
	must(t, os.WriteFile(filepath.Join(in, "j000000000001", "brought"), nil, 0o666))
	must(t, os.MkdirAll(filepath.Join(in, "j000000000009"), 0o777))
	must(t, os.WriteFile(filepath.Join(in, "j000000000009", "of-no-job"), nil, 0o666))
	must(t, os.WriteFile(filepath.Join(in, "README"), nil, 0o666))
	inspect := func(repair bool, want ...string) {
		t.Helper()
		r, err := check.Home(dir, check.Options{Segment: segmentSize, Repair: repair})
		must(t, err)
		var got []string
		for _, p := range r.Problems {
			got = append(got, strings.TrimPrefix(p.String(), "queues/jobs/result/"))
		}
		for _, p := range r.Mended {
			got = append(got, "mended "+strings.TrimPrefix(p.String(), "queues/jobs/result/"))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	inspect(false,
		"README: not the name of a job",
		"j000000000001/brought: result that no job file names",
		"j000000000001/edited: result has not its size and SHA-256 digest",
		"j000000000001/lost: result missing",
		"j000000000001/short: result has not its size and SHA-256 digest",
		"j000000000009/of-no-job: result that no job file names")
	s, q = openHome(t, dir, queuefs.Options{})
	if got := result(t, q, 1, "whole"); got != "of whole" {
		t.Errorf("whole: got %s", got)
	}
	for _, name := range []string{"lost", "short", "edited"} {
		if _, _, err := q.Result(1, name); !errors.Is(err, queuefs.ErrResultDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	closeHome(t, s)
	// Nothing is deleted, and no job file names what is not there.
	inspect(true,
		"README: not the name of a job",
		"mended j000000000001/brought: result that no job file names; moved to corrupt/result-j000000000001-brought",
		"mended j000000000001/edited: result has not its size and SHA-256 digest; moved to corrupt/result-j000000000001-edited; the job has it no longer",
		"mended j000000000001/lost: result missing; the job has it no longer",
		"mended j000000000001/short: result has not its size and SHA-256 digest; moved to corrupt/result-j000000000001-short; the job has it no longer",
		"mended j000000000009/of-no-job: result that no job file names; moved to corrupt/result-j000000000009-of-no-job")
	inspect(false, "README: not the name of a job")
	if aside, err := os.ReadFile(filepath.Join(dir, "queues/jobs/corrupt/result-j000000000001-edited")); string(aside) != "OF edited" {
		t.Errorf("set aside: got %q, %v", aside, err)
	}
	s, q = openHome(t, dir, queuefs.Options{})
	j, err := q.Job(1)
	if err != nil || len(j.Results) != 1 || j.Results[0].Name != "whole" || !strings.Contains(j.Extra.Value("note"), "lost") {
		t.Errorf("got %+v, %v", j, err)
	}
	if got := result(t, q, 1, "whole"); got != "of whole" {
		t.Errorf("got %s", got)
	}
}

// TestResultsOutliveTheJobFile takes the job file away: what is written again
// names the results that are there.
func TestResultsOutliveTheJobFile(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	must(t, putResult(q, 1, token, "out", "content"))
	_, err := q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "m"})
	must(t, err)
	closeHome(t, s)
	must(t, os.Remove(filepath.Join(dir, "queues/jobs/consumed/j000000000001")))
	s, q = openHome(t, dir, queuefs.Options{})
	if got, want := standing(t, q, 1), "consumed error; result out  content"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	counted(t, q)
}

// Results of an aborted job come late from its consumer alone, for some time, and
// not once the job has begun anew.
func TestResultsAfterAnAbort(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: func() time.Time { return now }})
	defer s.Close()
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	must(t, errOf(q.Abort(ctx, 1, "enough")))
	must(t, putResult(q, 1, token, "log", "so far"))
	if got := result(t, q, 1, "log"); got != "so far" {
		t.Errorf("got %q", got)
	}
	refused := func(why, token string) {
		t.Helper()
		if err := putResult(q, 1, token, "more", "x"); !errors.Is(err, queuefs.ErrLease) {
			t.Errorf("%s: got %v, want the lease is gone", why, err)
		}
	}
	refused("another token", token[1:]+"x")
	refused("no token", "")
	now = now.Add(job.LateResults + time.Second)
	refused("too late", token)
	now = now.Add(-time.Minute)
	must(t, errOf(q.Requeue(ctx, 1)))
	refused("requeued", token)
	takeOne(t, q, time.Hour)
	refused("with another consumer", token)
}

// resultChanges returns what the events of a queue say of results.
func resultChanges(t *testing.T, q *queuefs.Queue, after queuefs.Seq) (said []string) {
	t.Helper()
	events, err := q.Events(after, 0)
	must(t, err)
	for _, e := range events {
		if e.Results == nil {
			continue
		}
		s := e.Kind.String()
		for _, r := range e.Results.Came {
			s += fmt.Sprintf(" +%s %d %s", r.Name, r.Size, r.MediaType)
		}
		for _, name := range e.Results.Went {
			s += " -" + name
		}
		said = append(said, s)
	}
	return said
}

// TestEventsNameResults asks the events which results came and went, before and after the
// home is opened again.
func TestEventsNameResults(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	fillQueue(t, q, 2, 1)
	token := takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 1, token, "a", "text"))
	must(t, putResult(q, 1, token, "b", ""))
	_, err := q.Requeue(ctx, 1)
	must(t, err)
	token = takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 1, token, "a", "other"))
	_, err = q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Completed})
	must(t, err)
	for _, err := range s.Cull(ctx, queuefs.CullOptions{Queue: q.ID(), Keep: &queuefs.Thresholds{}}) {
		must(t, err)
	}
	want := "outcome +a 4 text/plain; outcome +b 0 text/plain; requeue -a -b; outcome +a 5 text/plain; cull -a"
	if got := strings.Join(resultChanges(t, q, 0), "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	at := q.Seq()
	if got := strings.Join(resultChanges(t, q, 0), "; "); got != want {
		t.Errorf("opened again: got  %s\nwant %s", got, want)
	}
	// A moved job file is a requeue.
	token = takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 2, token, "c", "text"))
	closeHome(t, s)
	must(t, os.Rename(filepath.Join(dir, "queues/jobs/consumed/j000000000002"), filepath.Join(dir, "queues/jobs/pending/j000000000002")))
	s, q = openHome(t, dir, queuefs.Options{})
	if got, want := strings.Join(resultChanges(t, q, at), "; "), "outcome +c 4 text/plain; requeue -c"; got != want {
		t.Errorf("moved by hand: got  %s\nwant %s", got, want)
	}
	everywhere(t, s, dir)
}

// TestEventsNameManyLongResults has a record longer than others, before its job file.
func TestEventsNameManyLongResults(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: clock()})
	defer s.Close()
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	for n := range queuefs.MaxResults {
		must(t, putResult(q, 1, token, fmt.Sprintf("%s%03d", strings.Repeat("n", job.MaxResultName-3), n), "x"))
	}
	must(t, errOf(q.Requeue(ctx, 1)))
	said := resultChanges(t, q, 0)
	if n := len(said); n != queuefs.MaxResults+1 || strings.Count(said[n-1], " -") != queuefs.MaxResults {
		t.Errorf("got %d changes, the last is %.200s", n, said[n-1])
	}
	j, err := q.Job(1)
	if err != nil || j.Status != queuefs.Pending || j.Requeues != 1 {
		t.Errorf("got %+v, %v", j, err)
	}
}

// resultsOf reads the results of a job.
func resultsOf(t testing.TB, q *queuefs.Queue, id queuefs.JobID) map[string]string {
	t.Helper()
	j, err := q.Job(id)
	must(t, err)
	all := map[string]string{}
	for _, r := range j.Results {
		all[r.Name] = result(t, q, id, r.Name)
	}
	return all
}

// Small results travel in the journal and in images, large ones are objects of their own.
// Whatever a node begins with, each job has its results, and those of an attempt before
// are gone.
func TestSmallResultsAreNoObjects(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	a := mustStored(t, fastDir(t)+"/a", m)
	q := createQueue(t, a, queuefs.QueueInfo{Identifier: "jobs"})
	submitN(t, q, 4, queuefs.Meta{}, "x")
	taken, err := q.Take(ctx, queuefs.Take{User: "worker", Max: 4, Lease: 1 << 40})
	must(t, err)
	large := strings.Repeat("large", 10<<10)
	want := map[queuefs.JobID]map[string]string{
		1: {"log": "", "out": "of one"},
		2: {"log": "before", "out": "after the image"},
		3: {"log": "of the second attempt"},
		4: {"large": large, "small": "beside a large one, after the image"},
	}
	see := func(where string, s *queuefs.Service) {
		t.Helper()
		q, err := s.Queue("jobs")
		must(t, err)
		for id, want := range want {
			got := resultsOf(t, q, id)
			for name := range want {
				if got[name] != want[name] || len(got) != len(want) {
					t.Errorf("%s: job %v has %.60q, want %.60q", where, id, got, want)
				}
			}
		}
	}
	whole := func(where string) {
		t.Helper()
		st, err := stored.Look(context.Background(), m)
		must(t, err)
		r, err := st.Check(context.Background())
		must(t, err)
		if len(r.Faults) > 0 || r.Files != 1 {
			t.Errorf("%s: %d files, %v", where, r.Files, r.Faults)
		}
	}
	must(t, putResult(q, taken[0].ID, taken[0].Token, "log", ""))
	must(t, putResult(q, taken[0].ID, taken[0].Token, "out", "of one"))
	must(t, putResult(q, taken[1].ID, taken[1].Token, "log", "before"))
	must(t, putResult(q, taken[2].ID, taken[2].Token, "log", "of the first attempt"))
	must(t, putResult(q, taken[2].ID, taken[2].Token, "out", "of the first attempt"))
	must(t, putResult(q, taken[3].ID, taken[3].Token, "large", large))
	whole("in the journal")
	must(t, a.Image(ctx))
	must(t, a.Image(ctx)) // the journal of the results is gone
	whole("in the image")
	must(t, putResult(q, taken[1].ID, taken[1].Token, "out", "after the image"))
	must(t, putResult(q, taken[3].ID, taken[3].Token, "small", want[4]["small"]))
	must(t, errOf(q.Requeue(ctx, 3)))
	again, err := q.Take(ctx, queuefs.Take{User: "worker", Max: 1, Lease: 1 << 40})
	must(t, err)
	must(t, putResult(q, again[0].ID, again[0].Token, "log", "of the second attempt"))
	whole("in both")
	see("the owner", a)
	b := standBy(t, "b", m)
	see("a standby", b)
	must(t, b.Bring(ctx))
	see("a standby with all pages", b)
	must(t, b.TakeOver(ctx, false))
	must(t, b.Image(ctx))
	see("the next owner", b)
	closeHome(t, b)
	c := mustStored(t, fastDir(t)+"/c", m)
	see("a fresh node", c)
	whole("in the next image")
	closeHome(t, c)
}
