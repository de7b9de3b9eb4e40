package segment_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
)

// small is the smallest segment, so that tests see many.
const small = 64 << 10

// tempDir is a directory in memory where the system has one.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "segment-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A ledger is a log with what a test knows of it.
type ledger struct {
	testing.TB
	dir     *durable.Dir
	log     *segment.Log
	options segment.Options
	written []entry  // committed, in order
	found   []entry  // read when the log was opened
	reports []string // made when the log was opened
}

type entry struct {
	data string
	at   journal.LSN
}

// open opens the log in path to read on from a record.
func open(t testing.TB, path string, from journal.LSN, fault durable.Fault) *ledger {
	t.Helper()
	j := &ledger{TB: t}
	if err := j.open(path, from, fault); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.close)
	return j
}

func (j *ledger) open(path string, from journal.LSN, fault durable.Fault) (err error) {
	if j.dir, err = durable.OpenDir(path, fault); err != nil {
		return err
	}
	o := j.options
	o.From, o.Size = from, cmp.Or(o.Size, small)
	o.Report = func(name, text string) { j.reports = append(j.reports, name+": "+text) }
	if j.log, err = segment.Open(j.dir, o); err != nil {
		return err
	}
	j.found = nil
	for rec, err := range j.log.Read(0) {
		if err != nil {
			return err
		}
		if rec.LSN >= from {
			j.found = append(j.found, entry{string(rec.Data), rec.LSN})
		}
	}
	return nil
}

func (j *ledger) close() {
	if j.log != nil {
		j.log.Close()
		j.dir.Close()
	}
	j.log = nil
}

