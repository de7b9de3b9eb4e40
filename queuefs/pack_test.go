package queuefs_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/journal/segment"
)

// packed opens a home with jobs over three index pages, of which a checkpoint
// has packed the first two.
func packed(t *testing.T) (dir string, s *queuefs.Service, q *queuefs.Queue) {
	t.Helper()
	dir = fastDir(t)
	s, q = openHome(t, dir, queuefs.Options{Segment: segment.MaxSize})
	sub := q.Begin()
	for i := 1; i <= 2*queuefs.PageJobs+100; i++ {
		d, err := sub.Add(queuefs.Meta{Sidecar: fmt.Sprint("side ", i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte(packedPayload(queuefs.JobID(i)))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sub.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	return dir, s, q
}

// packedPayload is the payload of a job; every hundredth is too large for a
// pack.
func packedPayload(id queuefs.JobID) string {
	if id%100 == 0 {
		return strings.Repeat("large ", 4000) + fmt.Sprint(id)
	}
	return fmt.Sprint("payload of ", id)
}

func packFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log/index/queues/jobs/c*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// takeAll consumes n jobs and checks that they are the next ones, whole.
func takeAll(t *testing.T, q *queuefs.Queue, first queuefs.JobID, n int) {
	t.Helper()
	for n > 0 {
		jobs, err := q.Take(ctx, queuefs.Take{By: "me", Max: min(n, 300)})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.ID != first || j.Sidecar != fmt.Sprint("side ", int(j.ID)) || len(j.Extra) > 0 {
				t.Fatalf("got %v, want job %v as it was submitted", j, first)
			}
			got := string(j.AtHand())
			if j.AtHand() == nil {
				got = payload(t, q, j.ID)
			}
			if got != packedPayload(j.ID) {
				t.Fatalf("payload of %v: got %.40q", j.ID, got)
			}
			first++
		}
		n -= len(jobs)
	}
}

// Files of jobs that a pack holds are not read when they are handed out: with
// most of them gone the jobs are whole all the same.
func TestJobsAreHandedOutFromPacks(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			dir, s, q := packed(t)
			if got := packFiles(t, dir); len(got) != 2 {
				t.Fatalf("got packs %v, want two", got)
			}
			if restart {
				closeHome(t, s)
				s, q = openHome(t, dir, queuefs.Options{Segment: segment.MaxSize})
			}
			defer closeHome(t, s)
			for id := queuefs.JobID(1); id < 2*queuefs.PageJobs; id++ {
				if id%100 == 0 {
					continue
				}
				for _, sub := range []string{"payload", "pending"} {
					if err := os.Remove(filepath.Join(dir, "queues/jobs", sub, id.String())); err != nil {
						t.Fatal(err)
					}
				}
			}
			q.LoadPacks(0)
			takeAll(t, q, 1, 2*queuefs.PageJobs+100)
		})
	}
}

// passOver reads job files and payloads of waiting jobs, by two goroutines beside each
// other as a package does, and checks them.
func passOver(t *testing.T, q *queuefs.Queue, wanted func(queuefs.JobID) bool) {
	t.Helper()
	pass := q.Pass()
	var wg sync.WaitGroup
	for k := range 2 {
		wg.Go(func() {
			for id := queuefs.JobID(1 + k); id <= 2*queuefs.PageJobs+100; id += 2 {
				if !wanted(id) {
					continue
				}
				text, facts, err := pass.JobFile(id, queuefs.Pending)
				if err != nil || sha256.Sum256(text) != facts.SHA256 || !strings.Contains(string(text), fmt.Sprint("side ", int(id))) {
					t.Errorf("job file of %v: %.80q, %v", id, text, err)
					return
				}
				in, err := pass.Payload(id)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(in)
				in.Close()
				if err != nil || string(got) != packedPayload(id) {
					t.Errorf("payload of %v: %.80q, %v", id, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A pass over waiting jobs reads the packs: with most files gone the jobs are whole.
func TestPassReadsPacks(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	small := func(id queuefs.JobID) bool { return id%100 != 0 }
	for id := queuefs.JobID(1); id < 2*queuefs.PageJobs; id++ {
		if small(id) {
			for _, sub := range []string{"payload", "pending"} {
				if err := os.Remove(filepath.Join(dir, "queues/jobs", sub, id.String())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	passOver(t, q, func(queuefs.JobID) bool { return true })
	if _, _, err := q.JobFile(1, queuefs.Pending); err == nil {
		t.Error("the job file is there without the pack")
	}
}

// A pass reads no pack for the few jobs left of a page.
func TestPassLeavesPacksOfFewJobs(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	last := queuefs.JobID(queuefs.PageJobs - 5)
	takeAll(t, q, 1, int(last)-1)
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	passOver(t, q, func(id queuefs.JobID) bool { return id >= last })
	if err := os.Remove(filepath.Join(dir, "queues/jobs/pending", last.String())); err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Pass().JobFile(last, queuefs.Pending); err == nil {
		t.Error("the job file was read from a pack")
	}
	if got := packFiles(t, dir); len(got) != 2 {
		t.Errorf("got packs %v, want two", got)
	}
}

// A pass has a changed job from its file, and tells one in another state.
func TestPassTellsChangedJobs(t *testing.T) {
	_, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	takeAll(t, q, 1, 20)
	if _, err := q.Requeue(ctx, 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	passOver(t, q, func(id queuefs.JobID) bool { return id == 7 || id > 20 })
	text, _, err := q.Pass().JobFile(7, queuefs.Pending)
	if err != nil || !strings.Contains(string(text), "requeue") {
		t.Errorf("got %q, %v, want the file after the requeue", text, err)
	}
	if _, _, err := q.Pass().JobFile(8, queuefs.Pending); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("got %v, want that no such job is pending", err)
	}
	in, err := q.Pass().Payload(8)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
}

// What a pack says is believed only if it has the digests of the index.
func TestDamagedPackIsPassedOver(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(data []byte) []byte
	}{
		{"empty", func(d []byte) []byte { return d[:0] }},
		{"cut", func(d []byte) []byte { return d[:len(d)/2] }},
		{"table", func(d []byte) []byte { d[100] ^= 1; return d }},
		{"data", func(d []byte) []byte {
			for i := 20000; i < len(d); i += 50 {
				d[i] ^= 0x20
			}
			return d
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			dir, s, q := packed(t)
			defer func() { closeHome(t, s) }()
			for _, name := range packFiles(t, dir) {
				data, err := os.ReadFile(name)
				if err == nil {
					err = os.WriteFile(name, damage.do(data), 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			passOver(t, q, func(queuefs.JobID) bool { return true })
			q.LoadPacks(0)
			takeAll(t, q, 1, 2*queuefs.PageJobs+100)
		})
	}
}

// A requeued job is told by its file, not by the pack that has it as it was
// first; a pack goes when its page has no pending job.
func TestPacksGoWithTheirJobs(t *testing.T) {
	dir, s, q := packed(t)
	defer func() { closeHome(t, s) }()
	takeAll(t, q, 1, 2*queuefs.PageJobs-1)
	if _, err := q.Requeue(ctx, 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if got := packFiles(t, dir); len(got) != 1 || filepath.Base(got[0]) != "c000000000" {
		t.Errorf("got packs %v, want that of the first page", got)
	}
	j, err := q.Next(ctx, "me")
	if err != nil || j.ID != 7 || j.Requeues != 1 {
		t.Errorf("got %v, %v, want job 7 requeued once", j, err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if got := packFiles(t, dir); len(got) != 0 {
		t.Errorf("got packs %v, want none", got)
	}
}
