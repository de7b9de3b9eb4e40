package queuefs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/check"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

var ctx = context.Background()

// segmentSize keeps journals of tests small.
const segmentSize = 1 << 20

// openHome opens a home in dir, which is made with one queue if it is empty. It is closed at
// the end of the test.
func openHome(t testing.TB, dir string, o queuefs.Options) (*queuefs.Service, *queuefs.Queue) {
	t.Helper()
	if o.Segment == 0 {
		o.Segment = segmentSize
	}
	if err := home.Init(dir, home.ServiceInfo{Name: "test"}); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	s := sure(queuefs.Open(dir, o))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.Err() == nil {
			t.Error(err)
		}
	})
	q, err := s.Queue("jobs")
	if errors.Is(err, ledger.ErrNoQueue) {
		q, err = s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	}
	must(t, err)
	return s, q
}

func submit(t testing.TB, q *queuefs.Queue, m job.Meta, payload string) job.Job {
	t.Helper()
	s := q.Begin()
	defer s.Discard()
	d := sure(s.Add(m))(t)
	must(t, errOf(io.WriteString(d, payload)))
	jobs := sure(s.Commit(ctx))(t)
	return jobs[0]
}

// submitN submits n jobs, each by itself.
func submitN(t testing.TB, q *queuefs.Queue, n int, m job.Meta, payload string) {
	t.Helper()
	for range n {
		submit(t, q, m, payload)
	}
}

// fillQueue submits n jobs in batches.
func fillQueue(b testing.TB, q *queuefs.Queue, n, size int) {
	data := make([]byte, size)
	for n > 0 {
		k := min(n, 1000)
		n -= k
		s := q.Begin()
		for range k {
			d, err := s.Add(job.Meta{})
			must(b, err)
			d.Write(data)
		}
		must(b, errOf(s.Commit(ctx)))
	}
}

// submitAs submits a job that is to have this number.
func submitAs(t testing.TB, q *queuefs.Queue, id job.ID, m job.Meta, payload string) {
	t.Helper()
	if j := submit(t, q, m, payload); j.ID != id {
		t.Errorf("the next job is %v, want %v", j.ID, id)
	}
}

// takes tests that the job that is handed out next is this one.
func takes(t testing.TB, q *queuefs.Queue, id job.ID) {
	t.Helper()
	if j, err := q.Next(ctx, "w"); err != nil || j.ID != id {
		t.Errorf("got %v, %v, want %v", j.ID, err, id)
	}
}

// nextN consumes n jobs, each by itself.
func nextN(t testing.TB, q *queuefs.Queue, n int) {
	t.Helper()
	for range n {
		must(t, errOf(q.Next(ctx, "w")))
	}
}

func payload(t testing.TB, q *queuefs.Queue, id job.ID) string {
	t.Helper()
	p := sure(q.Payload(id))(t)
	defer p.Close()
	var b bytes.Buffer
	must(t, errOf(p.WriteTo(&b)))
	return b.String()
}

func closeHome(t testing.TB, s *queuefs.Service) {
	t.Helper()
	must(t, s.Close())
}

// tree lists the files of a queue directory.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(dir, "queues"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(filepath.Join(dir, "queues"), path)
			names = append(names, rel)
		}
		return err
	})
	must(t, err)
	return strings.Join(names, "\n")
}

