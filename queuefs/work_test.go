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
	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
)

// workOf tells what consumers and operators made of a job, with the contents
// of its results.
func workOf(t testing.TB, q *queuefs.Queue, j *job.Job) string {
	t.Helper()
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if !j.Held.IsZero() {
		say("held %q", j.HeldFor)
	}
	if !j.HeldUntil.IsZero() {
		say("until %s", job.FormatTime(j.HeldUntil))
	}
	if !j.Lease.Ends.IsZero() {
		say("leased")
	}
	if j.Outcome != 0 {
		say("%v", j.Outcome)
	}
	if j.Outcome != 0 == j.Finished.IsZero() {
		say("finished %v", j.Finished)
	}
	if j.Transient {
		say("transient")
	}
	if j.Message != "" {
		say("message %q", j.Message)
	}
	if !j.Destruction.IsZero() {
		say("destruction %s", j.Destruction.Format(time.DateOnly))
	}
	for _, e := range j.Extra {
		if strings.HasPrefix(e.Name, "requeued") || e.Name == "name" {
			say("%s %s", e.Name, e.Value)
		}
	}
	for _, r := range j.Results {
		say("result %s %s %s", r.Name, r.MediaType, result(t, q, j.ID, r.Name))
	}
	return strings.Join(parts, "; ")
}

// resultsIn returns the names of the results in what workOf told.
func resultsIn(work string) (names []string) {
	for _, part := range strings.Split(work, "; ") {
		if f := strings.Fields(part); len(f) > 1 && f[0] == "result" {
			names = append(names, f[1])
		}
	}
	return names
}

// taken is what is left of work when the job is handed out.
func taken(work string) string {
	parts := slices.DeleteFunc(strings.Split(work, "; "), func(p string) bool { return strings.HasPrefix(p, "message ") })
	return strings.Join(parts, "; ")
}

// result returns the contents of a result, or the error.
func result(t testing.TB, q *queuefs.Queue, id job.ID, name string) string {
	t.Helper()
	r, p, err := q.Result(id, name)
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	data, err := io.ReadAll(p)
	if err != nil || int64(len(data)) != r.Size || r.Size != p.Size() || r.Name != name {
		t.Errorf("result %s of %v: got %+v with %d octets, %v", name, id, r, len(data), err)
	}
	return string(data)
}

func putResult(q *queuefs.Queue, id job.ID, token, name, content string) error {
	d, err := q.NewResult(ctx, id, token, name, "text/plain", nil)
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err := io.WriteString(d, content); err != nil {
		return err
	}
	_, err = d.Commit(ctx)
	return err
}

func takeOne(t testing.TB, q *queuefs.Queue, lease time.Duration) queuefs.Taken {
	t.Helper()
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: lease})
	if err != nil || len(taken) != 1 {
		t.Fatalf("take: got %d jobs, %v", len(taken), err)
	}
	return taken[0]
}

// A stage is a job in each of the states that work brings it to.
var stages = []struct {
	name  string
	reach func(t testing.TB, q *queuefs.Queue) (token string)
}{
	{"pending", func(t testing.TB, q *queuefs.Queue) string { return "" }},
	{"held", func(t testing.TB, q *queuefs.Queue) string {
		must(t, errOf(q.Hold(ctx, 1, "broken")))
		return ""
	}},
	{"consumed", func(t testing.TB, q *queuefs.Queue) string { return takeOne(t, q, 0).Token }},
	{"leased", func(t testing.TB, q *queuefs.Queue) string {
		token := takeOne(t, q, time.Hour).Token
		must(t, putResult(q, 1, token, "first", "one"))
		return token
	}},
	{"completed", func(t testing.TB, q *queuefs.Queue) string {
		token := takeOne(t, q, time.Hour).Token
		must(t, putResult(q, 1, token, "first", "one"))
		must(t, errOf(q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Completed, Message: "well\ndone"})))
		return token
	}},
	{"failed", func(t testing.TB, q *queuefs.Queue) string {
		token := takeOne(t, q, time.Hour).Token
		_, err := q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Failed, Message: "no luck", Transient: true})
		must(t, err)
		return token
	}},
	{"aborted", func(t testing.TB, q *queuefs.Queue) string {
		token := takeOne(t, q, time.Hour).Token
		must(t, errOf(q.Abort(ctx, 1, "enough")))
		return token
	}},
	{"deleted", func(t testing.TB, q *queuefs.Queue) string {
		must(t, errOf(q.Delete(ctx, 1)))
		return ""
	}},
}

