package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// workOf tells what consumers and operators made of a job, with the contents
// of its results.
func workOf(t testing.TB, q *queuefs.Queue, j *queuefs.Job) string {
	t.Helper()
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if !j.Held.IsZero() {
		say("held %q", j.HeldFor)
	}
	if !j.HeldUntil.IsZero() {
		say("until %s", queuefs.FormatTime(j.HeldUntil))
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
func result(t testing.TB, q *queuefs.Queue, id queuefs.JobID, name string) string {
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

func putResult(q *queuefs.Queue, id queuefs.JobID, token, name, content string) error {
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
		_, err := q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Completed, Message: "well\ndone"})
		must(t, err)
		return token
	}},
	{"failed", func(t testing.TB, q *queuefs.Queue) string {
		token := takeOne(t, q, time.Hour).Token
		_, err := q.Conclude(ctx, 1, token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no luck", Transient: true})
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
		_, err := q.Conclude(ctx, 1, k, queuefs.Conclusion{Outcome: queuefs.Completed})
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
func requeueAt(q *queuefs.Queue, id queuefs.JobID, before queuefs.Seq) error {
	j, err := q.Job(id)
	if err == nil {
		_, err = q.RequeueAt(ctx, id, j.Seq-before)
	}
	return err
}

// holdAt is HoldAt, likewise.
func holdAt(q *queuefs.Queue, id queuefs.JobID, before queuefs.Seq, why string) error {
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
		notPending = queuefs.ErrNotPending
		conflict   = queuefs.ErrConflict
		lease      = queuefs.ErrLease
		empty      = queuefs.ErrEmpty
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
				s, q := openWith(t, dir, queuefs.Options{Now: clock()}, func(i *queuefs.QueueInfo) { i.MaxAttempts = 1 })
				submit(t, q, queuefs.Meta{Filename: "f", Sidecar: "s"}, "payload")
				token := stage.reach(t, q)
				if got := standing(t, q, 1); got != before[stage.name] {
					t.Fatalf("before: got %s want %s", got, before[stage.name])
				}
				seq := q.Seq()
				err := work.do(q, token)
				happened := q.Seq() - seq
				if next := submit(t, q, queuefs.Meta{}, ""); next.Seq != seq+happened+1 {
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

func standing(t testing.TB, q *queuefs.Queue, id queuefs.JobID) string {
	t.Helper()
	j, err := q.Job(id)
	must(t, err)
	return strings.TrimSpace(j.Status.String() + " " + workOf(t, q, &j))
}

// counted tests that what the state of a queue says agrees with its jobs.
func counted(t testing.TB, q *queuefs.Queue) queuefs.QueueState {
	t.Helper()
	jobs, err := q.List(queuefs.ListOptions{Limit: 1 << 20})
	must(t, err)
	got := q.State()
	want := got
	want.Pending, want.Consumed, want.Deleted, want.Held, want.Leased, want.Failed = 0, 0, 0, 0, 0, 0
	var held, failed []queuefs.JobID
	for _, j := range jobs {
		switch j.Status {
		case queuefs.Pending:
			want.Pending++
		case queuefs.Consumed:
			want.Consumed++
		case queuefs.Deleted:
			want.Deleted++
		}
		if !j.Held.IsZero() {
			want.Held++
			held = append(held, j.ID)
		}
		if !j.Lease.Ends.IsZero() {
			want.Leased++
		}
		if j.Outcome == queuefs.Failed {
			want.Failed++
			failed = append(failed, j.ID)
		}
	}
	if got != want {
		t.Errorf("state: got %+v\nwant %+v", got, want)
	}
	if got := q.IDs(queuefs.ListOptions{Held: true, Limit: 1 << 20}); fmt.Sprint(got) != fmt.Sprint(held) {
		t.Errorf("held: got %v want %v", got, held)
	}
	if got := q.IDs(queuefs.ListOptions{Outcome: queuefs.Failed, Limit: 1 << 20}); fmt.Sprint(got) != fmt.Sprint(failed) {
		t.Errorf("failed: got %v want %v", got, failed)
	}
	return got
}

// everywhere tests that the home is the same after a crash now, with its files
// written and not, after a clean stop, and with its index made again, and that
// its files are those of its jobs. It closes the home.
func everywhere(t testing.TB, s *queuefs.Service, dir string) {
	t.Helper()
	want := observe(t, s)
	is := func(when, dir string) {
		t.Helper()
		s, q := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Errorf("%s: %v", when, p) }})
		if d := want.difference(observe(t, s)); d != "" {
			t.Errorf("%s: %s", when, d)
		}
		counted(t, q)
		closeHome(t, s)
		v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
		v.checkFiles(want)
	}
	q, err := s.Queue("jobs")
	must(t, err)
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
	r.Mended = slices.DeleteFunc(r.Mended, func(p queuefs.Problem) bool { return strings.HasPrefix(p.Path, "log/index/") })
	if err != nil || len(r.Problems)+len(r.Mended) > 0 {
		t.Errorf("rebuild: %v, problems %v, mended %v", err, r.Problems, r.Mended)
	}
	is("rebuilt", dir)
}

// TestWorkMovedByHand moves job files between the directories while nobody
// has the home open: what cannot be true there is gone.
func TestWorkMovedByHand(t *testing.T) {
	for _, stage := range stages {
		for _, to := range []queuefs.Status{queuefs.Pending, queuefs.Consumed, queuefs.Deleted} {
			t.Run(fmt.Sprint(stage.name, " to ", to), func(t *testing.T) {
				t.Parallel()
				dir := fastDir(t)
				s, q := openWith(t, dir, queuefs.Options{}, func(i *queuefs.QueueInfo) { i.MaxAttempts = 1 })
				submit(t, q, queuefs.Meta{}, "payload")
				stage.reach(t, q)
				before := standing(t, q, 1)
				from, _ := q.Status(1)
				closeHome(t, s)
				if from == to {
					return
				}
				path := func(st queuefs.Status) string {
					return filepath.Join(dir, "queues/jobs", st.String(), "j000000000001")
				}
				must(t, os.Rename(path(from), path(to)))
				s, q = openHome(t, dir, queuefs.Options{})
				_, rest, _ := strings.Cut(before, " ")
				switch {
				case to == queuefs.Pending:
					rest = ""
				case from == queuefs.Pending, to == queuefs.Deleted:
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
