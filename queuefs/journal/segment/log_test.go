package segment_test

import (
	"bytes"
	"errors"
	"fmt"
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

// A journal is a log with what a test knows of it.
type journal struct {
	testing.TB
	dir     *durable.Dir
	log     *segment.Log
	written []entry  // committed, in order
	found   []entry  // visited when the log was opened
	reports []string // made when the log was opened
}

type entry struct {
	data string
	at   segment.Position
}

// open opens the log in path from the mark.
func open(t testing.TB, path string, from segment.Mark, fault durable.Fault) *journal {
	t.Helper()
	j := &journal{TB: t}
	if err := j.open(path, from, fault); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.close)
	return j
}

func (j *journal) open(path string, from segment.Mark, fault durable.Fault) (err error) {
	if j.dir, err = durable.OpenDir(path, fault); err != nil {
		return err
	}
	j.log, err = segment.Open(j.dir, from, segment.Options{Segment: small,
		Report: func(name, text string) { j.reports = append(j.reports, name+": "+text) },
		Visit:  func(rec []byte, at segment.Position) { j.found = append(j.found, entry{string(rec), at}) }})
	return err
}

func (j *journal) close() {
	if j.log != nil {
		j.log.Close()
		j.dir.Close()
	}
	j.log = nil
}

// An op notes what it is told.
type op struct {
	mu        sync.Mutex
	committed int
	lost      []error
	then      func()
}

func (o *op) Committed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.committed++; o.then != nil {
		o.then()
	}
}

func (o *op) Lost(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = append(o.lost, err)
}

// try appends one record and commits it.
func (j *journal) try(data string, o *op) (at segment.Position, err error) {
	for {
		b, err := j.log.Append(len(data), segment.Adds, o, func(dst []byte, p segment.Position) {
			copy(dst, data)
			at = p
		})
		if segment.NeedsRoom(err) {
			if err := j.log.Room(len(data), segment.Adds); err != nil {
				return at, err
			}
			continue
		}
		if err != nil {
			return at, err
		}
		return at, j.log.Commit(b)
	}
}

func (j *journal) put(data string) {
	j.Helper()
	o := &op{}
	at, err := j.try(data, o)
	if err != nil || o.committed != 1 || len(o.lost) > 0 {
		j.Fatalf("append %d octets: %v, told %d times, lost %v", len(data), err, o.committed, o.lost)
	}
	if n := len(j.written); n > 0 && at <= j.written[n-1].at {
		j.Errorf("position %v after %v", at, j.written[n-1].at)
	}
	j.written = append(j.written, entry{data, at})
}

// record makes contents that are different each time.
func record(n, size int) string {
	head := fmt.Sprintf("record %d;", n)
	return strings.Repeat(head, size/len(head)+1)[:size]
}