// works are the calls of the state table; token is that of the last lease.
var works = []struct {
	name string
	do   func(q *queuefs.Queue, token string) error
}{
	{"hold", func(q *queuefs.Queue, _ string) error { _, err := q.Hold(ctx, 1, "wait"); return err }},
	{"release", func(q *queuefs.Queue, _ string) error { _, err := q.Release(ctx, 1); return err }},
	{"take", func(q *queuefs.Queue, _ string) error {
		_, err := q.Take(ctx, queuefs.Take{By: "v", Lease: time.Hour})
		return err
	}},
	{"extend", func(q *queuefs.Queue, k string) error { _, err := q.Extend(ctx, 1, k, time.Hour); return err }},
	{"conclude", func(q *queuefs.Queue, k string) error {
		_, err := q.Conclude(ctx, 1, k, job.Conclusion{Outcome: job.Completed})
		return err
	}},
	{"return", func(q *queuefs.Queue, k string) error { _, err := q.Return(ctx, 1, k, "not mine"); return err }},
	{"abort", func(q *queuefs.Queue, _ string) error { _, err := q.Abort(ctx, 1, "stop"); return err }},
	{"result", func(q *queuefs.Queue, k string) error { return putResult(q, 1, k, "second", "two") }},
	{"delete", func(q *queuefs.Queue, _ string) error { _, err := q.Delete(ctx, 1); return err }},
	{"requeue", func(q *queuefs.Queue, _ string) error { _, err := q.Requeue(ctx, 1); return err }},
	{"requeue at its event", func(q *queuefs.Queue, _ string) error { return requeueAt(q, 1, 0) }},
	{"requeue at an earlier one", func(q *queuefs.Queue, _ string) error { return requeueAt(q, 1, 1) }},
	{"hold at its event", func(q *queuefs.Queue, _ string) error { return holdAt(q, 1, 0, "wait") }},
	{"hold at an earlier one", func(q *queuefs.Queue, _ string) error { return holdAt(q, 1, 1, "wait") }},
	{"requeue at the end", func(q *queuefs.Queue, _ string) error { _, err := q.RequeueEnd(ctx, 1); return err }},
}

// requeueAt is RequeueAt as many events before the last one of the job.
func requeueAt(q *queuefs.Queue, id job.ID, before job.Seq) error {
	j, err := q.Job(id)
	if err == nil {
		_, err = q.RequeueAt(ctx, id, j.Seq-before)
	}
	return err
}

// holdAt is HoldAt, likewise.
func holdAt(q *queuefs.Queue, id job.ID, before job.Seq, why string) error {
	j, err := q.Job(id)
	if err == nil {
		_, err = q.HoldAt(ctx, id, j.Seq-before, why)
	}
	return err
}

