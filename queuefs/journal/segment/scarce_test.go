package segment_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
)

// The end of a segment that none can follow is for what makes room, its very end
// for what makes most of it.
func TestTheEndOfTheLastSegmentIsForWhatMakesRoom(t *testing.T) {
	path := tempDir(t)
	var full atomic.Bool // also segments are prepared in the background
	full.Store(true)
	fault := func(step string, do func() error) error {
		if full.Load() && step == "prepare segment" {
			return syscall.ENOSPC
		}
		return do()
	}
	j := open(t, path, 0, nil)
	j.close()
	j = open(t, path, 0, fault)
	// 14 blocks beside the one of the head and the one at the beginning; an eighth of the
	// segment is 2 and a sixteenth 1.
	for _, c := range []struct {
		use  journal.Use
		more int
	}{{journal.Adds, 12}, {journal.Changes, 1}, {journal.Frees, 1}} {
		n := 0
		var err error
		for ; n < 100 && err == nil; n++ {
			err = j.add(record(n, 100), c.use)
		}
		if n-1 != c.more || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("use %d: %d records, %v, want %d", c.use, n-1, err, c.more)
		}
	}
	// What stands in the only segment may be all that keeps the disk from another.
	if !j.log.Stats().Short {
		t.Error("the only segment is full, and the log not short of segments")
	}
	full.Store(false)
	for _, use := range []journal.Use{journal.Adds, journal.Frees} {
		if err := j.add("with room", use); err != nil {
			t.Error(err)
		}
	}
	j.close()
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records of %d, reported %q", len(again.found), len(j.written), again.reports)
	}
}

// Where there is no room for a segment of the usual size a smaller one is made. It
// is as good when the log is opened again.
func TestSmallerSegmentsWhereRoomIsShort(t *testing.T) {
	path := tempDir(t)
	var most atomic.Int64
	most.Store(segment.MaxSize)
	j := &ledger{TB: t}
	reopen := func() {
		t.Helper()
		j.close()
		j.options = segment.Options{Size: 16 << 20, Spare: func(bytes int64, use journal.Use) bool { return bytes <= most.Load() }}
		must(t, j.open(path, 0, nil))
		if len(j.reports) > 0 {
			t.Errorf("reported %q", j.reports)
		}
		if !slices.Equal(j.found, j.written) {
			t.Errorf("found %d records of %d", len(j.found), len(j.written))
		}
	}
	t.Cleanup(j.close)
	reopen()
	fill := func() {
		t.Helper()
		for first := j.log.Current(); j.log.Current() == first; {
			must(t, j.add(record(len(j.written), 1<<20), journal.Adds))
		}
	}
	most.Store(5 << 20)
	for range 3 {
		fill()
		if n := j.log.Stats().Left; n >= 4<<20 || n < 2<<20 {
			t.Errorf("%d bytes are left of a segment of 4 MiB", n)
		}
		reopen()
		if err := j.add("goes on", journal.Adds); err != nil {
			t.Error(err)
		}
	}
	// One that is too small for a record gives way to a larger one.
	small := j.log.Current()
	if err := j.log.Reserve(journal.Adds, 1, segment.MaxSize); err == nil {
		t.Error("there is room for more than a segment holds")
	}
	must(t, j.log.Reserve(journal.Adds, 1, 1<<20))
	if err := j.add(record(0, 6<<20), journal.Changes); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	most.Store(17 << 20)
	for range 2 {
		must(t, j.add(record(0, 6<<20), journal.Adds))
	}
	if n := j.log.Current(); n != small+1 {
		t.Errorf("segment %d follows %d", n, small)
	}
	reopen()
	refused := func() {
		t.Helper()
		var err error
		for n := 0; n < 1000 && err == nil; n++ {
			err = j.add(record(n, 100<<10), journal.Adds)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
	}
	most.Store(2 << 20) // enough for what makes room
	refused()
	for n := range 40 {
		must(t, j.add(record(n, 100<<10), journal.Frees))
	}
	reopen()
	most.Store(0)
	refused()
	if !j.log.Stats().Short || j.log.Stats().Wants != 4<<20 {
		t.Errorf("short %v, wants %d bytes", j.log.Stats().Short, j.log.Stats().Wants)
	}
	// Old segments that are let go of are the next one.
	must(t, j.log.Release(j.next()))
	if j.log.Stats().Short || j.log.Stats().Wants != 0 {
		t.Errorf("short %v, wants %d bytes", j.log.Stats().Short, j.log.Stats().Wants)
	}
	j.written = nil
	for range 10 {
		must(t, j.add(record(0, 1<<20), journal.Adds))
	}
}

// A smaller segment that lost its end is damaged as any other.
func TestASmallerSegmentThatIsCutIsReported(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.put("a record")
	j.close()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(os.Truncate(filepath.Join(path, segments(t, path)[0]), small/4))
	again := open(t, path, 0, nil)
	if len(again.found) != 1 || len(again.reports) != 1 || !strings.Contains(again.reports[0], "shorter") {
		t.Errorf("found %d, reported %q", len(again.found), again.reports)
	}
}

func TestTrimKeepsTheSegmentThatComesNext(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, nil)
	spares := func() (n int) {
		for name := range images(t, path) {
			if strings.HasPrefix(name, durable.TempPrefix+"spare-") {
				n++
			}
		}
		return n
	}
	trim := func(want int) {
		t.Helper()
		if err := j.log.Trim(); err != nil || spares() != want {
			t.Errorf("%d spares, %v, want %d", spares(), err, want)
		}
	}
	j.fillSegments(6)
	for j.log.Stats().Left > small/4 {
		j.put("a record")
	}
	must(t, j.log.Reserve(journal.Adds, 1, j.log.Stats().MaxAppend))
	must(t, j.log.Release(j.next()))
	if spares() != 4 {
		t.Fatalf("%d spares", spares())
	}
	trim(0)
	j.fillSegments(3)
}

