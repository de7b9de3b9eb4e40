package segment

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// formerSegment returns a segment of version 1 with the batches, of groups of
// records, from a number on. It also returns the position of each record and of the
// end of each batch.
func formerSegment(number, batch uint64, size int, batches [][][]string) (file []byte, at []journal.LSN, ends []journal.LSN) {
	const salt = 0x1234567
	le := binary.LittleEndian
	file = segmentHeader(formerVersion, number, salt)
	for i, groups := range batches {
		b := make([]byte, batchHeader)
		for _, records := range groups {
			group := len(b)
			b = append(b, 0, 0, 0, 0)
			for _, r := range records {
				at = append(at, position(number, int64(len(file)+len(b))))
				b = le.AppendUint32(b, uint32(formerHeader+len(r)))
				b = append(b, r...)
			}
			le.PutUint32(b[group:], uint32(len(b)-group-recHeader))
		}
		le.PutUint32(b, formerMagic)
		le.PutUint32(b[8:], uint32(len(b)))
		le.PutUint32(b[12:], uint32(len(groups)))
		le.PutUint64(b[16:], batch+uint64(i))
		le.PutUint32(b[4:], seeded(number, salt, b[8:]))
		file = append(file, append(b, make([]byte, padded(len(b))-int64(len(b)))...)...)
		ends = append(ends, position(number, int64(len(file))))
	}
	return append(file, make([]byte, size-len(file))...), at, ends
}

// A former journal has records r0, r1, … in two segments of batches of some groups.
type former struct {
	logs    []*Log // opened so far
	dir     string
	records []string
	at      []journal.LSN
	ends    []journal.LSN // of batches
	upTo    []int         // how many records come before each end
}

const formerSize = 64 << 10

