package segment_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/testdata/long"
)

// fillSegments appends until the log is n segments further on.
func (j *ledger) fillSegments(n int) {
	j.Helper()
	until := j.log.Current() + uint64(n)
	for k := 0; j.log.Current() < until; k++ {
		j.put(record(len(j.written), 3000+k%5*2000))
	}
}

func TestReleasedSegmentsAreUsedAgain(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.fillSegments(6)
	first := j.written[0].at
	if err := j.log.Release(j.next()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.log.ReadAt(make([]byte, 1), first, 0); !errors.Is(err, journal.ErrReleased) {
		t.Errorf("got %v", err)
	}
	for _, err := range j.log.Read(first) {
		if !errors.Is(err, journal.ErrReleased) {
			t.Errorf("read: got %v", err)
		}
	}
	spares := 0
	for name := range images(t, path) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			spares++
		}
	}
	if spares == 0 || spares > 4 {
		t.Errorf("%d spares", spares)
	}
	j.fillSegments(spares)
	for name := range images(t, path) {
		if strings.HasPrefix(name, durable.TempPrefix+"spare-") {
			if spares--; spares < 0 {
				t.Errorf("%s was not used", name)
			}
		}
	}
	// The segment that is written is never let go.
	if err := j.log.Release(1 << 37); err != nil {
		t.Fatal(err)
	}
	j.put("goes on")
	j.readBack(j.written[len(j.written)-1:])
}

// The numbers of records go on where all records are gone, and nobody knows where to read
// on: else batches of a former use of the file would have them, and look torn.
func TestNumbersGoOnWithoutRecords(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.fillSegments(3)
	// Records are reserved for until the next segment is there: nobody has written to it.
	for last := j.log.Current(); ; j.put("more") {
		if _, err := os.Stat(filepath.Join(path, fmt.Sprintf("%016x.log", last+1))); err == nil && j.log.Current() == last {
			break
		}
	}
	next := j.next()
	j.close()
	j = open(t, path, next, nil)
	if err := j.log.Release(next); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		j.close()
		j = open(t, path, 0, nil)
		if got := j.next(); got != next || len(j.found) > 0 || len(j.reports) > 0 {
			t.Fatalf("got %d, records %v, reports %q, want %d", got, j.found, j.reports, next)
		}
	}
	j.put("goes on")
	if at := j.written[0].at; at != next {
		t.Errorf("got record %d, want %d", at, next)
	}
}

// TestReleaseLeavesNoHole fails each step of letting segments go: what is left
// is the end of the log, without a hole, and the next call does the rest.
func TestReleaseLeavesNoHole(t *testing.T) {
	for at := 1; ; at++ {
		for _, happened := range []bool{false, true} {
			n, failing, failed := 0, false, false
			path := tempDir(t)
			j := open(t, path, 0, func(step string, do func() error) error {
				if failing {
					if n++; n == at {
						failed = true
						if happened {
							do()
						}
						return errors.New("injected")
					}
				}
				return do()
			})
			j.fillSegments(8)
			j.put("last")
			if err := j.log.Reserve(journal.Adds, 1, j.log.Stats().MaxAppend); err != nil { // so that nothing else happens meanwhile
				t.Fatal(err)
			}
			last := j.log.Current()
			failing = true
			err := j.log.Release(j.next())
			failing = false
			if !failed {
				if err != nil || at < 8 {
					t.Errorf("%d steps, %v", at-1, err)
				}
				return
			}
			if err == nil {
				t.Errorf("step %d: no error", at)
			}
			files := images(t, path)
			left := open(t, place(t, files), 0, nil)
			if k := len(j.written) - len(left.found); k < 0 || !slices.Equal(left.found, j.written[k:]) || len(left.reports) > 0 {
				t.Errorf("step %d: found %d records of %d, reported %q", at, len(left.found), len(j.written), left.reports)
			}
			left.close()
			if err := j.log.Release(j.next()); err != nil {
				t.Errorf("step %d, again: %v", at, err)
			}
			if names := segments(t, path); names[0] != fmt.Sprintf("%016x.log", last) {
				t.Errorf("step %d: left are %q", at, names)
			}
			j.fillSegments(4)
			j.close()
		}
	}
}

