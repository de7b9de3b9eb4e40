package queuefs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/digest"
)

var ctx = context.Background()

// segmentSize keeps journals of tests small.
const segmentSize = 1 << 20

// openHome opens a home in dir, which is made with one queue if it is empty.
func openHome(t testing.TB, dir string, o queuefs.Options) (*queuefs.Service, *queuefs.Queue) {
	t.Helper()
	if o.Segment == 0 {
		o.Segment = segmentSize
	}
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	s, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.Queue("jobs")
	if errors.Is(err, queuefs.ErrNoQueue) {
		q, err = s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, q
}

func submit(t testing.TB, q *queuefs.Queue, m queuefs.Meta, payload string) queuefs.Job {
	t.Helper()
	s := q.Begin()
	defer s.Discard()
	d, err := s.Add(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(d, payload); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return jobs[0]
}

func payload(t testing.TB, q *queuefs.Queue, id queuefs.JobID) string {
	t.Helper()
	p, err := q.Payload(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func closeHome(t testing.TB, s *queuefs.Service) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

func TestLifeOfJobs(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	big := strings.Repeat("0123456789abcdef", 20000)
	a := submit(t, q, queuefs.Meta{Filename: "../a.txt", MediaType: "text/plain", Submitter: "test/1", Sidecar: "x=1;\ny=%"}, "hello")
	b := submit(t, q, queuefs.Meta{}, big)
	c := submit(t, q, queuefs.Meta{}, "")
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
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	inspect()
	j, err := q.Next(ctx, "worker/1")
	if err != nil || j.ID != 1 || j.Status != queuefs.Consumed || j.Consumer != "worker/1" {
		t.Fatalf("next: got %+v, %v", j, err)
	}
	if j, err = q.Delete(ctx, 3); err != nil || j.Status != queuefs.Deleted {
		t.Fatalf("delete: got %+v, %v", j, err)
	}
	if _, err = q.Delete(ctx, 1); !errors.Is(err, queuefs.ErrNotPending) {
		t.Fatalf("delete of a consumed job: got %v", err)
	}
	if j, err = q.Requeue(ctx, 1); err != nil || j.Status != queuefs.Pending || j.Requeues != 1 || j.Consumed.IsZero() || !j.Begun().IsZero() {
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
		if e.Seq != queuefs.Seq(i+1) || i > 0 && !e.Time.After(ev[i-1].Time) {
			t.Errorf("event %d: got %+v", i, e)
		}
	}
	if want := "submit submit submit consume delete requeue "; kinds != want {
		t.Errorf("got %s want %s", kinds, want)
	}
	if _, err := q.Job(4); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("job 4: got %v", err)
	}
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
	s, q = openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Error(p) }})
	inspect()
	if n := q.State(); n.Pending != 2 || n.Deleted != 1 || n.Seq != 6 {
		t.Errorf("state: got %+v", n)
	}
	closeHome(t, s)
}

func TestWrongDigestStoresNothing(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	for _, kind := range digest.Types() {
		for _, late := range []bool{false, true} {
			sub := q.Begin()
			m := queuefs.Meta{Expect: []digest.Value{digest.Sum(kind, []byte("other"))}}
			first := m
			if late {
				first = queuefs.Meta{}
			}
			good, _ := sub.Add(queuefs.Meta{Expect: []digest.Value{digest.Sum(kind, []byte("good"))}})
			io.WriteString(good, "good")
			d, err := sub.Add(first)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(d, "this")
			d.SetMeta(m)
			if _, err := sub.Commit(ctx); !errors.Is(err, queuefs.ErrDigest) {
				t.Errorf("%v: got %v", kind, err)
			}
			sub.Discard()
		}
	}
	if got := q.State(); got.Pending != 0 || got.Seq != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestMovesByHandBecomeEvents(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	for range 4 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "x")
	}
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
	s, q = openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	ev, err := q.Events(6, 0)
	if err != nil {
		t.Fatal(err)
	}
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
	r, err := check.Home(dir, check.Options{Segment: segmentSize})
	if err != nil || len(r.Problems)+len(r.Mended) != 0 || r.Jobs != 3 {
		t.Errorf("check: got %+v, %v", r, err)
	}
}

func TestRebuildFromDirectories(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	for range 5 {
		submit(t, q, queuefs.Meta{Filename: "f", Sidecar: "s"}, "x")
	}
	q.Next(ctx, "w")
	q.Delete(ctx, 3)
	closeHome(t, s)
	for _, n := range []string{"log", "queues.txt", "cutie-info.txt", "0=cutie_0.3", "cutie-tmp"} {
		if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := check.Home(dir, check.Options{Rebuild: true, Segment: segmentSize})
	if err != nil || len(r.Problems) != 0 || r.Jobs != 5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	s, q = openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { t.Error(p) }})
	defer closeHome(t, s)
	if st := q.State(); st.Pending != 3 || st.Consumed != 1 || st.Deleted != 1 || st.Seq != 7 {
		t.Errorf("got %+v", st)
	}
	if j := submit(t, q, queuefs.Meta{}, "y"); j.ID != 6 || j.Seq != 8 {
		t.Errorf("got %+v", j)
	}
}