func newFormer(t *testing.T) *former {
	t.Helper()
	f := &former{dir: t.TempDir()}
	n := 0
	some := func(k int) (group []string) {
		for range k {
			group = append(group, strings.Repeat("r", n*700%9000)+string(rune('a'+n)))
			n++
		}
		f.records = append(f.records, group...)
		return group
	}
	for i, batches := range [][][][]string{{{some(1)}, {some(3), some(1)}, {some(2)}}, {{some(1), some(1)}, {some(4)}, {some(1)}}} {
		file, at, ends := formerSegment(uint64(7+i), uint64(41+3*i), formerSize, batches)
		for b, groups := range batches {
			last := 0
			if len(f.upTo) > 0 {
				last = f.upTo[len(f.upTo)-1]
			}
			for _, g := range groups {
				last += len(g)
			}
			f.upTo = append(f.upTo, last)
			f.ends = append(f.ends, ends[b])
		}
		f.at = append(f.at, at...)
		if err := os.WriteFile(filepath.Join(f.dir, segmentName(uint64(7+i))), file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// opened opens the journal and returns its records from a number on.
func (f *former) opened(t *testing.T, o Options) (l *Log, records []string, at []journal.LSN, reports []string) {
	t.Helper()
	for _, l := range f.logs { // nothing of a crashed one is still at work
		l.wg.Wait()
	}
	d, err := durable.OpenDir(f.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Size, o.Report = formerSize, func(name, text string) { reports = append(reports, name+": "+text) }
	if l, err = Open(d, o); err != nil {
		t.Fatal(err)
	}
	f.logs = append(f.logs, l)
	t.Cleanup(func() { l.Close(); d.Close() })
	for rec, err := range l.Read(0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.LSN >= o.From {
			records, at = append(records, string(rec.Data)), append(at, rec.LSN)
		}
	}
	return l, records, at, reports
}

func put(t *testing.T, l *Log, data string) journal.LSN {
	t.Helper()
	ticket, err := l.Append(journal.Adds, []journal.Contents{{Body: []byte(data)}})
	if err == nil {
		_, err = ticket.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ticket.First
}

// A position of a journal of version 1 is the LSN of a record, so a checkpoint at
// any of them goes on there, and the journal goes on in a new segment.
func TestFormerJournalGoesOn(t *testing.T) {
	marks := len(newFormer(t).ends)
	for m := -1; m < marks; m++ {
		f := newFormer(t)
		var o Options
		skip := 0
		if m >= 0 {
			o, skip = Options{From: f.ends[m], Batch: uint64(42 + m)}, f.upTo[m]
		}
		l, records, at, reports := f.opened(t, o)
		if !slices.Equal(records, f.records[skip:]) || !slices.Equal(at, f.at[skip:]) || len(reports) > 0 {
			t.Errorf("from %v: got %d records at %v, reported %q, want %d at %v", o.From, len(records), at, reports, len(f.records)-skip, f.at[skip:])
		}
		for i, p := range at {
			got := make([]byte, len(records[i])+1)
			if n, _ := l.ReadAt(got, p, 0); string(got[:n]) != records[i] {
				t.Errorf("from %v: record at %v reads otherwise", o.From, p)
			}
		}
		next := put(t, l, "new")
		if want := position(9, 0); next != want {
			t.Errorf("the first new record is %v, want %v", next, want)
		}
		if again := put(t, l, "newer"); again != next+1 {
			t.Errorf("the second new record is %v, want %v", again, next+1)
		}
		// As after a crash: the checkpoint is the one of before.
		_, records, at, reports = f.opened(t, o)
		want := append(slices.Clone(f.records[skip:]), "new", "newer")
		if !slices.Equal(records, want) || !slices.Equal(at, append(slices.Clone(f.at[skip:]), next, next+1)) || len(reports) > 0 {
			t.Errorf("from %v, again: got %d records at %v, reported %q", o.From, len(records), at, reports)
		}
		// And with a checkpoint of its own, which keeps records of before.
		l, records, _, reports = f.opened(t, Options{From: o.From})
		if !slices.Equal(records, want) || len(reports) > 0 {
			t.Errorf("from %v, without a batch: got %d records, reported %q", o.From, len(records), reports)
		}
		if err := l.Release(next + 1); err != nil {
			t.Fatal(err)
		}
		_, records, at, reports = f.opened(t, Options{From: next + 1})
		if !slices.Equal(records, []string{"newer"}) || at[0] != next+1 || len(reports) > 0 {
			t.Errorf("released: got %q at %v, reported %q", records, at, reports)
		}
	}
}

// Damage to a journal of version 1 is found as it was.
func TestFormerDamage(t *testing.T) {
	edit := func(f *former, number uint64, at journal.LSN) {
		name := filepath.Join(f.dir, segmentName(number))
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[at&(1<<formerOffset-1)+8] ^= 1
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		number     uint64
		at         int // the record that is damaged
		from, want int // the records that are lost
		aside      bool
	}{
		{"in between", 7, 1, 1, 5, true},
		{"at the end of a segment", 7, 5, 5, 7, true},
		{"torn", 8, 13, 13, 14, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFormer(t)
			edit(f, c.number, f.at[c.at])
			want := slices.Delete(slices.Clone(f.records), c.from, c.want)
			l, records, _, reports := f.opened(t, Options{})
			if !slices.Equal(records, want) || len(reports) != 1 || !strings.HasPrefix(reports[0], segmentName(c.number)) {
				t.Errorf("got %d records, reported %q, want %d", len(records), reports, len(want))
			}
			if _, err := os.Stat(filepath.Join(f.dir, segmentName(c.number)+".damaged")); (err == nil) != c.aside {
				t.Errorf("set aside: %v", err)
			}
			put(t, l, "new")
			_, records, _, reports = f.opened(t, Options{})
			if !slices.Equal(records, append(want, "new")) || len(reports) > 0 {
				t.Errorf("again: got %d records, reported %q", len(records), reports)
			}
		})
	}
}