// TestRecycledRecordsNeverComeBack opens copies of a log whose segments had a
// former life, cut at every block: only records of this life are found, in
// order, from the first on.
func TestRecycledRecordsNeverComeBack(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.fillSegments(5)
	mark := j.next()
	if err := j.log.Release(mark); err != nil {
		t.Fatal(err)
	}
	j.fillSegments(3)
	var want []entry
	for _, e := range j.written {
		if e.at >= mark {
			want = append(want, e)
		}
	}
	j.close()
	files := images(t, path)
	names := segments(t, path)
	for _, name := range names[1:] {
		for block := 4096; block < small; block += 3 * 4096 {
			c := maps.Clone(files)
			// As if the machine had stopped here: nothing behind was written in this life.
			c[name] = c[name][:block] + strings.Repeat("\x00", 10) + c[name][block+10:]
			for _, later := range names {
				if later > name {
					delete(c, later)
				}
			}
			for _, from := range []journal.LSN{mark, 0} {
				again := open(t, place(t, c), from, nil)
				found := again.found
				if from == 0 {
					found = slices.DeleteFunc(found, func(e entry) bool { return e.at < mark })
				}
				for i, e := range found {
					if k := slices.Index(want, e); k < i {
						t.Fatalf("%s cut at %d, from %v: record %d is %.30q at %v", name, block, from, i, e.data, e.at)
					}
				}
				again.close()
			}
		}
	}
}

// TestReadersWhileSegmentsGo reads records while their segments are let go and
// used again: it gets what was written there, or learns that it is gone.
func TestReadersWhileSegmentsGo(t *testing.T) {
	j := open(t, tempDir(t), 0, nil)
	j.fillSegments(1)
	var known atomic.Pointer[[]entry] // of the segments that go next
	first := slices.Clone(j.written)
	known.Store(&first)
	stop := make(chan bool)
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			p := make([]byte, small)
			for n := r; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				all := *known.Load()
				e := all[n%len(all)]
				p := p[:len(e.data)]
				if _, err := j.log.ReadAt(p, e.at, 0); err == nil && string(p) != e.data {
					t.Errorf("at %v: read %.30q want %.30q", e.at, p, e.data)
					return
				} else if err != nil && !errors.Is(err, journal.ErrReleased) {
					t.Errorf("at %v: %v", e.at, err)
					return
				}
			}
		})
	}
	rounds := long.N(20, 100)
	for range rounds {
		begin := len(j.written)
		j.fillSegments(1)
		next := slices.Clone(j.written[begin:])
		known.Store(&next)
		j.fillSegments(1)
		if err := j.log.Release(j.next()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// TestStrangeFilesInTheJournal are left alone, but for what is unfinished.
func TestStrangeFilesInTheJournal(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.put("x")
	j.close()
	keep := []string{"notes.txt", "0000000000000001.log.damaged", "1.log", "000000000000000G.log", "00000000000000001.log"}
	gone := []string{durable.TempPrefix + "1-1", durable.TempPrefix + "spare-short"}
	for _, name := range slices.Concat(keep, gone) {
		if err := os.WriteFile(filepath.Join(path, name), []byte("strange"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 6 {
		name := fmt.Sprintf("%sspare-%d", durable.TempPrefix, n)
		if err := os.WriteFile(filepath.Join(path, name), make([]byte, small), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records, reported %q", len(again.found), again.reports)
	}
	have := images(t, path)
	spares := 0
	for name := range have {
		if strings.HasPrefix(name, durable.TempPrefix) {
			spares++
		}
	}
	if spares != 4 {
		t.Errorf("%d spares", spares)
	}
	for _, name := range keep {
		if have[name] != "strange" {
			t.Errorf("%s is gone", name)
		}
	}
	again.fillSegments(6)
	again.readBack(again.written)
}

// A crash must not leave a journal of nothing but a segment without a batch: it could
// not be told from a lost one.
func TestTheLastDurableBatchIsNotReleased(t *testing.T) {
	var hold, held chan bool
	j := open(t, tempDir(t), 0, func(step string, do func() error) error {
		if step == "journal write" && hold != nil {
			held <- true
			<-hold
		}
		return do()
	})
	first := j.log.Current()
	for j.log.Stats().Left > 8192 {
		j.put(record(1, 3000))
	}
	next := j.log.Stats().Next
	hold, held = make(chan bool), make(chan bool, 1)
	done := make(chan error)
	go func() { _, err := j.try(record(2, 9000), journal.Adds); done <- err }()
	<-held // in the next segment
	if err := j.log.Release(next); err != nil {
		t.Fatal(err)
	}
	if now := j.log.Stats(); j.log.Current() == first || now.First == now.Next {
		t.Errorf("segment %v after %v, records from %d to %d", j.log.Current(), first, now.First, now.Next)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := j.log.Release(j.log.Stats().Next); err != nil {
		t.Fatal(err)
	}
	if now := j.log.Stats(); now.First < next {
		t.Errorf("records from %d, want from %d", now.First, next)
	}
}