func TestLifeOfJobs(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	big := strings.Repeat("0123456789abcdef", 20000)
	a := submit(t, q, job.Meta{Filename: "../a.txt", MediaType: "text/plain", Submitter: "test/1", Sidecar: "x=1;\ny=%"}, "hello")
	b := submit(t, q, job.Meta{}, big)
	c := submit(t, q, job.Meta{}, "")
	if a.ID != 1 || b.ID != 2 || c.ID != 3 || c.Seq != 3 {
		t.Fatalf("got %v %v %v", a, b, c)
	}
	inspect := func() {
		t.Helper()
		j, err := q.Peek()
		if err != nil || j.ID != a.ID || j.Filename != "a.txt" || j.Sidecar != "x=1;\ny=%" || j.Submitter != "test/1" {
			t.Fatalf("peek: got %+v, %v", j, err)
		}
		if got := payload(t, q, 2); got != big {
			t.Fatalf("payload of 2 has %d octets", len(got))
		}
		if got := payload(t, q, 1) + payload(t, q, 3); got != "hello" {
			t.Fatalf("payload: got %q", got)
		}
	}
	inspect()
	must(t, s.Maintain(ctx))
	inspect()
	j, err := q.Next(ctx, "worker/1")
	if err != nil || j.ID != 1 || j.Status != job.Consumed || j.Consumer != "worker/1" {
		t.Fatalf("next: got %+v, %v", j, err)
	}
	if j, err = q.Delete(ctx, 3); err != nil || j.Status != job.Deleted {
		t.Fatalf("delete: got %+v, %v", j, err)
	}
	if _, err = q.Delete(ctx, 1); !errors.Is(err, job.ErrNotPending) {
		t.Fatalf("delete of a consumed job: got %v", err)
	}
	if j, err = q.Requeue(ctx, 1); err != nil || j.Status != job.Pending || j.Requeues != 1 || j.Consumed.IsZero() || !j.Begun().IsZero() {
		t.Fatalf("requeue: got %+v, %v", j, err)
	}
	inspect()
	ev, err := q.Events(0, 0)
	if err != nil || len(ev) != 6 {
		t.Fatalf("events: got %d, %v", len(ev), err)
	}
	kinds := ""
	for i, e := range ev {
		kinds += e.Kind.String() + " "
		if e.Seq != job.Seq(i+1) || i > 0 && !e.Time.After(ev[i-1].Time) {
			t.Errorf("event %d: got %+v", i, e)
		}
	}
	if want := "submit submit submit consume delete requeue "; kinds != want {
		t.Errorf("got %s want %s", kinds, want)
	}
	wantErr(t, errOf(q.Job(4)), ledger.ErrNoJob, "job 4")
	closeHome(t, s)
	want := "jobs/deleted/j000000000003\njobs/payload/j000000000001\njobs/payload/j000000000002\njobs/payload/j000000000003\n" +
		"jobs/pending/j000000000001\njobs/pending/j000000000002\njobs/queue-info.txt"
	if got := tree(t, dir); got != want {
		t.Errorf("files: got\n%s", got)
	}
	text, _ := os.ReadFile(dir + "/queues/jobs/pending/j000000000001")
	if !strings.Contains(string(text), "status: pending\n") || !strings.Contains(string(text), "\nconsumed: ") || strings.Contains(string(text), "\nconsumer: ") {
		t.Errorf("job file: got %s", text)
	}
	_, q = openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { t.Error(p) }})
	inspect()
	if n := q.State(); n.Pending != 2 || n.Deleted != 1 || n.Seq != 6 {
		t.Errorf("state: got %+v", n)
	}
}

// Digests are compared with the payload as it comes in, whether or not the queue reads it
// again.
func TestWrongDigestStoresNothing(t *testing.T) {
	s, q := openHome(t, t.TempDir(), queuefs.Options{})
	for n, kind := range slices.Concat(digest.Types(), digest.Types()) {
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.VerifyOnWrite = n >= len(digest.Types()) }))))
		for _, late := range []bool{false, true} {
			sub := q.Begin()
			m := job.Meta{Expect: []digest.Value{digest.Sum(kind, []byte("other"))}}
			first := m
			if late {
				first = job.Meta{}
			}
			good, _ := sub.Add(job.Meta{Expect: []digest.Value{digest.Sum(kind, []byte("good"))}})
			io.WriteString(good, "good")
			d := sure(sub.Add(first))(t)
			io.WriteString(d, "this")
			d.SetMeta(m)
			wantErr(t, errOf(sub.Commit(ctx)), digest.ErrMismatch, "%v", kind)
			sub.Discard()
		}
	}
	if got := q.State(); got.Pending != 0 || got.Seq != 2 { // events of properties
		t.Errorf("got %+v", got)
	}
}

func TestMovesByHandBecomeEvents(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	submitN(t, q, 4, job.Meta{Filename: "f"}, "x")
	q.Next(ctx, "w")
	q.Next(ctx, "w")
	closeHome(t, s)
	base := dir + "/queues/jobs/"
	os.Rename(base+"consumed/j000000000001", base+"pending/j000000000001")
	os.Rename(base+"pending/j000000000003", base+"deleted/j000000000003")
	os.Remove(base + "pending/j000000000004")
	os.Remove(base + "payload/j000000000004")
	os.WriteFile(base+"pending/notajob", []byte("?"), 0o666)
	var problems []string
	s, q = openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
	ev := sure(q.Events(6, 0))(t)
	kinds := ""
	for _, e := range ev {
		kinds += e.Kind.String() + " " + e.Job.String() + " "
	}
	if want := "requeue j000000000001 delete j000000000003 cull j000000000004 "; kinds != want {
		t.Errorf("got %s want %s", kinds, want)
	}
	if len(problems) != 4 {
		t.Errorf("got %q", problems)
	}
	if j, err := q.Peek(); err != nil || j.ID != 1 || j.Requeues != 1 || j.Filename != "f" {
		t.Errorf("got %+v, %v", j, err)
	}
	closeHome(t, s)
	if r := checkHome(t, dir, check.Options{Segment: segmentSize}); r.Jobs != 3 {
		t.Errorf("%d jobs", r.Jobs)
	}
}

