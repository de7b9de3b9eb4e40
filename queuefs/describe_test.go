package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
)

// describe changes file name and sidecar; "=" leaves one as it is.
func describe(q *queuefs.Queue, id queuefs.JobID, filename, sidecar string) (queuefs.Job, error) {
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
func (c *scenario) describe(id queuefs.JobID, filename, sidecar string) {
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
	was := submit(t, q, queuefs.Meta{Filename: "a", Sidecar: "old", MediaType: "text/plain", Owner: "ann", Extra: extra}, "payload")
	j, err := describe(q, 1, "dir/b.txt", "=")
	if err != nil {
		t.Fatal(err)
	}
	want := was
	want.Filename, want.Seq, want.Updated = "b.txt", 2, j.Updated
	if fmt.Sprintf("%+v", j) != fmt.Sprintf("%+v", want) || !j.Updated.After(was.Submitted) || !j.Modified().Equal(j.Updated) {
		t.Errorf("got %+v\nwant %+v", j, want)
	}
	_, e, _ := q.JobFile(1, queuefs.Pending)
	if events, err := q.Events(1, 0); err != nil || len(events) != 1 || events[0].Kind != queuefs.Update || events[0].From != queuefs.Pending ||
		events[0].To != queuefs.Pending || events[0].File != e || !events[0].Time.Equal(j.Updated) {
		t.Errorf("got %+v, %v", events, err)
	}
	// What changes nothing is no event.
	for _, d := range [][2]string{{"=", "="}, {"b.txt", "="}, {"/b.txt", "old"}} {
		if k, err := describe(q, 1, d[0], d[1]); err != nil || k.Seq != 2 {
			t.Errorf("%q: got %+v, %v", d, k, err)
		}
	}
	if _, err := q.Hold(ctx, 1, "wait"); err != nil {
		t.Fatal(err)
	}
	if j, err := describe(q, 1, "", "new\nlines"); err != nil || j.Filename != "" || j.Sidecar != "new\nlines" || j.HeldFor != "wait" {
		t.Errorf("held: got %+v, %v", j, err)
	}
	for _, tt := range []struct {
		filename, sidecar string
		err               error
	}{
		{"=", "\x00", queuefs.ErrSidecar},
		{"=", "\xff", queuefs.ErrSidecar},
		{"=", "a\ufffe", queuefs.ErrSidecar},
		{"=", "a\uffff", queuefs.ErrSidecar},
		{"=", strings.Repeat("x", queuefs.MaxSidecar+1), queuefs.ErrTooBig},
		{strings.Repeat("x", 1025), "=", queuefs.ErrTooBig},
	} {
		if _, err := describe(q, 1, tt.filename, tt.sidecar); !errors.Is(err, tt.err) {
			t.Errorf("%.20q %.20q: got %v, want %v", tt.filename, tt.sidecar, err, tt.err)
		}
	}
	if _, err := describe(q, 2, "x", "="); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("no job: got %v", err)
	}
	if _, err := q.Release(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := describe(q, 1, "x", "="); !errors.Is(err, queuefs.ErrNotPending) {
		t.Errorf("consumed: got %v", err)
	}
	j, err = q.Job(1)
	if err != nil || j.Sidecar != "new\nlines" || j.Updated.IsZero() || j.Extra.Value("colour") != "red" || j.Owner != "ann" {
		t.Errorf("got %+v, %v", j, err)
	}
	f.check(q)
	closeHome(t, s)
	// The directory alone says the same, with its date.
	if err := os.RemoveAll(dir + "/log"); err != nil {
		t.Fatal(err)
	}
	s, q = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
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
	for range n {
		submit(t, q, queuefs.Meta{Sidecar: "old"}, "x")
	}
	taken := make(chan queuefs.Job, n)
	go func() {
		defer close(taken)
		for got := 0; got < n; {
			j, err := q.Next(ctx, "w")
			if errors.Is(err, queuefs.ErrEmpty) {
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
	described := map[queuefs.JobID]bool{}
	for id := queuefs.JobID(n); id > 0; id-- {
		_, err := describe(q, id, "=", "new")
		if err != nil && !errors.Is(err, queuefs.ErrNotPending) {
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
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	s, _ = openHome(t, crashed, queuefs.Options{})
	defer closeHome(t, s)
	if d := want.difference(observe(t, s)); d != "" {
		t.Error(d)
	}
}

// A large sidecar waits for room like a submission.
func TestDescribeIsBoundByTheJournal(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{Segment: smallSegment})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{Sidecar: "old"}, "x")
	if _, err := describe(q, 1, "=", strings.Repeat("x", 2*smallSegment)); !errors.Is(err, queuefs.ErrTooBig) {
		t.Errorf("got %v", err)
	}
	for i := range 20 {
		if _, err := describe(q, 1, "=", strings.Repeat(fmt.Sprint(i), smallSegment/8)); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.Sidecar != strings.Repeat("19", smallSegment/8) {
		t.Errorf("got %.20q, %v", j.Sidecar, err)
	}
}