// TestWorkInEveryState does each call in each state: it does what the table
// says or refuses and changes nothing, and what it did is there after the
// machine stopped at this instant, after a clean stop, and when the index is
// made again from the files.
func TestWorkInEveryState(t *testing.T) {
	var (
		notPending = job.ErrNotPending
		conflict   = job.ErrConflict
		lease      = queuefs.ErrLease
		empty      = ledger.ErrEmpty
	)
	const done, failed, aborted = `consumed completed; message "well\ndone"; result first text/plain one`,
		`consumed error; transient; message "no luck"`, `consumed aborted; message "enough"`
	want := map[string][]any{ // of each stage, by works
		"pending": {`pending held "wait"`, `pending`, `consumed leased`, lease, lease, lease, `deleted aborted; message "stop"`, lease,
			`deleted`, `pending`, conflict, conflict, `pending held "wait"`, conflict, conflict},
		"held": {`pending held "wait"`, `pending`, empty, lease, lease, lease, `deleted aborted; message "stop"`, lease,
			`deleted`, `pending held "broken"`, conflict, conflict, `pending held "wait"`, conflict, conflict},
		"consumed": {notPending, notPending, empty, lease, lease, lease, conflict, lease,
			notPending, `pending`, `pending`, conflict, notPending, notPending, `consumed requeuedAs j000000000002`},
		"leased": {notPending, notPending, empty, `consumed leased; result first text/plain one`, `consumed completed; result first text/plain one`,
			`pending message "not mine"`, `consumed aborted; message "stop"; result first text/plain one`,
			`consumed leased; result first text/plain one; result second text/plain two`, notPending, `pending`, `pending`, conflict, notPending, notPending, conflict},
		"completed": {notPending, notPending, empty, lease, lease, lease, conflict, lease,
			notPending, `pending`, `pending`, conflict, notPending, notPending, `consumed completed; message "well\ndone"; requeuedAs j000000000002; result first text/plain one`},
		"failed": {notPending, notPending, empty, lease, lease, lease, conflict, lease,
			notPending, `pending`, `pending`, conflict, notPending, notPending, failed + `; requeuedAs j000000000002`},
		"aborted": {notPending, notPending, empty, lease, lease, lease, conflict, aborted + "; result second text/plain two",
			notPending, `pending`, `pending`, conflict, notPending, notPending, aborted + `; requeuedAs j000000000002`},
		"deleted": {notPending, notPending, empty, lease, lease, lease, conflict, lease,
			`deleted`, `pending`, conflict, conflict, notPending, notPending, `deleted requeuedAs j000000000002`},
	}
	before := map[string]string{"pending": "pending", "held": `pending held "broken"`, "consumed": "consumed",
		"leased": "consumed leased; result first text/plain one", "completed": done, "failed": failed, "aborted": aborted, "deleted": "deleted"}
	for _, stage := range stages {
		for i, work := range works {
			t.Run(stage.name+" "+work.name, func(t *testing.T) {
				t.Parallel()
				dir := fastDir(t)
				s, q := openWith(t, dir, queuefs.Options{Now: clock()}, func(i *home.QueueInfo) { i.MaxAttempts = 1 })
				submit(t, q, job.Meta{Filename: "f", Sidecar: "s"}, "payload")
				token := stage.reach(t, q)
				if got := standing(t, q, 1); got != before[stage.name] {
					t.Fatalf("before: got %s want %s", got, before[stage.name])
				}
				seq := q.Seq()
				err := work.do(q, token)
				happened := q.Seq() - seq
				if next := submit(t, q, job.Meta{}, ""); next.Seq != seq+happened+1 {
					t.Errorf("after %d events the next one is %d, it was %d", happened, next.Seq, seq)
				}
				as := before[stage.name]
				switch want := want[stage.name][i].(type) {
				case error:
					if !errors.Is(err, want) || happened != 0 || standing(t, q, 1) != as {
						t.Errorf("got %v, %d events and %s, want %v", err, happened, standing(t, q, 1), want)
					}
					counted(t, q)
					closeHome(t, s)
					return
				case string:
					as = want
					if err != nil || happened == 0 != (as == before[stage.name] && work.name != "extend") {
						t.Errorf("got %v and %d events", err, happened)
					}
				}
				if got := standing(t, q, 1); got != as {
					t.Errorf("got %s want %s", got, as)
				}
				everywhere(t, s, dir)
			})
		}
	}
}

func standing(t testing.TB, q *queuefs.Queue, id job.ID) string {
	t.Helper()
	j := sure(q.Job(id))(t)
	return strings.TrimSpace(j.Status.String() + " " + workOf(t, q, &j))
}

// counted tests that what the state of a queue says agrees with its jobs.
func counted(t testing.TB, q *queuefs.Queue) ledger.State {
	t.Helper()
	jobs := sure(q.List(index.Filter{Limit: 1 << 20}))(t)
	got := q.State()
	want := got
	want.Pending, want.Consumed, want.Deleted, want.Held, want.Leased, want.Failed = 0, 0, 0, 0, 0, 0
	var held, failed []job.ID
	for _, j := range jobs {
		switch j.Status {
		case job.Pending:
			want.Pending++
		case job.Consumed:
			want.Consumed++
		case job.Deleted:
			want.Deleted++
		}
		if !j.Held.IsZero() {
			want.Held++
			held = append(held, j.ID)
		}
		if !j.Lease.Ends.IsZero() {
			want.Leased++
		}
		if j.Outcome == job.Failed {
			want.Failed++
			failed = append(failed, j.ID)
		}
	}
	if got != want {
		t.Errorf("state: got %+v\nwant %+v", got, want)
	}
	if got := q.IDs(index.Filter{Held: true, Limit: 1 << 20}); fmt.Sprint(got) != fmt.Sprint(held) {
		t.Errorf("held: got %v want %v", got, held)
	}
	if got := q.IDs(index.Filter{Outcome: job.Failed, Limit: 1 << 20}); fmt.Sprint(got) != fmt.Sprint(failed) {
		t.Errorf("failed: got %v want %v", got, failed)
	}
	return got
}

