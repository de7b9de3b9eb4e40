package segment_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	"cutie/queuefs/journal/journaltest"
	"cutie/queuefs/journal/segment"
	"cutie/testdata/long"
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
	must(t, j.open(path, from, fault))
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
	must(t, err)
	for _, e := range names {
		data, err := os.ReadFile(filepath.Join(path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(e.Name(), durable.TempPrefix) {
			continue // has its name by now
		}
		must(t, err)
		files[e.Name()] = string(data)
	}
	return files
}

// place writes the files into a fresh directory.
func place(t testing.TB, files map[string]string) string {
	t.Helper()
	path := tempDir(t)
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(path, name), []byte(data), 0o666))
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
		must(t, err)
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
	must(t, err)
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

// reopened opens a copy of a journal that was closed in order with the record before end,
// adds a record, and opens it once more. It returns the records of the first time and
// all of the second one.
func reopened(t *testing.T, files map[string]string, end journal.LSN) (found, all []entry, reports []string) {
	t.Helper()
	path := place(t, files)
	j := &ledger{TB: t}
	j.options.End = end
	must(t, j.open(path, 0, nil))
	found, reports = j.found, j.reports
	j.put("one more")
	j.close()
	again := open(t, path, 0, nil)
	defer again.close()
	return found, again.found, reports
}

// A journal that is not read behind its end is the same journal, wherever it ended and
// whatever was damaged before that.
func TestTheEndOfAJournalIsKnown(t *testing.T) {
	for _, n := range []int{1, 2, 5, 9, 30} {
		files, written, places := sample(t, func(n int) int { return 10 + n%7*3000 }, n)
		end := written[n-1].at + 1
		check := func(files map[string]string, end journal.LSN) {
			t.Helper()
			found, all, reports := reopened(t, files, end)
			wantFound, wantAll, wantReports := reopened(t, files, 0)
			if !slices.Equal(found, wantFound) || !slices.Equal(all, wantAll) || !slices.Equal(reports, wantReports) {
				t.Errorf("%d records, end %d: found %d of %d records, then %d of %d; reported %q, not %q", n, end, len(found), len(wantFound), len(all), len(wantAll), reports, wantReports)
			}
		}
		for end := range end + 2 { // the journal may go on behind an end that is told
			check(files, end)
		}
		for _, p := range places {
			name := fmt.Sprintf("%016x.log", p.segment)
			for _, with := range []string{"\x00", "\xff"} {
				c := maps.Clone(files)
				at := p.off &^ 4095
				c[name] = c[name][:at] + strings.Repeat(with, 4096) + c[name][at+4096:]
				check(c, end)
			}
		}
	}
}

// What lies behind the end is not looked at; a batch begun there is told of.
func TestNothingIsReadBehindTheEnd(t *testing.T) {
	files, written, places := sample(t, func(int) int { return 100 }, 5)
	name := fmt.Sprintf("%016x.log", places[0].segment)
	block := func(i int) int { return (places[i].off - 28) &^ 4095 }
	stray := maps.Clone(files)
	stray[name] = files[name][:block(3)] + strings.Repeat("\x00", 4096) + files[name][block(4):]
	found, _, reports := reopened(t, stray, written[2].at+1)
	if !slices.Equal(found, written[:3]) || len(reports) > 0 {
		t.Errorf("a batch without the one before it: found %d records, reported %q", len(found), reports)
	}
	if found, _, reports = reopened(t, stray, 0); len(found) != 4 || len(reports) != 1 {
		t.Errorf("where the end is not known: found %d records, reported %q", len(found), reports)
	}
	torn := maps.Clone(files)
	torn[name] = files[name][:places[3].off+50] + strings.Repeat("\xff", 50) + files[name][places[3].off+100:]
	if found, _, reports = reopened(t, torn, written[2].at+1); len(found) != 4 || len(reports) != 1 {
		t.Errorf("a damaged batch at the end: found %d records, reported %q", len(found), reports)
	}
}

func TestLogIsAJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Open {
		d, err := durable.OpenDir(tempDir(t), nil)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return func(from journal.LSN) (journal.Journal, error) {
			return segment.Open(d, segment.Options{From: from, Size: small})
		}
	})
}

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
	must(t, j.log.Release(j.next()))
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
	must(t, j.log.Release(1<<37))
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
	must(t, j.log.Release(next))
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
	must(t, j.log.Release(mark))
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
		must(t, os.WriteFile(filepath.Join(path, name), []byte("strange"), 0o666))
	}
	for n := range 6 {
		name := fmt.Sprintf("%sspare-%d", durable.TempPrefix, n)
		must(t, os.WriteFile(filepath.Join(path, name), make([]byte, small), 0o666))
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
	must(t, j.log.Release(next))
	if now := j.log.Stats(); j.log.Current() == first || now.First == now.Next {
		t.Errorf("segment %v after %v, records from %d to %d", j.log.Current(), first, now.First, now.Next)
	}
	close(hold)
	must(t, <-done)
	must(t, j.log.Release(j.log.Stats().Next))
	if now := j.log.Stats(); now.First < next {
		t.Errorf("records from %d, want from %d", now.First, next)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
