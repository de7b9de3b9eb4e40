package queuefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs/journal/segment"
)

// packHome returns a queue with two full pages of jobs and some more, none of
// which has files.
func packHome(t *testing.T) *Queue {
	t.Helper()
	q := aheadQueue(t, Options{})
	packSubmit(t, q, 2*PageJobs+100)
	return q
}

// packSubmit submits n jobs at once.
func packSubmit(t *testing.T, q *Queue, n int) {
	t.Helper()
	sub := q.Begin()
	defer sub.Discard()
	for i := range n {
		d, err := sub.Add(Meta{Filename: fmt.Sprint(i)})
		if err == nil {
			_, err = d.Write(aheadPayload(i))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
	if _, err := sub.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// files returns how many files there are in a directory below the home.
func files(t *testing.T, q *Queue, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(q.svc.Dir(), dir))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

const packGlob = "log/index/queues/q/k*"

// Packs are made of what is in the journal, one at a time.
func TestPacksComeBeforeFiles(t *testing.T) {
	q := packHome(t)
	for n := range 3 {
		calls := 0
		done := q.pack(func() bool { calls++; return calls < 2 })
		if want := min(n+1, 2); done != (n > 0) || files(t, q, packGlob) != want {
			t.Errorf("call %d: done %v with %d packs, want %d", n, done, files(t, q, packGlob), want)
		}
	}
	if n := files(t, q, "queues/q/p*/*"); n != 0 {
		t.Fatalf("%d jobs and payloads have files", n)
	}
	for n := range 2 {
		p, err := q.readPack(n)
		if err != nil {
			t.Fatal(err)
		}
		defer p.file.Close()
		for i := max(1, n*PageJobs); i < (n+1)*PageJobs; i++ {
			at, _, _, _ := p.entry(JobID(i))
			j, err := q.Job(JobID(i))
			if err != nil {
				t.Fatal(err)
			}
			want := append(j.AppendText(nil), aheadPayload(i-1)...)
			if got := make([]byte, len(want)); at == 0 || p.ReadAt(got, segment.Position(at)) != nil || !bytes.Equal(got, want) {
				t.Fatalf("job %d: pack has %q, want %q", i, got, want)
			}
		}
	}
}

// Calm upkeep makes packs, too, and then the files.
func TestUpkeepMakesPacks(t *testing.T) {
	q := packHome(t)
	for range 1000 {
		if err := q.svc.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if q.svc.Unfiled() == 0 {
			break
		}
		if files(t, q, packGlob) < 2 && files(t, q, "queues/q/p*/*") > 0 {
			t.Fatal("files came first")
		}
	}
	if got := files(t, q, packGlob); got != 2 {
		t.Errorf("%d packs, want 2", got)
	}
}

// Who takes one job after the other from packs has the next ones read with it.
func TestPacksAreReadAhead(t *testing.T) {
	q := packHome(t)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &q.svc.ahead.slots[q.life%uint64(len(q.svc.ahead.slots))]
	reads := 0
	var last *stretch
	for i := range 2*PageJobs - 1 {
		aheadTake(t, q, i)
		if s := a.last.Load(); s != last {
			last = s
			reads++
		}
	}
	if reads > 2*PageJobs/20 {
		t.Errorf("%d reads for two packs", reads)
	}
	// The next are of no full page.
	taken, err := q.Take(t.Context(), Take{})
	if err != nil || taken[0].Filename != fmt.Sprint(2*PageJobs-1) || taken[0].AtHand() != nil {
		t.Errorf("got %+v, %v", taken, err)
	}
}

// A payload in a pack that is not what it was is read from its file, also by
// one who reads ahead.
func TestDamagedPackIsNotReadAhead(t *testing.T) {
	q := packHome(t)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(q.svc.Dir(), "log/index/queues/q", packName(0))
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 7, 8, 500} { // in their payloads
		at := bytes.Index(data, aheadPayload(i))
		data[at+100] ^= 1
	}
	if i := bytes.Index(data, []byte("filename: 20\n")); i < 0 {
		t.Fatal("no job file in the pack")
	} else {
		data[i+11] = '9'
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		taken, err := q.Take(t.Context(), Take{})
		if err != nil || taken[0].Filename != fmt.Sprint(i) {
			t.Fatalf("job %d: %+v, %v", i, taken, err)
		}
		got := taken[0].AtHand()
		if got == nil {
			p, err := q.Payload(taken[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			got, err = io.ReadAll(p)
			if err := errors.Join(err, p.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, aheadPayload(i)) {
			t.Fatalf("job %d: payload %.20q", i, got)
		}
	}
}

// A page whose last jobs are on their way to the journal is not full yet.
func TestPacksWaitForJobsOnTheirWay(t *testing.T) {
	for _, have := range []int{100, 600} {
		t.Run(fmt.Sprint(have), func(t *testing.T) {
			var held atomic.Pointer[chan struct{}]
			entered := make(chan struct{}, 1)
			q := aheadQueue(t, Options{Fault: func(step string, do func() error) error {
				if c := held.Load(); c != nil && strings.Contains(step, "sync") {
					select {
					case entered <- struct{}{}:
					default:
					}
					<-*c
				}
				return do()
			}})
			packSubmit(t, q, have)
			c := make(chan struct{})
			held.Store(&c)
			var other sync.WaitGroup
			other.Go(func() { packSubmit(t, q, 2000-have) })
			<-entered
			if !q.svc.packAll(func() bool { return true }) || files(t, q, packGlob) != 0 {
				t.Error("a page is packed before it is full")
			}
			held.Store(nil)
			close(c)
			other.Wait()
			if err := q.svc.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			p, err := q.readPack(0)
			if err != nil {
				t.Fatal(err)
			}
			defer p.file.Close()
			for id := JobID(1); id < PageJobs; id++ {
				if at, _, _, _ := p.entry(id); at == 0 {
					t.Fatalf("the pack lacks job %v", id)
				}
			}
		})
	}
}

// What is damaged when a pack is made may be mended: it is not taken over.
func TestDamagedPayloadIsNotPacked(t *testing.T) {
	q := aheadQueue(t, Options{})
	packSubmit(t, q, 10)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(q.svc.Dir(), "queues/q/payload", JobID(1).String())
	good, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, bytes.ToUpper(bytes.Repeat([]byte("x"), len(good))), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	packSubmit(t, q, PageJobs)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, good, 0o666); err != nil {
		t.Fatal(err)
	}
	taken, err := q.Take(t.Context(), Take{})
	if err != nil {
		t.Fatal(err)
	}
	got := taken[0].AtHand()
	if got == nil {
		p, err := q.Payload(1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if got, err = io.ReadAll(p); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, good) {
		t.Errorf("got %.20q, want %.20q", got, good)
	}
}

// A pack that is removed while it is opened does not stay open.
func TestRemovedPackIsClosed(t *testing.T) {
	q := packHome(t)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.openPack(0)
	late, err := q.readPack(1)
	if err != nil {
		t.Fatal(err)
	}
	q.dropPacks(true)
	late.keep()
	for n := range 2 {
		if q.hasPack(n) {
			t.Errorf("page %d has a pack", n)
		}
		if q.svc.packs.find(q, n) != nil {
			t.Errorf("the pack of page %d is open", n)
		}
	}
	if n := files(t, q, packGlob); n != 0 {
		t.Errorf("%d packs are left", n)
	}
}

// Where few files may be open, those are not all packs.
func TestFewFilesFewPacks(t *testing.T) {
	for files, want := range map[uint64]int{0: 5, 64: 8, 256: 32, 1024: packsOpen, 1 << 63: packsOpen} {
		if n := packsFor(files); n != want {
			t.Errorf("%d of %d files, not %d", n, files, want)
		}
	}
}

// The pack of the jobs that are taken is loaded, that of the first page and those
// that were closed meanwhile too.
func TestPacksAreLoaded(t *testing.T) {
	q := packHome(t)
	if err := q.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	loaded := func(what string) {
		t.Helper()
		for range 1000 {
			if p := q.svc.packs.find(q, 0); p != nil && p.loaded.Load() {
				return
			}
			q.ReadAhead(0)
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%s: the pack of the first page is not loaded", what)
	}
	loaded("at first")
	q.svc.packs.drop(func(*pack) bool { return true })
	loaded("opened again")
}
