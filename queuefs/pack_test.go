package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
