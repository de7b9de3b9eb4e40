package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
)

// TestLargestBatch submits ten thousand jobs at once, with one sync, and a
// failing one that leaves nothing.
func TestLargestBatch(t *testing.T) {
	var syncs atomic.Int64
	dir := fastDir(t)
	o := queuefs.Options{Segment: 32 << 20, Fault: func(step string, do func() error) error {
		if step == "journal sync" {
			syncs.Add(1)
		}
		return do()
	}}
	s, q := openHome(t, dir, o)
	for _, good := range []bool{false, true} {
		sub := q.Begin()
		for n := range 10_000 {
			d, err := sub.Add(queuefs.Meta{Batch: "b", Filename: "f"})
			if err != nil {
				t.Fatal(err)
			}
			d.Write([]byte{byte(n)})
		}
		if !good {
			sub.Discard()
			continue
		}
		before := syncs.Load()
		jobs, err := sub.Commit(ctx)
		if err != nil || len(jobs) != 10_000 || syncs.Load() != before+1 {
			t.Fatalf("got %d jobs, %v, %d syncs", len(jobs), err, syncs.Load()-before)
		}
		for i, j := range jobs {
			if j.ID != queuefs.JobID(i+1) || j.Seq != queuefs.Seq(i+1) || i > 0 && !j.Submitted.After(jobs[i-1].Submitted) {
				t.Fatalf("job %d: got %+v", i, j)
			}
		}
	}
	before := syncs.Load()
	jobs, err := q.NextN(ctx, "w", 100_000)
	if err != nil || len(jobs) != queuefs.MaxTake || jobs[0].ID != 1 || syncs.Load() != before+1 {
		t.Errorf("took %d jobs, %v, %d syncs", len(jobs), err, syncs.Load()-before)
	}
	crashed := copyHome(t, dir)
	closeHome(t, s)
	o.Fault = nil
	s, q = openHome(t, crashed, o)
	defer closeHome(t, s)
	if st := q.State(); st.Pending != 9000 || st.Consumed != 1000 || st.Seq != 11_000 {
		t.Errorf("got %+v", st)
	}
	if got := payload(t, q, 10_000); got != "\x0f" {
		t.Errorf("got %q", got)
	}
}

func TestOneOfManyCreatesAQueue(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new", Name: "n"}); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, queuefs.ErrQueueExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || refused.Load() != 7 {
		t.Errorf("%d made it, %d were refused", made.Load(), refused.Load())
	}
}

func TestNamesOfNoQueue(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for name, want := range map[string]error{
		"none": queuefs.ErrNoQueue, "jobs2": queuefs.ErrNoQueue, "Jobs": queuefs.ErrNoQueue, "jobs/x": queuefs.ErrNoQueue,
		"": queuefs.ErrBadName, "..": queuefs.ErrBadName, ".": queuefs.ErrBadName, "jobs\x00": queuefs.ErrBadName,
		"cutie-info.txt": queuefs.ErrBadName, "\xff": queuefs.ErrBadName, strings.Repeat("x", 10<<10): queuefs.ErrBadName,
		"../queues/jobs": queuefs.ErrNoQueue, "/etc": queuefs.ErrNoQueue,
	} {
		if q, err := s.Queue(name); !errors.Is(err, want) || q != nil || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %v want %v", name, err, want)
		}
	}
}

// TestHomesOfOthers opens homes as other programs and people leave them.
func TestHomesOfOthers(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"version 0.2": func(dir string) error {
			return errors.Join(os.Remove(dir+"/0=cutie_0.3"), os.WriteFile(dir+"/0=cutie_0.2", []byte("Cutie/0.2\n"), 0o666))
		},
		"directory queue": func(dir string) error { return os.Rename(dir+"/queues", dir+"/queue") },
		"list by hand": func(dir string) error {
			return os.WriteFile(dir+"/queues.txt", []byte("# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs"), 0o666)
		},
		"no lock file": func(dir string) error { return os.Remove(dir + "/cutie-lock") },
		"strange lock": func(dir string) error { return os.WriteFile(dir+"/cutie-lock", []byte("who?"), 0o666) },
		"no temporary": func(dir string) error { return os.RemoveAll(dir + "/cutie-tmp") },
		"bare queue info": func(dir string) error {
			return os.WriteFile(dir+"/queues/jobs/queue-info.txt", []byte("identifier: jobs\nculling: often\n"), 0o666)
		},
		"empty directories gone": func(dir string) error { return os.Remove(dir + "/queues/jobs/deleted") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			s, q := openHome(t, dir, queuefs.Options{})
			if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "ark:/1/x"}); err != nil {
				t.Fatal(err)
			}
			submit(t, q, queuefs.Meta{}, "x")
			want := observe(t, s)
			closeHome(t, s)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
				if err != nil {
					t.Fatal(err)
				}
				if d := want.difference(observe(t, s)); d != "" {
					t.Error(d)
				}
				closeHome(t, s)
			}
		})
	}
}