// describe changes file name and sidecar; "=" leaves one as it is.
func describe(q *queuefs.Queue, id job.ID, filename, sidecar string) (job.Job, error) {
	var d queuefs.Description
	if filename != "=" {
		d.Filename = &filename
	}
	if sidecar != "=" {
		d.Sidecar = &sidecar
	}
	return q.Describe(ctx, id, d)
}

// describe is an operation of the scenario of workers.
func (c *scenario) describe(id job.ID, filename, sidecar string) {
	c.on("describe", id, func(f *fact) { f.filename, f.sidecar = filename, sidecar }, func(q *queuefs.Queue) error {
		_, err := describe(q, id, filename, sidecar)
		return err
	})
}

func TestDescribeChangesAPendingJobAlone(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	f := newFollower(t)
	f.follow(s)
	extra := anvl.Record{{Name: "colour", Value: "red"}}
	was := submit(t, q, job.Meta{Filename: "a", Sidecar: "old", MediaType: "text/plain", Owner: "ann", Extra: extra}, "payload")
	j, err := describe(q, 1, "dir/b.txt", "=")
	must(t, err)
	want := was
	want.Filename, want.Seq, want.Updated = "b.txt", 2, j.Updated
	if fmt.Sprintf("%+v", j) != fmt.Sprintf("%+v", want) || !j.Updated.After(was.Submitted) || !j.Modified().Equal(j.Updated) {
		t.Errorf("got %+v\nwant %+v", j, want)
	}
	_, e, _ := q.JobFile(1, job.Pending)
	if events, err := q.Events(1, 0); err != nil || len(events) != 1 || events[0].Kind != job.Update || events[0].From != job.Pending ||
		events[0].To != job.Pending || events[0].File != e || !events[0].Time.Equal(j.Updated) {
		t.Errorf("got %+v, %v", events, err)
	}
	// What changes nothing is no event.
	for _, d := range [][2]string{{"=", "="}, {"b.txt", "="}, {"/b.txt", "old"}} {
		if k, err := describe(q, 1, d[0], d[1]); err != nil || k.Seq != 2 {
			t.Errorf("%q: got %+v, %v", d, k, err)
		}
	}
	must(t, errOf(q.Hold(ctx, 1, "wait")))
	if j, err := describe(q, 1, "", "new\nlines"); err != nil || j.Filename != "" || j.Sidecar != "new\nlines" || j.HeldFor != "wait" {
		t.Errorf("held: got %+v, %v", j, err)
	}
	for _, tt := range []struct {
		filename, sidecar string
		err               error
	}{
		{"=", "\x00", job.ErrSidecar},
		{"=", "\xff", job.ErrSidecar},
		{"=", "a\ufffe", job.ErrSidecar},
		{"=", "a\uffff", job.ErrSidecar},
		{"=", strings.Repeat("x", job.MaxSidecar+1), job.ErrTooBig},
		{strings.Repeat("x", 1025), "=", job.ErrTooBig},
	} {
		wantErr(t, errOf(describe(q, 1, tt.filename, tt.sidecar)), tt.err, "%.20q %.20q", tt.filename, tt.sidecar)
	}
	wantErr(t, errOf(describe(q, 2, "x", "=")), ledger.ErrNoJob, "no job")
	must(t, errOf(q.Release(ctx, 1)))
	must(t, errOf(q.Next(ctx, "w")))
	wantErr(t, errOf(describe(q, 1, "x", "=")), job.ErrNotPending, "consumed")
	j, err = q.Job(1)
	if err != nil || j.Sidecar != "new\nlines" || j.Updated.IsZero() || j.Extra.Value("colour") != "red" || j.Owner != "ann" {
		t.Errorf("got %+v, %v", j, err)
	}
	f.check(q)
	closeHome(t, s)
	// The directory alone says the same, with its date.
	must(t, os.RemoveAll(dir+"/log"))
	_, q = openHome(t, dir, queuefs.Options{})
	if k, err := q.Job(1); err != nil || fmt.Sprintf("%+v", k) != fmt.Sprintf("%+v", j) {
		t.Errorf("from the directory: got %+v, %v\nwant %+v", k, err, j)
	}
}