// try appends one record for a use, and waits for it.
func (j *ledger) try(data string, use journal.Use) (at journal.LSN, err error) {
	for {
		t, err := j.log.Append(use, []journal.Contents{{Head: []byte(data[:len(data)/2]), Body: []byte(data[len(data)/2:])}})
		if err == journal.ErrUnready {
			if err := j.log.Reserve(use, 1, len(data)); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		if next, err := t.Wait(); err != nil || next <= t.First {
			return t.First, err
		}
		return t.First, nil
	}
}

// add is put for a use; the error is returned.
func (j *ledger) add(data string, use journal.Use) error {
	at, err := j.try(data, use)
	if err == nil {
		j.written = append(j.written, entry{data, at})
	}
	return err
}

func (j *ledger) put(data string) {
	j.Helper()
	if err := j.add(data, journal.Adds); err != nil {
		j.Fatalf("append %d bytes: %v", len(data), err)
	}
	if n := len(j.written); n > 1 && j.written[n-1].at <= j.written[n-2].at {
		j.Errorf("record %v after %v", j.written[n-1].at, j.written[n-2].at)
	}
}

// next returns the number of the next record.
func (j *ledger) next() journal.LSN { return j.log.Stats().Next }

// record makes contents that are different each time.
func record(n, size int) string {
	head := fmt.Sprintf("record %d;", n)
	return strings.Repeat(head, size/len(head)+1)[:size]
}

// readBack reads all records, whole and from their middle.
func (j *ledger) readBack(entries []entry) {
	j.Helper()
	for _, e := range entries {
		p := make([]byte, len(e.data)+1)
		if n, err := j.log.ReadAt(p, e.at, 0); err != io.EOF || string(p[:n]) != e.data {
			j.Errorf("at %v: %v", e.at, err)
		}
		half := len(e.data) / 2
		p = p[:len(e.data)-half]
		if n, err := j.log.ReadAt(p, e.at, half); err != nil || string(p[:n]) != e.data[half:] {
			j.Errorf("at %v from %d: %v", e.at, half, err)
		}
	}
}

// images returns the contents of a directory by name.
func images(t testing.TB, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		data, err := os.ReadFile(filepath.Join(path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(e.Name(), durable.TempPrefix) {
			continue // has its name by now
		}
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// place writes the files into a fresh directory.
func place(t testing.TB, files map[string]string) string {
	t.Helper()
	path := tempDir(t)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(path, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func segments(t testing.TB, path string) (names []string) {
	for name := range images(t, path) {
		if strings.HasSuffix(name, ".log") && !strings.HasPrefix(name, durable.TempPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestReplayGivesWhatWasAppended(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	sizes := []int{0, 1, 4, 4063, 4064, 4065, 4068, 8192, 20_000, j.log.Stats().MaxAppend, j.log.Stats().MaxAppend - 1, 7}
	for n := range 60 {
		j.put(record(n, sizes[n%len(sizes)]))
	}
	j.readBack(j.written)
	if got, want := j.log.Stats().Written, int64(0); got <= want {
		t.Errorf("%d bytes written", got)
	}
	mark := j.next()
	j.close()
	if n := len(segments(t, path)); n < 3 {
		t.Errorf("%d segments", n)
	}
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records of %d, reported %q", len(again.found), len(j.written), again.reports)
	}
	again.readBack(j.written)
	if got := again.next(); got != mark {
		t.Errorf("ends at %v, before at %v", got, mark)
	}
	again.written = j.written
	again.put("goes on")
	again.close()
	last := open(t, path, 0, nil)
	if !slices.Equal(last.found, again.written) {
		t.Errorf("found %d records of %d", len(last.found), len(again.written))
	}
}

// TestReplayFromMark opens the log from the end of each batch.
func TestReplayFromMark(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	marks := []journal.LSN{1}
	for n := range 25 {
		j.put(record(n, 5000))
		marks = append(marks, j.next())
	}
	j.close()
	files := images(t, path)
	for n, m := range marks {
		again := open(t, place(t, files), m, nil)
		if !slices.Equal(again.found, j.written[n:]) || len(again.reports) > 0 {
			t.Errorf("from %v: found %d records, want %d; reported %q", m, len(again.found), len(j.written)-n, again.reports)
		}
		again.put("goes on")
		again.close()
	}
}

func TestCallersShareASync(t *testing.T) {
	writes := 0
	var hold, held chan bool
	j := open(t, tempDir(t), 0, func(step string, do func() error) error {
		if step == "journal write" {
			if writes++; hold != nil {
				held <- true
				<-hold
			}
		}
		return do()
	})
	hold, held, writes = make(chan bool), make(chan bool, 10), 0
	var wg sync.WaitGroup
	wg.Go(func() { j.put("first") })
	<-held
	var tickets []journal.Ticket
	for n := range 64 {
		ticket, err := j.log.Append(journal.Adds, []journal.Contents{{Head: []byte(record(2*n, 30))}, {Body: []byte(record(2*n+1, 30))}})
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	first := j.next() + 1 // the record that is held
	for n, ticket := range tickets {
		if want := first + journal.LSN(2*n); ticket.First != want {
			t.Errorf("record %d has the number %d, want %d", 2*n, ticket.First, want)
		}
		wg.Go(func() {
			if next, err := ticket.Wait(); err != nil || next != first+128 {
				t.Errorf("%v, then %d, want %d", err, next, first+128)
			}
		})
	}
	close(hold)
	wg.Wait()
	if writes != 2 {
		t.Errorf("%d writes", writes)
	}
	for n := range 128 {
		j.readBack([]entry{{record(n, 30), first + journal.LSN(n)}})
	}
}

func TestAppendFromManyGoroutines(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(0, uint64(g)))
			for n := range 30 {
				data := record(g*1000+n, rng.IntN(6000))
				at, err := j.try(data, journal.Adds)
				mu.Lock()
				if err != nil {
					t.Error(err)
				}
				j.written = append(j.written, entry{data, at})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(j.written, func(a, b entry) int { return int(a.at) - int(b.at) })
	j.readBack(j.written)
	j.close()
	if again := open(t, path, 0, nil); !slices.Equal(again.found, j.written) {
		t.Errorf("found %d records of %d", len(again.found), len(j.written))
	}
}

func TestTooLargeRecord(t *testing.T) {
	j := open(t, tempDir(t), 0, nil)
	j.put("before")
	if _, err := j.try(record(0, j.log.Stats().MaxAppend+1), journal.Adds); !errors.Is(err, journal.ErrTooLarge) || errors.Is(err, journal.ErrFailed) {
		t.Errorf("got %v", err)
	}
	j.put(record(1, j.log.Stats().MaxAppend))
	j.put("after")
	j.readBack(j.written)
}

func TestClosedLog(t *testing.T) {
	j := open(t, tempDir(t), 0, nil)
	j.put("x")
	log := j.log
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if _, err := log.Append(journal.Adds, []journal.Contents{{Head: []byte("x")}}); err == nil {
		t.Error("a closed log takes records")
	}
	if err := log.Reserve(journal.Adds, 1, 1); err == nil {
		t.Error("a closed log makes space")
	}
	if _, err := log.ReadAt(make([]byte, 1), j.written[0].at, 0); err == nil {
		t.Error("a closed log is read")
	}
	j.dir.Close()
	j.log = nil
}

func TestSegmentSizes(t *testing.T) {
	d, err := durable.OpenDir(tempDir(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, size := range []int64{-1, 1, 4096, small - 4096, small + 1, segment.MaxSize + 4096} {
		if _, err := segment.Open(d, segment.Options{Size: size}); err == nil {
			t.Errorf("a segment of %d bytes", size)
		}
	}
	// A log goes on when segments get another size.
	path := d.Path()
	j := open(t, path, 0, nil)
	j.put(record(1, 3000))
	j.close()
	var found []string
	log, err := segment.Open(d, segment.Options{Size: 2 * small})
	if err == nil {
		for rec := range log.Read(0) {
			found = append(found, string(rec.Data))
		}
	}
	if err != nil || !slices.Equal(found, []string{record(1, 3000)}) {
		t.Fatalf("found %d, %v", len(found), err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.HasPrefix([]byte(images(t, path)[segments(t, path)[0]]), []byte("CUTIEJNL")) {
		t.Error("a segment without its name in front")
	}
}

// TestRoomIsMadeOnce asks for room where there is some: no segment is made, so
// that of many who wait for one only the first has it made.
func TestRoomIsMadeOnce(t *testing.T) {
	var made atomic.Int32
	j := open(t, tempDir(t), 0, func(step string, do func() error) error {
		if step == "prepare segment" {
			made.Add(1)
		}
		return do()
	})
	room := func(want int32) {
		t.Helper()
		if err := j.log.Reserve(journal.Adds, 1, j.log.Stats().MaxAppend); err != nil || made.Load() != want {
			t.Errorf("made %d segments, %v, want %d", made.Load(), err, want)
		}
	}
	room(1)
	for first := j.log.Current(); j.log.Current() == first; {
		j.put("a record")
	}
	room(2)
	room(2)
}

// TestNextSegmentIsTriedOnce is about a disk that has no room for the next
// segment while there is some in this one: that is found out once, not at every
// batch, for each attempt may take what others would have used.
func TestNextSegmentIsTriedOnce(t *testing.T) {
	var full atomic.Bool
	var tries atomic.Int32
	j := open(t, tempDir(t), 0, func(step string, do func() error) error {
		if step == "prepare segment" && full.Load() {
			tries.Add(1)
			return syscall.ENOSPC
		}
		return do()
	})
	full.Store(true)
	for n := range 4 { // blocks of a segment of 16
		j.put(record(n, 100))
		if err := j.log.Reserve(journal.Adds, 1, j.log.Stats().MaxAppend); err != nil { // waits for whoever prepares
			t.Fatal(err)
		}
	}
	if tries.Load() != 1 {
		t.Errorf("tried %d times", tries.Load())
	}
	full.Store(false)
	for first := j.log.Current(); j.log.Current() < first+3; {
		j.put("there is room")
	}
}

// TestCloseWaitsForWhoCommits closes the log while a caller syncs its batch.
func TestCloseWaitsForWhoCommits(t *testing.T) {
	syncing, goOn := make(chan bool), make(chan bool)
	hold := false
	j := open(t, tempDir(t), 0, func(step string, do func() error) error {
		if step == "journal sync" && hold {
			hold = false
			syncing <- true
			<-goOn
		}
		return do()
	})
	hold = true
	log := j.log
	committed, closed := make(chan error), make(chan bool)
	go func() { _, err := j.try("a record", journal.Adds); committed <- err }()
	<-syncing
	go func() { log.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("closed while a batch was being synced")
	case <-time.After(20 * time.Millisecond): // nothing tells that it waits
	}
	close(goOn)
	if err := <-committed; err != nil {
		t.Error(err)
	}
	<-closed
}