// A journal begins with a segment of a quarter, as good as any when it is opened again,
// also for a record that needs a whole one.
func TestTheFirstSegmentIsSmaller(t *testing.T) {
	path := tempDir(t)
	j := &ledger{TB: t, options: segment.Options{Size: 16 << 20}}
	t.Cleanup(j.close)
	reopen := func(sizes ...int64) {
		t.Helper()
		j.close()
		must(t, j.open(path, 0, nil))
		var got []int64
		for _, name := range segments(t, path) {
			st, err := os.Stat(filepath.Join(path, name))
			must(t, err)
			got = append(got, st.Size())
		}
		if !slices.Equal(got, sizes) || len(j.reports) > 0 || !slices.Equal(j.found, j.written) {
			t.Errorf("got segments of %d bytes, %d records of %d, reported %q, want %d bytes", got, len(j.found), len(j.written), j.reports, sizes)
		}
	}
	reopen(4 << 20)
	j.put("small")
	reopen(4 << 20)
	j.put(record(0, 6<<20))
	reopen(4<<20, 16<<20)
}

// A segment with no other behind it takes a batch of many small records, or Reserve makes the
// next one, however many blocks are left.
func TestManyRecordsAtTheEndOfASegment(t *testing.T) {
	const many, tries = 1000, 3
	for left := 1; left <= 8; left++ {
		path := tempDir(t)
		j := open(t, path, 0, nil)
		j.close()
		var full atomic.Bool
		full.Store(true)
		j = open(t, path, 0, func(step string, do func() error) error {
			if full.Load() && step == "prepare segment" {
				return syscall.ENOSPC
			}
			return do()
		})
		for j.log.Stats().Left > int64(left)<<12 {
			must(t, j.add(record(0, 100), journal.Frees))
		}
		for !j.log.Stats().Short { // another one is made in the background, in vain
			time.Sleep(time.Millisecond)
		}
		full.Store(false)
		records := make([]journal.Contents, many)
		for i := range records {
			records[i].Head = []byte("10 bytes..")
		}
		err := error(journal.ErrUnready)
		for n := 0; n < tries && err == journal.ErrUnready; n++ {
			var ticket journal.Ticket
			if ticket, err = j.log.Append(journal.Frees, records); err == nil {
				_, err = ticket.Wait()
			} else if err == journal.ErrUnready {
				if e := j.log.Reserve(journal.Frees, many, many*10); e != nil {
					t.Fatal(e)
				}
			}
		}
		if err != nil {
			t.Errorf("%d blocks are left: %v after %d tries", left, err, tries)
		}
		j.close()
	}
}
