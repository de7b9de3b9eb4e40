package queuefs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"cutie/queuefs"
)

// TestTakenJobsAreThoseOfTheQueue takes jobs whose files are behind the journal
// or not, that lie beside others there or not, of all sizes, and compares them
// with the same ones asked for by name.
func TestTakenJobsAreThoseOfTheQueue(t *testing.T) {
	s, q := openHome(t, t.TempDir(), queuefs.Options{})
	defer closeHome(t, s)
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[queuefs.JobID]string{}
	add := func(size int) queuefs.JobID {
		data := strings.Repeat("x", size)
		if size > 8 {
			data = fmt.Sprintf("%07d", len(want)) + data[7:]
		}
		j := submit(t, q, queuefs.Meta{Filename: fmt.Sprintf("f%d", len(want)), MediaType: "text/plain", Sidecar: strings.Repeat("s", len(want)%3*700)}, data)
		want[j.ID] = data
		return j.ID
	}
	sizes := []int{0, 1, 1 << 10, 0, 5 << 10, 60 << 10, 60 << 10, 60 << 10, 60 << 10, 60 << 10, 128 << 10, 128<<10 + 1, 200 << 10, 3}
	for _, size := range sizes {
		add(size)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	for i, size := range append(sizes, sizes...) {
		id := add(size)
		if i%3 == 1 {
			submit(t, other, queuefs.Meta{}, strings.Repeat("o", 3<<10*(i%4)))
		}
		if i%5 == 2 { // its job file moves away from its payload
			if _, err := q.Delete(ctx, id); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Requeue(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := queuefs.JobID(0)
	atHand, total := 0, len(want)
	for _, max := range []int{1, 1, 3, 7, 1, 100} {
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: max})
		if err != nil {
			t.Fatal(err)
		}
		octets := 0
		for i := range taken {
			j := &taken[i]
			data, ours := want[j.ID]
			delete(want, j.ID)
			if same, err := q.Job(j.ID); err != nil || !reflect.DeepEqual(same, j.Job) || j.ID <= last || !ours {
				t.Errorf("got %+v after %v, want %+v, %v", j.Job, last, same, err)
			}
			last = j.ID
			if j.AtHand() != nil {
				atHand++
				octets += len(data)
			}
			if j.AtHand() != nil && string(j.AtHand()) != data || payload(t, q, j.ID) != data {
				t.Errorf("%v of %d octets: got another payload, at hand %d octets", j.ID, len(data), len(j.AtHand()))
			}
		}
		if octets > 256<<10 {
			t.Errorf("%d octets of payloads came along with %d jobs", octets, len(taken))
		}
	}
	if len(want) != 0 || atHand < 12 {
		t.Errorf("of %d jobs %d did not come, %d had their payload at hand", total, len(want), atHand)
	}
}

// TestADamagedJournalDoesNotKeepNeighboursBack edits a job file in the journal,
// between two others, while it is read from there.
func TestADamagedJournalDoesNotKeepNeighboursBack(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	for _, name := range []string{"first", "victim", "third"} {
		submit(t, q, queuefs.Meta{Filename: name}, name)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log", "journal", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("journal: %v, %v", logs, err)
	}
	edited := 0
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte("filename: victim"))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(log, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("filename: edited"), int64(at)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		edited++
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 10})
	if err != nil || len(taken) != 3 || edited != 1 {
		t.Fatalf("got %d jobs, %v; edited %d", len(taken), err, edited)
	}
	for i, want := range []string{"first", "edited", "third"} {
		payload := []string{"first", "victim", "third"}[i]
		if got := taken[i].Filename; got != want {
			t.Errorf("job %d: got %s, want %s", i+1, got, want)
		}
		if at := taken[i].AtHand(); (at == nil) != (i == 1) || at != nil && string(at) != payload {
			t.Errorf("job %d: %q is at hand", i+1, at)
		}
	}
	closeHome(t, s)
}

// TestPayloadsAtHandKeepNoJobFiles takes jobs of which nearly everything is
// their sidecars, and keeps the payloads.
func TestPayloadsAtHandKeepNoJobFiles(t *testing.T) {
	s, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 64 << 20})
	defer closeHome(t, s)
	for range 500 {
		submit(t, q, queuefs.Meta{Sidecar: strings.Repeat("s", 24<<10)}, "x")
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 500})
	if err != nil || len(taken) < 100 {
		t.Fatalf("%d jobs, %v", len(taken), err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	payloads := make([][]byte, len(taken))
	for i := range taken {
		if payloads[i] = taken[i].AtHand(); payloads[i] == nil {
			t.Fatalf("job %d: the payload is not at hand", i)
		}
	}
	taken = nil
	with := heap()
	runtime.KeepAlive(payloads)
	if kept := with - heap(); kept > 4<<20 {
		t.Errorf("%d octets are kept for one of each job", kept)
	}
}