// outlives tests that a home is the same after a crash now, and after a clean stop. It
// closes the home.
func outlives(t testing.TB, s *queuefs.Service, dir string) {
	t.Helper()
	want, crashed := observe(t, s), copyHome(t, dir)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		s, _ := openHome(t, dir, queuefs.Options{})
		want.expect(t, s)
		closeHome(t, s)
	}
}

// everywhere tests that the home is the same after a crash now, with its files
// written and not, after a clean stop, and with its index made again, and that
// its files are those of its jobs. It closes the home.
func everywhere(t testing.TB, s *queuefs.Service, dir string) {
	t.Helper()
	want := observe(t, s)
	is := func(when, dir string) {
		t.Helper()
		s, q := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Errorf("%s: %v", when, p) }})
		want.expect(t, s, "%s", when)
		counted(t, q)
		closeHome(t, s)
		v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
		v.checkFiles(want)
	}
	q := sure(s.Queue("jobs"))(t)
	counted(t, q)
	is("crash", copyHome(t, dir))
	must(t, s.Maintain(ctx))
	is("crash with files", copyHome(t, dir))
	must(t, s.Checkpoint(ctx))
	is("crash behind a checkpoint", copyHome(t, dir))
	closeHome(t, s)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	is("stop", dir)
	r, err := check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true})
	r.Mended = slices.DeleteFunc(r.Mended, func(p durable.Finding) bool { return p.Path == tableFile })
	if err != nil || len(r.Problems)+len(r.Mended) > 0 {
		t.Errorf("rebuild: %v, problems %v, mended %v", err, r.Problems, r.Mended)
	}
	is("rebuilt", dir)
}

