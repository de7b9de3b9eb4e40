package segment_test

import (
	"errors"
	"maps"
	"math/rand/v2"
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
	"cutie/testdata/long"
)

// A spot is where a record is: the number of its segment, and the offset.
type spot struct {
	segment uint64
	off     int
}

// sample is a log of some segments, one record a batch, with the place of each.
func sample(t testing.TB, size func(n int) int, n int) (files map[string]string, written []entry, places []spot) {
	t.Helper()
	path := tempDir(t)
	j := &ledger{TB: t}
	must(t, j.open(path, 0, nil))
	for n := range n {
		j.put(record(n, size(n)))
		number, off := j.log.Place(n)
		places = append(places, spot{number, off})
	}
	j.close()
	return images(t, path), j.written, places
}

// TestTornTail cuts the last batch anywhere: it is gone, the rest is there,
// and the log goes on in its place.
func TestTornTail(t *testing.T) {
	files, written, places := sample(t, func(n int) int { return 100 + n*700 }, 8)
	name := "0000000000000001.log"
	at := places[7].off
	begin, end := at-28, at+len(written[7].data) // a batch header and a record header come before it
	for cut := begin; cut < end; cut += 97 {
		for _, fill := range []string{"\x00", "\xff"} {
			c := maps.Clone(files)
			c[name] = c[name][:cut] + strings.Repeat(fill, end-cut) + c[name][end:]
			path := place(t, c)
			j := open(t, path, 0, nil)
			if !slices.Equal(j.found, written[:7]) {
				t.Fatalf("cut at %d: found %d records", cut-begin, len(j.found))
			}
			if told := strings.Contains(strings.Join(j.reports, "\n"), name); cut-begin >= 24 && !told {
				t.Errorf("cut at %d: reported %q", cut-begin, j.reports)
			}
			j.close()
			j = open(t, path, 0, nil)
			if !slices.Equal(j.found, written[:7]) || len(j.reports) > 0 {
				t.Fatalf("cut at %d, again: found %d records, reported %q", cut-begin, len(j.found), j.reports)
			}
			j.written = slices.Clone(written[:7])
			j.put("in its place")
			j.put(record(9, 9000))
			j.close()
			again := open(t, path, 0, nil)
			if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
				t.Fatalf("cut at %d: found %d records of %d later, reported %q", cut-begin, len(again.found), len(j.written), again.reports)
			}
			again.close()
		}
	}
}

// A batch without records from a former use of the file, in the place of the next batch,
// was torn by nobody.
func TestAFormerBatchWithoutRecordsIsNotTorn(t *testing.T) {
	files, written, places := sample(t, func(int) int { return 100 }, 3)
	const name, header = "0000000000000001.log", 24
	block := (places[0].off - 28) / 2 // the batch without records of this use begins there
	at := places[2].off - 28 + block
	for count, told := range []bool{false, true} {
		c := maps.Clone(files)
		former := []byte(c[name][block : block+header])
		former[12], former[16] = byte(count), byte(written[2].at+1)
		c[name] = c[name][:at] + string(former) + c[name][at+header:]
		j := open(t, place(t, c), 0, nil)
		if !slices.Equal(j.found, written) || len(j.reports) > 0 != told {
			t.Errorf("%d records in it: found %d records, reported %q", count, len(j.found), j.reports)
		}
	}
}

// TestPayloadThatLooksLikeABatch has a record hold what would be the next
// batches, as far as somebody who may only submit can know, and tears the batch
// around it: they are not taken for batches.
func TestPayloadThatLooksLikeABatch(t *testing.T) {
	// Of another log of the same number of segments and batches.
	other, _, _ := sample(t, func(int) int { return 3000 }, 12)
	name := "0000000000000001.log"
	forged := []byte(other[name])
	path := tempDir(t)
	j := open(t, path, 0, nil)
	j.put("before")
	// The record's bytes at the beginnings of blocks are batches of the other log.
	size := 5 * 4096
	data := make([]byte, size)
	const head = 24 + 4 // of batch and record
	for block := 1; block < 5; block++ {
		copy(data[block*4096-head:], forged[4096+block*4096:][:4096])
	}
	j.put(string(data))
	_, off := j.log.Place(1)
	j.close()
	files := images(t, path)
	at := off - head
	if got := files[name][at+4096 : at+4100]; got != "CQB1" {
		t.Fatalf("got %q at the block", got)
	}
	b := []byte(files[name])
	clear(b[at : at+512])
	files[name] = string(b)
	again := open(t, place(t, files), 0, nil)
	if !slices.Equal(again.found, j.written[:1]) {
		t.Errorf("found %d records", len(again.found))
	}
}