// readBack reads all records at their positions.
func (j *journal) readBack(entries []entry) {
	j.Helper()
	for _, e := range entries {
		p := make([]byte, len(e.data))
		if err := j.log.ReadAt(p, e.at); err != nil || string(p) != e.data {
			j.Errorf("at %v: %v", e.at, err)
		}
		if n := j.log.Available(e.at); n < int64(len(e.data)) || n > small {
			j.Errorf("at %v: %d available", e.at, n)
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
	j := open(t, path, segment.Mark{}, nil)
	sizes := []int{0, 1, 4, 4063, 4064, 4065, 4068, 8192, 20_000, j.log.MaxAppend(), j.log.MaxAppend() - 1, 7}
	for n := range 60 {
		j.put(record(n, sizes[n%len(sizes)]))
	}
	j.readBack(j.written)
	if got, want := j.log.Written(), int64(0); got <= want {
		t.Errorf("%d octets written", got)
	}
	mark := j.log.Done()
	j.close()
	if n := len(segments(t, path)); n < 3 {
		t.Errorf("%d segments", n)
	}
	again := open(t, path, segment.Mark{}, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records of %d, reported %q", len(again.found), len(j.written), again.reports)
	}
	again.readBack(j.written)
	if got := again.log.Done(); got.Batch != mark.Batch || got.At < mark.At {
		t.Errorf("ends at %v, before at %v", got, mark)
	}
	again.written = j.written
	again.put("goes on")
	again.close()
	last := open(t, path, segment.Mark{}, nil)
	if !slices.Equal(last.found, again.written) {
		t.Errorf("found %d records of %d", len(last.found), len(again.written))
	}
}

// TestReplayFromMark opens the log from the end of each batch.
func TestReplayFromMark(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, segment.Mark{}, nil)
	marks := []segment.Mark{{}}
	for n := range 25 {
		j.put(record(n, 5000))
		marks = append(marks, j.log.Done())
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
	j := open(t, tempDir(t), segment.Mark{}, func(step string, do func() error) error {
		if step == "journal write" {
			if writes++; hold != nil {
				held <- true
				<-hold
			}
		}
		return do()
	})
	hold, held = make(chan bool), make(chan bool, 10)
	var wg sync.WaitGroup
	wg.Go(func() { j.put("first") })
	<-held
	var mu sync.Mutex
	var order, told []int
	var batches []*segment.Batch
	for n := range 64 {
		data := record(n, 30)
		o := &op{then: func() { told = append(told, n) }}
		b, err := j.log.Append(len(data), segment.Adds, o, func(dst []byte, at segment.Position) {
			copy(dst, data)
			order = append(order, n)
		})
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	for _, b := range batches {
		wg.Go(func() {
			if err := j.log.Commit(b); err != nil {
				mu.Lock()
				t.Error(err)
				mu.Unlock()
			}
		})
	}
	close(hold)
	wg.Wait()
	if writes != 2 || !slices.Equal(order, told) || len(told) != 64 {
		t.Errorf("%d writes; appended %v, told %v", writes, order, told)
	}
}

func TestAppendFromManyGoroutines(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, segment.Mark{}, nil)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(0, uint64(g)))
			for n := range 30 {
				data := record(g*1000+n, rng.IntN(6000))
				o := &op{}
				at, err := j.try(data, o)
				mu.Lock()
				if err != nil || o.committed != 1 {
					t.Errorf("%v, told %d times", err, o.committed)
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
	if again := open(t, path, segment.Mark{}, nil); !slices.Equal(again.found, j.written) {
		t.Errorf("found %d records of %d", len(again.found), len(j.written))
	}
}

func TestTooLargeRecord(t *testing.T) {
	j := open(t, tempDir(t), segment.Mark{}, nil)
	j.put("before")
	o := &op{}
	if _, err := j.try(record(0, j.log.MaxAppend()+1), o); err == nil || segment.NeedsRoom(err) || errors.Is(err, segment.ErrFailed) || o.committed+len(o.lost) > 0 {
		t.Errorf("got %v, told %d times", err, o.committed)
	}
	j.put(record(1, j.log.MaxAppend()))
	j.put("after")
	j.readBack(j.written)
}

func TestClosedLog(t *testing.T) {
	j := open(t, tempDir(t), segment.Mark{}, nil)
	j.put("x")
	log := j.log
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if _, err := log.Append(1, segment.Adds, &op{}, func([]byte, segment.Position) {}); err == nil {
		t.Error("a closed log takes records")
	}
	if err := log.Room(1, segment.Adds); err == nil {
		t.Error("a closed log makes room")
	}
	if err := log.ReadAt(make([]byte, 1), j.written[0].at); err == nil {
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
	for _, size := range []int64{-1, 1, 4096, small - 4096, small + 1, segment.MaxSegment + 4096} {
		if _, err := segment.Open(d, segment.Mark{}, segment.Options{Segment: size}); err == nil {
			t.Errorf("a segment of %d octets", size)
		}
	}
	// A log goes on when segments get another size.
	path := d.Path()
	j := open(t, path, segment.Mark{}, nil)
	j.put(record(1, 3000))
	j.close()
	var found []string
	log, err := segment.Open(d, segment.Mark{}, segment.Options{Segment: 2 * small, Visit: func(rec []byte, at segment.Position) { found = append(found, string(rec)) }})
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
	j := open(t, tempDir(t), segment.Mark{}, func(step string, do func() error) error {
		if step == "prepare segment" {
			made.Add(1)
		}
		return do()
	})
	room := func(want int32) {
		t.Helper()
		if err := j.log.Room(j.log.MaxAppend(), segment.Adds); err != nil || made.Load() != want {
			t.Errorf("made %d segments, %v, want %d", made.Load(), err, want)
		}
	}
	room(1)
	for first := j.log.Done().At.Segment(); j.log.Done().At.Segment() == first; {
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
	j := open(t, tempDir(t), segment.Mark{}, func(step string, do func() error) error {
		if step == "prepare segment" && full.Load() {
			tries.Add(1)
			return syscall.ENOSPC
		}
		return do()
	})
	full.Store(true)
	for n := range 4 { // blocks of a segment of 16
		j.put(record(n, 100))
		if err := j.log.Room(j.log.MaxAppend(), segment.Adds); err != nil { // waits for whoever prepares
			t.Fatal(err)
		}
	}
	if tries.Load() != 1 {
		t.Errorf("tried %d times", tries.Load())
	}
	full.Store(false)
	for first := j.log.Done().At.Segment(); j.log.Done().At.Segment() < first+3; {
		j.put("there is room")
	}
}

// TestCloseWaitsForWhoCommits closes the log while a caller syncs its batch.
func TestCloseWaitsForWhoCommits(t *testing.T) {
	syncing, goOn := make(chan bool), make(chan bool)
	hold := true
	j := open(t, tempDir(t), segment.Mark{}, func(step string, do func() error) error {
		if step == "journal sync" && hold {
			hold = false
			syncing <- true
			<-goOn
		}
		return do()
	})
	log := j.log
	committed, closed := make(chan error), make(chan bool)
	go func() { _, err := j.try("a record", &op{}); committed <- err }()
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
