package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
)

// A job whose file is spoilt while a consumer has it, is on hold after its lease, and is
// given to nobody else. The spoilt file is kept.
func TestASpoiltJobFileUnderALease(t *testing.T) {
	dir, now := filepath.Join(fastDir(t), "home"), time.Now()
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{}))
	var reports []string
	o := queuefs.Options{Segment: segment, Now: func() time.Time { return now }, Report: func(p queuefs.Problem) { reports = append(reports, p.String()) }}
	for _, restart := range []bool{false, true} {
		s, err := queuefs.Open(dir, o)
		must(t, err)
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: map[bool]string{false: "a", true: "b"}[restart], CullingSize: -1, CullingAge: -1})
		must(t, err)
		for range 2 {
			submit(t, q, queuefs.Meta{Sidecar: "to be lost"}, "payload")
		}
		_, err = q.Take(ctx, queuefs.Take{Lease: time.Minute})
		must(t, err)
		must(t, s.Checkpoint(ctx))
		base := filepath.Join(dir, "queues", q.ID())
		must(t, os.WriteFile(filepath.Join(base, "consumed/j000000000001"), []byte("spoilt"), 0o666))
		if restart {
			must(t, s.Close())
			s, err = queuefs.Open(dir, o)
			must(t, err)
			q, err = s.Queue("b")
			must(t, err)
		}
		now = now.Add(time.Hour)
		must(t, s.Expire(ctx))
		taken, err := q.Take(ctx, queuefs.Take{Max: 9})
		if err != nil || len(taken) != 1 || taken[0].ID != 2 {
			t.Errorf("got %v, %v", taken, err)
		}
		if j, err := q.Job(1); err != nil || j.Held.IsZero() || j.Status != queuefs.Pending || !strings.HasPrefix(j.HeldFor, "job file lost or damaged") {
			t.Errorf("got %+v, %v", j, err)
		}
		if kept, err := os.ReadFile(filepath.Join(base, "corrupt/consumed-j000000000001")); string(kept) != "spoilt" {
			t.Errorf("kept %q, %v", kept, err)
		}
		if !slices.ContainsFunc(reports, func(r string) bool { return strings.HasPrefix(r, "queues/"+q.ID()+"/consumed/j000000000001: ") }) {
			t.Errorf("reports %q", reports)
		}
		must(t, s.Close())
	}
}

// An index that says other payloads than job files and payloads do is wrong: they agree.
func TestPayloadsThatTheirJobFilesNameAreGood(t *testing.T) {
	p := newPatient(t, true, true)
	dir := copyHome(t, p.dir)
	forgePage(t, dir, "a", "b")
	r, err := check.Home(dir, check.Options{Segment: segment})
	must(t, err)
	if len(r.Problems) == 0 {
		t.Fatal("nothing is found")
	}
	r, err = check.Home(dir, check.Options{Repair: true, Segment: segment})
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("repair: %q, %v", texts(r.Problems), err)
	}
	if aside, err := os.ReadDir(filepath.Join(dir, "queues/b/corrupt")); err == nil {
		t.Errorf("%d files were moved, one of them %s", len(aside), aside[0].Name())
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	defer s.Close()
	if d := p.want.difference(observe(t, s)); len(d) > 0 {
		t.Errorf("%q differ", d)
	}
}

// forgePage gives a queue the index page of another, under its own name.
func forgePage(t *testing.T, dir, from, to string) {
	t.Helper()
	open := func(id string) *durable.Dir {
		d, err := durable.OpenDir(filepath.Join(dir, "log/index/queues", id), nil)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	q, err := indexfile.ReadQueue(open(from), from)
	must(t, err)
	page, err := os.ReadFile(filepath.Join(dir, "log/index/queues", from, index.PageName(0)))
	must(t, err)
	x, y := index.New(from), index.New(to)
	x.SetMediaTypes(q.Types)
	y.SetMediaTypes(q.Types)
	must(t, x.LoadPage(page, 0))
	x.EachOf(0, func(id job.ID, j index.Job) {
		y.Apply(&index.Change{Standing: j.Standing, Kind: job.Update, Job: id, Seq: x.Version(id), Time: j.Changed, FileLength: j.FileLength,
			Size: j.Size, Submitted: j.Submitted, SHA256: j.SHA256, MD5: j.MD5, FileSHA256: j.FileSHA256, MediaType: j.MediaType})
	})
	page, ok := y.AppendPage(nil, 0)
	if !ok {
		t.Fatal("no page")
	}
	must(t, os.WriteFile(filepath.Join(dir, "log/index/queues", to, index.PageName(0)), page, 0o666))
}

func TestAHomeMountedForReadingCanBeChecked(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		p := newPatient(t, stopped, false)
		if err := unix.Mount(p.dir, p.dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("needs to mount a home for reading, and may not: %v", err)
		}
		t.Cleanup(func() { unix.Unmount(p.dir, unix.MNT_DETACH) })
		must(t, unix.Mount("", p.dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		r, err := check.Home(p.dir, check.Options{Segment: segment})
		if err != nil || len(r.Problems) > 0 || r.Jobs != 28 {
			t.Errorf("got %d jobs, %q, %v", r.Jobs, texts(r.Problems), err)
		}
	}
}