// TestSetAsideIsKept finds a damaged segment, and looks at the copy that was
// set aside after the log has let the segment go and used others again.
func TestSetAsideIsKept(t *testing.T) {
	files, written, places := sample(t, func(int) int { return 5000 }, 12)
	name := "0000000000000001.log"
	at := places[3].off
	data := []byte(files[name])
	data[at+100] ^= 1
	files[name] = string(data)
	path := place(t, files)
	j := open(t, path, written[1].at, nil)
	if want := slices.Delete(slices.Clone(written[1:]), 2, 3); !slices.Equal(j.found, want) {
		t.Errorf("found %d records of %d", len(j.found), len(want))
	}
	if len(j.reports) != 1 || !strings.HasPrefix(j.reports[0], name) {
		t.Errorf("reported %q", j.reports)
	}
	j.close()
	// The next opening begins behind the damage, in the same segment.
	j = open(t, path, written[5].at, nil)
	j.written = slices.Clone(written)
	j.fillSegments(3)
	must(t, j.log.Release(j.next()))
	j.fillSegments(6)
	if images(t, path)[name+".damaged"] != string(data) {
		t.Error("what was set aside has changed")
	}
}

// TestSegmentHeaders damages the headers of a segment: one of them is enough.
func TestSegmentHeaders(t *testing.T) {
	files, written, _ := sample(t, func(int) int { return 5000 }, 5)
	name := "0000000000000001.log"
	for _, c := range []struct {
		from, to int
		found    int
	}{{0, 512, 5}, {2048, 2560, 5}, {0, 2048, 5}, {2048, 4096, 5}, {24, 32, 5}, {0, 4096, 0}} {
		b := []byte(files[name])
		clear(b[c.from:c.to])
		f := maps.Clone(files)
		f[name] = string(b)
		path := place(t, f)
		j := open(t, path, 0, nil)
		if !slices.Equal(j.found, written[:c.found]) || len(j.reports) == 0 {
			t.Errorf("%d to %d: found %d records, reported %q", c.from, c.to, len(j.found), j.reports)
		}
		j.written = slices.Clone(j.found)
		j.put("goes on")
		j.close()
		again := open(t, path, 0, nil)
		if !slices.Equal(again.found, j.written) || c.found > 0 && len(again.reports) > 0 {
			t.Errorf("%d to %d: found %d records later, reported %q", c.from, c.to, len(again.found), again.reports)
		}
		again.close()
	}
}

// TestLostSegment takes segments away: what is left is found, and that
// something is missing is reported.
func TestLostSegment(t *testing.T) {
	files, written, places := sample(t, func(int) int { return 6000 }, 30)
	names := slices.Sorted(maps.Keys(files))
	for _, lost := range names {
		of := func(e entry) bool { return places[slices.Index(written, e)].segment == uint64(lost[15]-'0') }
		if !slices.ContainsFunc(written, of) || slices.IndexFunc(written, func(e entry) bool { return !of(e) && e.at > written[slices.IndexFunc(written, of)].at }) < 0 {
			continue // nothing behind it tells that it was there
		}
		c := maps.Clone(files)
		delete(c, lost)
		j := open(t, place(t, c), written[1].at, nil)
		want := slices.DeleteFunc(slices.Clone(written[1:]), of)
		if !slices.Equal(j.found, want) || len(j.reports) == 0 {
			t.Errorf("%s: found %d records of %d, reported %q", lost, len(j.found), len(want), j.reports)
		}
		j.put("goes on")
		j.close()
	}
}