// What is described while its job is handed out is either described before or
// not at all.
func TestDescribeRacesWithConsumers(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	const n = 200
	submitN(t, q, n, job.Meta{Sidecar: "old"}, "x")
	taken := make(chan job.Job, n)
	go func() {
		defer close(taken)
		for got := 0; got < n; {
			j, err := q.Next(ctx, "w")
			if errors.Is(err, ledger.ErrEmpty) {
				continue // the last one is being described
			}
			if err != nil {
				t.Error(err)
				return
			}
			got++
			taken <- j
		}
	}()
	described := map[job.ID]bool{}
	for id := job.ID(n); id > 0; id-- {
		_, err := describe(q, id, "=", "new")
		if err != nil && !errors.Is(err, job.ErrNotPending) {
			t.Error(err)
		}
		described[id] = err == nil
	}
	seen := 0
	for j := range taken {
		seen++
		if now, err := q.Job(j.ID); err != nil || now.Sidecar != j.Sidecar || (j.Sidecar == "new") != described[j.ID] {
			t.Errorf("%v: taken with %q, now %q, described %v, %v", j.ID, j.Sidecar, now.Sidecar, described[j.ID], err)
		}
	}
	if seen != n {
		t.Errorf("%d jobs were handed out", seen)
	}
	outlives(t, s, dir)
}

// A large sidecar waits for room like a submission.
func TestDescribeIsBoundByTheJournal(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{Segment: smallSegment})
	submit(t, q, job.Meta{Sidecar: "old"}, "x")
	wantErr(t, errOf(describe(q, 1, "=", strings.Repeat("x", 2*smallSegment))), job.ErrTooBig, "")
	for i := range 20 {
		must(t, errOf(describe(q, 1, "=", strings.Repeat(fmt.Sprint(i), smallSegment/8))))
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.Sidecar != strings.Repeat("19", smallSegment/8) {
		t.Errorf("got %.20q, %v", j.Sidecar, err)
	}
}

// TestSidecars keeps the largest sidecars, which escaping makes three times as
// large, through journal, files, stop and rebuilding.
func TestSidecars(t *testing.T) {
	const size = 8 << 20
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: size})
	sidecars := []string{
		strings.Repeat("\n", job.MaxSidecar),
		strings.Repeat("%", job.MaxSidecar),
		strings.Repeat("ü", job.MaxSidecar/2),
		strings.Repeat("\x00\xff", job.MaxSidecar/2), "\x7f", "a\uffff",
		" leading and trailing \t",
		"# no comment\nstatus: deleted\n\nidentifier: j000000000099\n",
		"\ufeffmark\r\nline\rline\u0085\u2028",
		"%0A%%",
	}
	for _, sc := range sidecars {
		submit(t, q, job.Meta{Sidecar: sc}, "x")
	}
	inspect := func() {
		t.Helper()
		for i, want := range sidecars {
			if j, err := q.Job(job.ID(i + 1)); err != nil || j.Sidecar != want || j.Status != job.Pending {
				t.Errorf("sidecar %d: got %d octets %.40q, %v, %v", i, len(j.Sidecar), j.Sidecar, j.Status, err)
			}
		}
	}
	inspect()
	must(t, s.Checkpoint(ctx))
	inspect()
	closeHome(t, s)
	if r, err := check.Home(dir, check.Options{Rebuild: true, Segment: size}); err != nil || len(r.Problems) > 0 {
		t.Errorf("rebuild: %v, %+v", err, r)
	}
	_, q = openHome(t, dir, queuefs.Options{Segment: size})
	inspect()
}