// TestWorkMovedByHand moves job files between the directories while nobody
// has the home open: what cannot be true there is gone.
func TestWorkMovedByHand(t *testing.T) {
	for _, stage := range stages {
		for _, to := range []job.Status{job.Pending, job.Consumed, job.Deleted} {
			t.Run(fmt.Sprint(stage.name, " to ", to), func(t *testing.T) {
				t.Parallel()
				dir := fastDir(t)
				s, q := openWith(t, dir, queuefs.Options{}, func(i *home.QueueInfo) { i.MaxAttempts = 1 })
				submit(t, q, job.Meta{}, "payload")
				stage.reach(t, q)
				before := standing(t, q, 1)
				from, _ := q.Status(1)
				closeHome(t, s)
				if from == to {
					return
				}
				path := func(st job.Status) string {
					return filepath.Join(dir, "queues/jobs", st.String(), "j000000000001")
				}
				must(t, os.Rename(path(from), path(to)))
				s, q = openHome(t, dir, queuefs.Options{})
				_, rest, _ := strings.Cut(before, " ")
				switch {
				case to == job.Pending:
					rest = ""
				case from == job.Pending, to == job.Deleted:
					rest = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(rest, `held "broken"`), "leased"), "; ")
				}
				if got, want := standing(t, q, 1), strings.TrimSpace(to.String()+" "+rest); got != want {
					t.Errorf("got %s want %s", got, want)
				}
				everywhere(t, s, dir)
			})
		}
	}
}

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
		wantErr(t, putResult(q, 1, token, name, "x"), job.ErrBadName, "put %q", name)
		if _, _, err := q.Result(1, name); !errors.Is(err, job.ErrBadName) {
			t.Errorf("get %q: got %v", name, err)
		}
	}
	names := []string{"a", "-", "_", "a.b..c", "cutie-tmp-x", "j000000000001", strings.Repeat("x", 64)}
	for _, name := range names {
		must(t, putResult(q, 1, token, name, "of "+name))
	}
	j := sure(q.Job(1))(t)
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
	for name, want := range map[string]error{"A": content.ErrNoResult, "b": content.ErrNoResult} {
		if _, _, err := q.Result(1, name); !errors.Is(err, want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := q.Result(2, "a"); !errors.Is(err, ledger.ErrNoJob) {
		t.Errorf("result of no job: got %v", err)
	}
	// A result may look like what is swept when a home is opened.
	must(t, s.Checkpoint(ctx))
	outlives(t, s, dir)
}

// TestBadResultsAreRefused commits what is wrong, and finds nothing of it.
func TestBadResultsAreRefused(t *testing.T) {
	dir, s, q, token := leasedJob(t)
	must(t, putResult(q, 1, token, "there", "x"))
	wantErr(t, putResult(q, 1, token, "there", "y"), queuefs.ErrResultExists, "second of a name")
	wantErr(t, errOf(q.NewResult(ctx, 1, token, "long", strings.Repeat("x", 256), nil)), job.ErrTooBig, "long media type")
	wantErr(t, errOf(q.NewResult(ctx, 1, token, "odd", "", []digest.Value{{}})), job.ErrBadName, "digest of no kind")
	write := func(name string, expect ...digest.Value) *queuefs.ResultUpload {
		t.Helper()
		d := sure(q.NewResult(ctx, 1, token, name, "", expect))(t)
		must(t, errOf(io.WriteString(d, "content")))
		return d
	}
	for _, typ := range digest.Types() {
		wantErr(t, errOf(write("wrong", digest.Sum(typ, []byte("other"))).Commit(ctx)), digest.ErrMismatch, "wrong %v", typ)
		name := "right" + strings.ReplaceAll(typ.Token(), "/", "-")
		r, err := write(name, digest.Sum(typ, []byte("content"))).Commit(ctx)
		if want := (job.Result{Name: name, Size: 7, SHA256: sha256.Sum256([]byte("content"))}); err != nil || r != want {
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
			case !errors.Is(err, job.ErrTooBig):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	j := sure(q.Job(1))(t)
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
		r := sure(check.Home(dir, check.Options{Segment: segmentSize, Repair: repair}))(t)
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
		if _, _, err := q.Result(1, name); !errors.Is(err, content.ErrResultDamaged) {
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
	_, q = openHome(t, dir, queuefs.Options{})
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
	must(t, errOf(q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Failed, Message: "m"})))
	closeHome(t, s)
	must(t, os.Remove(filepath.Join(dir, "queues/jobs/consumed/j000000000001")))
	_, q = openHome(t, dir, queuefs.Options{})
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
		wantErr(t, putResult(q, 1, token, "more", "x"), queuefs.ErrLease, "%s", why)
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
func resultChanges(t *testing.T, q *queuefs.Queue, after job.Seq) (said []string) {
	t.Helper()
	events := sure(q.Events(after, 0))(t)
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
	must(t, errOf(q.Requeue(ctx, 1)))
	token = takeOne(t, q, time.Hour).Token
	must(t, putResult(q, 1, token, "a", "other"))
	must(t, errOf(q.Conclude(ctx, 1, token, job.Conclusion{Outcome: job.Completed})))
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
	if err != nil || j.Status != job.Pending || j.Requeues != 1 {
		t.Errorf("got %+v, %v", j, err)
	}
}

// resultsOf reads the results of a job.
func resultsOf(t testing.TB, q *queuefs.Queue, id job.ID) map[string]string {
	t.Helper()
	j := sure(q.Job(id))(t)
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
	q := createQueue(t, a, home.QueueInfo{Identifier: "jobs"})
	submitN(t, q, 4, job.Meta{}, "x")
	taken := sure(q.Take(ctx, queuefs.Take{User: "worker", Max: 4, Lease: 1 << 40}))(t)
	large := strings.Repeat("large", 10<<10)
	want := map[job.ID]map[string]string{
		1: {"log": "", "out": "of one"},
		2: {"log": "before", "out": "after the image"},
		3: {"log": "of the second attempt"},
		4: {"large": large, "small": "beside a large one, after the image"},
	}
	see := func(where string, s *queuefs.Service) {
		t.Helper()
		q := sure(s.Queue("jobs"))(t)
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
		st := sure(stored.Look(context.Background(), m))(t)
		r := sure(st.Check(context.Background()))(t)
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
	again := sure(q.Take(ctx, queuefs.Take{User: "worker", Max: 1, Lease: 1 << 40}))(t)
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