// TestScatteredDamage overwrites parts of a log at random: what is found was
// written, in that order, and a log is there to go on with.
func TestScatteredDamage(t *testing.T) {
	files, written, _ := sample(t, func(n int) int { return n * 300 }, 40)
	rounds := long.N(30, 150)
	rng := rand.New(rand.NewPCG(1, 2))
	names := slices.Sorted(maps.Keys(files))
	for round := range rounds {
		c := maps.Clone(files)
		for range 1 + rng.IntN(4) {
			name := names[rng.IntN(len(names))]
			b := []byte(c[name])
			at := rng.IntN(len(b))
			for k := range b[at:min(at+1+rng.IntN(2000), len(b))] {
				b[at+k] ^= byte(rng.Uint32())
			}
			c[name] = string(b)
		}
		mustReplayPart(t, c, written)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// mustReplayPart opens the files as a log: what is found is part of written.
func mustReplayPart(t testing.TB, files map[string]string, written []entry) {
	t.Helper()
	path := place(t, files)
	j := open(t, path, 0, nil)
	last := -1
	for _, e := range j.found {
		i := slices.Index(written, e)
		if i <= last {
			t.Fatalf("found %.40q at %v, not written or out of order", e.data, e.at)
		}
		last = i
	}
	kept := j.found
	j.put("goes on")
	kept = append(kept, j.written...)
	j.close()
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, kept) {
		t.Fatalf("found %d records later, want %d", len(again.found), len(kept))
	}
	again.close()
}

// FuzzReplay changes a log as the fuzzer says: pairs of a place and an octet.
func FuzzReplay(f *testing.F) {
	files, written, _ := sample(f, func(n int) int { return n * 500 }, 12)
	name := "0000000000000001.log"
	f.Add([]byte{0x10, 0, 1})
	f.Add([]byte{0x10, 8, 0xff, 0x20, 0x10, 4})
	f.Fuzz(func(t *testing.T, edits []byte) {
		b := []byte(files[name])
		for ; len(edits) >= 3; edits = edits[3:] {
			b[(int(edits[0])<<8|int(edits[1]))%len(b)] = edits[2]
		}
		c := maps.Clone(files)
		c[name] = string(b)
		mustReplayPart(t, c, written)
	})
}

// A journal of another version is refused, and left as it is; one copy of the number alone
// is damage.
func TestAJournalOfAnotherVersionIsRefused(t *testing.T) {
	files, written, _ := sample(t, func(int) int { return 100 }, 3)
	const name = "0000000000000001.log"
	head := []byte(files[name])
	head[8] = 7
	files[name] = string(head)
	j := open(t, place(t, maps.Clone(files)), 0, nil)
	if !slices.Equal(j.found, written) || len(j.reports) == 0 {
		t.Errorf("one copy: found %d records of %d, reported %q", len(j.found), len(written), j.reports)
	}
	j.close()
	head[2048+8] = 7
	files[name] = string(head)
	path := place(t, files)
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	defer d.Close()
	if _, err := segment.Open(d, segment.Options{}); !errors.Is(err, segment.ErrVersion) || !strings.Contains(err.Error(), "format 7") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadFile(path + "/" + name); err != nil || string(left) != files[name] {
		t.Errorf("the segment was changed, or %v", err)
	}
}

// TestFailedSyncIsFinal fails a write, and a sync: nobody is told that it was
// done, and nothing is taken any more.
func TestFailedSyncIsFinal(t *testing.T) {
	for _, fails := range []string{"journal write", "journal sync"} {
		for _, happened := range []bool{false, true} {
			var failing atomic.Bool // the next segment is made beside the test
			path := tempDir(t)
			j := open(t, path, 0, func(step string, do func() error) error {
				if failing.Load() && step == fails {
					if happened {
						do()
					}
					return syscall.EIO
				}
				return do()
			})
			j.put("kept")
			failing.Store(true)
			if _, err := j.try("lost", journal.Adds); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v", err)
			}
			failing.Store(false)
			if _, err := j.try("more", journal.Adds); !errors.Is(err, journal.ErrFailed) {
				t.Errorf("after that: got %v", err)
			}
			if _, err := j.log.ReadAt(make([]byte, 1), j.written[0].at+1, 0); !errors.Is(err, journal.ErrNoRecord) {
				t.Errorf("the lost record is read: %v", err)
			}
			j.readBack(j.written)
			j.close()
			again := open(t, path, 0, nil)
			if len(again.found) == 0 || again.found[0].data != "kept" || len(again.found) > 2 || len(again.found) == 2 && again.found[1].data != "lost" {
				t.Errorf("%s: found %v", fails, again.found)
			}
			again.put("goes on")
		}
	}
}

// TestReplayedIsSynced opens a log whose last records were written and not
// synced, as after a process was killed: who sees them may rely on them.
func TestReplayedIsSynced(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, failIf(nil, func(step string) bool { return step == "journal sync" }))
	j.put("not synced")
	j.close()
	synced := 0
	again := open(t, path, 0, func(step string, do func() error) error {
		if step == "journal sync" {
			synced++
		}
		return do()
	})
	if !slices.Equal(again.found, j.written) || synced != 1 {
		t.Errorf("found %d records, synced %d times", len(again.found), synced)
	}
	again.close()
	// If that fails the log does not open.
	c := &ledger{TB: t}
	if err := c.open(path, 0, failIf(syscall.EIO, func(step string) bool {
		return step == "journal sync"
	})); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	c.dir.Close()
}

func TestNoRoomIsNoFailure(t *testing.T) {
	var full atomic.Bool // also segments are prepared in the background
	path := tempDir(t)
	j := open(t, path, 0, failIf(syscall.ENOSPC, func(step string) bool {
		return full.Load() && step == "prepare segment"
	}))
	full.Store(true)
	var err error
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = j.add(record(n, 17000), journal.Adds)
	}
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, journal.ErrFailed) {
		t.Fatalf("got %v", err)
	}
	j.put("a small one fits")
	full.Store(false)
	for range 20 {
		j.put(record(n, 9000))
	}
	j.close()
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records of %d, reported %q", len(again.found), len(j.written), again.reports)
	}
	for name := range images(t, path) {
		if strings.HasPrefix(name, durable.TempPrefix) && !strings.Contains(name, "spare") {
			t.Errorf("left over: %s", name)
		}
	}
}

// The end of a segment that none can follow is for what makes room, its very end
// for what makes most of it.
func TestTheEndOfTheLastSegmentIsForWhatMakesRoom(t *testing.T) {
	path := tempDir(t)
	var full atomic.Bool // also segments are prepared in the background
	full.Store(true)
	fault := failIf(syscall.ENOSPC, func(step string) bool { return full.Load() && step == "prepare segment" })
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
		j = open(t, path, 0, failIf(syscall.ENOSPC, func(step string) bool {
			return full.Load() && step == "prepare segment"
		}))
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

// failIf is a fault that fails the steps of which it holds.
func failIf(err error, holds func(step string) bool) durable.Fault {
	return func(step string, do func() error) error {
		if holds(step) {
			return err
		}
		return do()
	}
}
