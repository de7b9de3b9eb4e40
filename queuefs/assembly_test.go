package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
)

// put writes a payload and puts it into its place.
func put(q *queuefs.Queue, s *queuefs.Assembly, place int, m queuefs.Meta, payload string) error {
	part := q.Begin()
	defer part.Discard()
	d, err := part.Add(m)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d, payload); err != nil {
		return err
	}
	return s.Put(place, part)
}

// staged is a payload of a size around what the journal takes.
func staged(place int) string {
	return strings.Repeat(fmt.Sprintf("%07d\n", place), 1+place*place*400)
}

func TestStageTakesPayloadsInAnyOrder(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 256 << 10}) // more than may be in memory
	submit(t, q, queuefs.Meta{}, "before")
	const n = 20
	stage := q.Assemble(n)
	var wg sync.WaitGroup
	for _, place := range rand.Perm(n) {
		wg.Go(func() {
			m := queuefs.Meta{Filename: fmt.Sprint(place), Expect: []digest.Value{digest.Sum(digest.CRC32, []byte(staged(place)))}}
			if place == 3 {
				m.Batch = "own"
			}
			if err := put(q, stage, place, m, staged(place)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	jobs, err := stage.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stage.Discard() // does nothing
	check := func(q *queuefs.Queue) {
		t.Helper()
		got, err := q.List(queuefs.ListOptions{After: 1})
		if err != nil || len(got) != n || len(jobs) != n {
			t.Fatalf("got %d jobs of %d, %v", len(got), len(jobs), err)
		}
		for place, j := range got {
			want := jobs[place]
			batch := "b000000000002-20"
			if place == 3 {
				batch = "own"
			}
			if fmt.Sprint(j) != fmt.Sprint(want) || j.ID != queuefs.JobID(place+2) || j.Filename != fmt.Sprint(place) || j.Batch != batch {
				t.Errorf("got %+v, want %+v", j, want)
			}
			if got := payload(t, q, j.ID); got != staged(place) {
				t.Errorf("%v: got %d octets, want %d", j.ID, len(got), len(staged(place)))
			}
		}
	}
	check(q)
	closeHome(t, s)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	s, q = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	check(q)
}

func TestStageRefuses(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 200<<10)
	stage := q.Assemble(2)
	wrong := queuefs.Meta{Expect: []digest.Value{digest.Sum(digest.SHA1, nil)}}
	for _, body := range []string{"small", large} {
		if err := put(q, stage, 0, wrong, body); !errors.Is(err, queuefs.ErrDigest) {
			t.Errorf("wrong digest: got %v", err)
		}
	}
	if err := put(q, stage, 0, queuefs.Meta{}, large); err != nil {
		t.Fatal(err)
	}
	if err := put(q, stage, 0, queuefs.Meta{}, large); err == nil {
		t.Error("a place was taken twice")
	}
	if err := put(other, stage, 1, queuefs.Meta{}, large); err == nil {
		t.Error("a job of another queue was taken")
	}
	if err := stage.Put(1, q.Begin()); err == nil {
		t.Error("a submission of no job was taken")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is not complete: got %v", jobs)
	}
	stage.Discard()
	stage.Discard()
	if err := put(q, stage, 1, queuefs.Meta{}, large); err == nil {
		t.Error("a batch that is over took a job")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is over: got %v", jobs)
	}
	if st := q.State(); st.Pending != 0 {
		t.Errorf("%d jobs are pending", st.Pending)
	}
	if left := leftovers(t, filepath.Join(dir, "cutie-tmp")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	closeHome(t, s)
}

// A manifest is read back from the draft it came into, small or large.
func TestDraftIsReadAndVerified(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for _, body := range []string{"", "hello\n", strings.Repeat("0123456789", 15_000)} {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(d, body); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := d.Reader()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); string(got) != body || err != nil {
				t.Errorf("got %d octets, %v, want %d", len(got), err, len(body))
			}
		}
		for _, typ := range []digest.Type{digest.CRC32, digest.MD5, digest.SHA256, digest.SHA512} { // named when the payload had come
			for of, want := range map[string]error{body: nil, "other": queuefs.ErrDigest} {
				if err := d.SetMeta(queuefs.Meta{Expect: []digest.Value{digest.Sum(typ, []byte(of))}}); err != nil {
					t.Fatal(err)
				}
				if err := d.Verify(); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", typ, err, want)
				}
			}
		}
		sub.Discard()
		if _, err := d.Reader(); err == nil {
			t.Error("a submission that is over was read")
		}
	}
}

// Whatever step fails, all jobs of the batch are there or none, and nothing is
// left over.
func TestEveryStepOfAStageFails(t *testing.T) {
	for _, way := range []struct {
		name string
		err  error
		done bool
	}{{"fails", errInjected, false}, {"no space but happened", syscall.ENOSPC, true}} {
		fired := true
		for at := 1; fired; at++ {
			f := newFaults(0, way.err)
			f.done = way.done
			dir := fastDir(t)
			o := queuefs.Options{Segment: smallSegment, Now: clock()}
			s, _ := openHome(t, dir, o)
			closeHome(t, s)
			o.Fault = f.step
			s, q := openHome(t, dir, o)
			f.lock <- struct{}{}
			f.at = f.n + at
			<-f.lock
			stage := q.Assemble(3)
			var err error
			for _, place := range []int{2, 0, 1} {
				if err == nil {
					err = put(q, stage, place, queuefs.Meta{Filename: fmt.Sprint(place)}, strings.Repeat("x", 30_000+place*60_000))
				}
			}
			var jobs []queuefs.Job
			if err == nil {
				jobs, err = stage.Commit(ctx)
			}
			stage.Discard()
			fired = f.fired()
			if err == nil && len(jobs) != 3 || err != nil && !fired {
				t.Errorf("%s at %d (%s): got %d jobs, %v", way.name, at, f.name, len(jobs), err)
			}
			s.Close() // may fail, as the storage did
			s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment})
			names, listErr := q.List(queuefs.ListOptions{})
			got := ""
			for _, j := range names {
				got += j.Filename
			}
			if may := []string{"012"}; listErr != nil || !slices.Contains(may, got) && (err == nil || got != "") {
				t.Errorf("%s at %d (%s): submitting: %v, then got jobs %q, %v", way.name, at, f.name, err, got, listErr)
			}
			closeHome(t, s)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("%s at %d (%s): left over: %q", way.name, at, f.name, left)
			}
			if !fired && at < 10 {
				t.Errorf("%s: only %d steps", way.name, at-1)
			}
		}
	}
}