func TestWhatASubmitterMaySay(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	long := strings.Repeat("l", 1025)
	for name, c := range map[string]struct {
		m    job.Meta
		want error
	}{
		"long sidecar":          {job.Meta{Sidecar: strings.Repeat("s", job.MaxSidecar+1)}, job.ErrTooBig},
		"long file name":        {job.Meta{Filename: long}, job.ErrTooBig},
		"long media type":       {job.Meta{MediaType: long}, job.ErrTooBig},
		"long submitter":        {job.Meta{Submitter: long}, job.ErrTooBig},
		"long batch":            {job.Meta{Batch: long}, job.ErrTooBig},
		"path before file name": {job.Meta{Filename: long + "/" + long[1:]}, nil},
	} {
		sub := q.Begin()
		_, err := sub.Add(c.m)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v want %v", name, err, c.want)
		}
		d := sure(sub.Add(job.Meta{}))(t)
		wantErr(t, d.SetMeta(c.m), c.want, "%s, later", name)
		sub.Discard()
	}
	for in, want := range map[string]string{
		"../../etc/passwd": "passwd", `C:\dir\a.txt`: `C:\dir\a.txt`, "a\r\nb: c": "a\ufffd\ufffdb: c", "\xffx": "\ufffdx", "ends/": "", "näme": "näme",
	} {
		j := submit(t, q, job.Meta{Filename: in}, "")
		if got, err := q.Job(j.ID); err != nil || got.Filename != want || j.Filename != want {
			t.Errorf("%q: got %q and %q, %v want %q", in, j.Filename, got.Filename, err, want)
		}
	}
	if _, err := q.Begin().Commit(ctx); err == nil {
		t.Error("a submission without jobs was taken")
	}
}

// TestTooMuchForOneSubmission asks for more than one record group may have:
// the error says so, and nothing is stored.
func TestTooMuchForOneSubmission(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for name, m := range map[string]struct {
		meta job.Meta
		jobs int
	}{
		"many jobs":          {job.Meta{}, 1000},
		"sidecars":           {job.Meta{Sidecar: strings.Repeat("s", 60_000)}, 10},
		"sidecars that grow": {job.Meta{Sidecar: strings.Repeat("\n", 60_000)}, 5},
		"labels that grow":   {job.Meta{Filename: strings.Repeat("%", 1000), Batch: strings.Repeat("%", 1000), Submitter: strings.Repeat("%", 1000)}, 100},
	} {
		sub := q.Begin()
		var err error
		for range m.jobs {
			if _, err = sub.Add(m.meta); err != nil {
				break
			}
		}
		if err == nil {
			_, err = sub.Commit(ctx)
		}
		if !errors.Is(err, job.ErrTooBig) {
			t.Errorf("%s: got %v", name, err)
		}
		sub.Discard()
	}
	if st := q.State(); st.Seq != 0 {
		t.Errorf("got %+v", st)
	}
	submitAs(t, q, 1, job.Meta{}, "x")
}

// TestTakeManyLargeJobs takes jobs whose job files together are more than one
// record group may have: it gets some of them, in order, and loses none.
func TestTakeManyLargeJobs(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	const n = 20
	submitN(t, q, n, job.Meta{Sidecar: strings.Repeat("s", 100_000)}, "x")
	var got []job.ID
	for range n {
		jobs, err := q.NextN(ctx, "w", n)
		if errors.Is(err, ledger.ErrEmpty) {
			break
		}
		must(t, err)
		got = append(got, idsOf(jobs)...)
	}
	if len(got) != n || got[0] != 1 || got[n-1] != n {
		t.Errorf("got %v", got)
	}
}

// TestEventsOfLongNames reads events whose records have the longest names.
func TestEventsOfLongNames(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	q := sure(s.CreateQueue(ctx, home.QueueInfo{Identifier: strings.Repeat("q", 200)}))(t)
	types := []string{strings.Repeat("m", 1024), strings.Repeat("a\xff", 512), strings.Repeat("\xff\xfe", 512), "text/plain"}
	n := 0
	for i := range 200 {
		sub := q.Begin()
		d, err := sub.Add(job.Meta{MediaType: types[i%len(types)]})
		if errors.Is(err, job.ErrTooBig) {
			continue
		}
		must(t, err)
		io.WriteString(d, strings.Repeat("x", i))
		must(t, errOf(sub.Commit(ctx)))
		n++
	}
	events, err := q.Events(0, 1000)
	if err != nil || len(events) != n {
		t.Errorf("got %d events of %d, %v", len(events), n, err)
	}
	for i, e := range events {
		if j, err := q.Job(e.Job); err != nil || j.Type() != e.Payload.Type || j.Size != e.Payload.Length || e.Seq != job.Seq(i+1) {
			t.Errorf("event %d: got %+v, %v", i, e.Payload, err)
		}
	}
}
