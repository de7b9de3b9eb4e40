// Package journaltest holds the tests every [journal.Journal] passes.
package journaltest

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs/journal"
)

// Open opens one journal again and again, to read on from a record; the first time
// there is none. The journal opened before is closed.
type Open func(from journal.LSN) (journal.Journal, error)

// Run tests journals. begin returns the Open of a new one.
func Run(t *testing.T, begin func(t *testing.T) Open) {
	for name, test := range map[string]func(*log){
		"ReadsAsAppended":    readsAsAppended,
		"NumbersGoOn":        numbersGoOn,
		"ReadAt":             readAt,
		"BatchesAreCopied":   batchesAreCopied,
		"ManyAppendAtOnce":   manyAppendAtOnce,
		"ReadEndsWhereItWas": readEndsWhereItWas,
		"ReadsDoNotMeet":     readsDoNotMeet,
		"Release":            release,
		"TooLarge":           tooLarge,
		"Closed":             closed,
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{T: t, begin: begin(t)}
			l.open(0)
			test(l)
			if l.Journal != nil {
				l.close()
			}
		})
	}
}

// A log is a journal with the records a test has appended.
type log struct {
	*testing.T
	journal.Journal
	begin   Open
	records []string
	at      []journal.LSN
}

func (l *log) open(from journal.LSN) {
	l.Helper()
	var err error
	if l.Journal, err = l.begin(from); err != nil {
		l.Fatal(err)
	}
}

func (l *log) close() {
	l.Helper()
	if err := l.Close(); err != nil {
		l.Error(err)
	}
}

// reopen closes the journal and opens it to read on from a record.
func (l *log) reopen(from journal.LSN) {
	l.Helper()
	l.close()
	l.open(from)
}

// append appends records together and waits for them.
func (l *log) append(records ...string) (journal.Ticket, error) {
	contents := make([]journal.Contents, len(records))
	size := 0
	for i, r := range records {
		half := len(r) / 2
		contents[i] = journal.Contents{Head: []byte(r[:half]), Body: []byte(r[half:])}
		size += contents[i].Size()
	}
	for {
		t, err := l.Append(journal.Adds, contents)
		if errors.Is(err, journal.ErrUnready) {
			if err = l.Reserve(journal.Adds, len(contents), size); err == nil {
				continue
			}
		}
		if err == nil {
			var durable journal.LSN
			if durable, err = t.Wait(); err == nil && durable < t.First+journal.LSN(len(records)) {
				err = fmt.Errorf("durable up to %d after records %d to %d", durable, t.First, t.First+journal.LSN(len(records))-1)
			}
		}
		return t, err
	}
}

// put is append; the numbers must go on from the records before.
func (l *log) put(records ...string) {
	l.Helper()
	t, err := l.append(records...)
	if err != nil {
		l.Fatal(err)
	}
	if n := len(l.at); n > 0 && t.First != l.at[n-1]+1 {
		l.Errorf("record %d follows %d", t.First, l.at[n-1])
	}
	for i, r := range records {
		l.records, l.at = append(l.records, r), append(l.at, t.First+journal.LSN(i))
	}
}

// some returns n records of different sizes.
func some(n int) (records []string) {
	for i := range n {
		size := i * i * 37 % 9000
		records = append(records, strings.Repeat(fmt.Sprintf("%d,", i), size)[:size])
	}
	return records
}

// check reads the records from number i of the test on.
func (l *log) check(i int) {
	l.Helper()
	k := i
	from := journal.LSN(0)
	if i > 0 {
		from = l.at[i]
	}
	for rec, err := range l.Read(from) {
		if err != nil {
			l.Fatal(err)
		}
		if k >= len(l.at) || rec.LSN != l.at[k] || string(rec.Data) != l.records[k] {
			l.Fatalf("record %d of the test is not the %d bytes at %d", k, len(rec.Data), rec.LSN)
		}
		k++
	}
	if k != len(l.at) {
		l.Fatalf("read %d records of %d", k-i, len(l.at)-i)
	}
}

func readsAsAppended(l *log) {
	l.check(0)
	for i, r := range some(40) {
		l.put(slices.Repeat([]string{r}, 1+i%3)...)
	}
	for range 2 {
		l.check(0)
		l.check(len(l.at) / 2)
		if s := l.Stats(); s.First > l.at[0] || s.Next != l.at[len(l.at)-1]+1 {
			l.Errorf("from %d to %d, want %d to %d", s.First, s.Next, l.at[0], l.at[len(l.at)-1]+1)
		}
		l.reopen(0)
	}
	l.reopen(l.at[7])
	l.check(7)
}

func numbersGoOn(l *log) {
	l.put("one")
	for range 3 {
		l.reopen(l.Stats().Next)
	}
	l.put("two", "three")
	l.reopen(0)
	l.put("four")
	l.check(0)
}

func readAt(l *log) {
	l.put("", "a record", "another")
	at := l.at[1]
	for _, c := range []struct {
		at        journal.LSN
		off, size int
		want      string
		err       error
	}{
		{at, 0, 8, "a record", nil}, {at, 2, 3, "rec", nil}, {at, 0, 100, "a record", io.EOF}, {at, 5, 100, "ord", io.EOF},
		{at, 8, 1, "", io.EOF}, {at, 100, 1, "", io.EOF}, {at - 1, 0, 1, "", io.EOF}, {at + 1, 0, 7, "another", nil},
		{at + 2, 0, 1, "", journal.ErrNoRecord},
	} {
		p := make([]byte, c.size)
		if n, err := l.ReadAt(p, c.at, c.off); string(p[:n]) != c.want || !errors.Is(err, c.err) {
			l.Errorf("%d bytes at %d of record %d: got %q, %v, want %q, %v", c.size, c.off, c.at, p[:n], err, c.want, c.err)
		}
	}
}

// batchesAreCopied changes the bytes of records before they are written.
func batchesAreCopied(l *log) {
	p := []byte("before")
	t, err := l.Append(journal.Adds, []journal.Contents{{Head: p}, {Body: p}})
	if err != nil {
		l.Fatal(err)
	}
	copy(p, "after.")
	if _, err := t.Wait(); err != nil {
		l.Fatal(err)
	}
	l.records, l.at = []string{"before", "before"}, []journal.LSN{t.First, t.First + 1}
	l.check(0)
}

// manyAppendAtOnce appends from many goroutines. Each reads its records when it is
// told they are there.
func manyAppendAtOnce(l *log) {
	var mu sync.Mutex
	all := map[journal.LSN]string{}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i, r := range some(20) {
				r = fmt.Sprintf("%d %d %s", g, i, r)
				t, err := l.append(r, r)
				if err != nil {
					l.Error(err)
					return
				}
				p := make([]byte, len(r))
				if _, err := l.ReadAt(p, t.First+1, 0); err != nil || string(p) != r {
					l.Errorf("record %d: %v", t.First+1, err)
				}
				mu.Lock()
				all[t.First], all[t.First+1] = r, r
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for at := range all {
		l.at = append(l.at, at)
	}
	slices.Sort(l.at)
	for _, at := range l.at {
		l.records = append(l.records, all[at])
	}
	l.check(0)
	l.reopen(0)
	l.check(0)
}

func readEndsWhereItWas(l *log) {
	l.put("one", "two")
	n := 0
	for _, err := range l.Read(l.at[0]) {
		if err != nil {
			l.Fatal(err)
		}
		if n++; n == 1 {
			l.put("three")
		}
	}
	if n != 2 {
		l.Errorf("read %d records", n)
	}
	for range l.Read(l.at[0]) {
		break // a reader may stop
	}
}

// readsDoNotMeet reads from two places in turn, while a third reader comes and goes.
func readsDoNotMeet(l *log) {
	for range 20 {
		l.put(some(10)...)
	}
	next, stop := iter.Pull2(l.Read(l.at[100]))
	defer stop()
	i := 0
	for rec, err := range l.Read(l.at[0]) {
		if err != nil {
			l.Fatal(err)
		}
		if i < 100 {
			other, err, _ := next()
			if err != nil || string(other.Data) != l.records[100+i] {
				l.Fatalf("record %d beside record %d: got %d bytes, %v", 100+i, i, len(other.Data), err)
			}
		}
		if i%10 == 0 {
			l.check(i)
		}
		if string(rec.Data) != l.records[i] {
			l.Fatalf("record %d is another after other reads", i)
		}
		i++
	}
}

func release(l *log) {
	for range 40 {
		l.put(some(10)...)
	}
	for _, i := range []int{1, 150, 399} {
		if err := l.Release(l.at[i]); err != nil {
			l.Fatal(err)
		}
		l.check(i)
		first := l.Stats().First
		if first > l.at[i] {
			l.Fatalf("%d is released, which is after %d", first, l.at[i])
		}
		if first > l.at[0] {
			_, err := l.ReadAt(make([]byte, 1), first-1, 0)
			for _, e := range l.Read(first - 1) {
				err = errors.Join(err, e)
			}
			if !errors.Is(err, journal.ErrReleased) {
				l.Errorf("record %d before the first: got %v", first-1, err)
			}
		}
		l.reopen(l.at[i])
		l.check(i)
	}
	if err := l.Trim(); err != nil {
		l.Error(err)
	}
	if err := l.Release(l.Stats().Next); err != nil {
		l.Fatal(err)
	}
	l.reopen(l.Stats().Next)
	l.put("goes on")
	l.check(len(l.at) - 1)
}

func tooLarge(l *log) {
	most := l.Stats().MaxAppend
	if _, err := l.append(strings.Repeat("x", most+1)); !errors.Is(err, journal.ErrTooLarge) {
		l.Errorf("got %v", err)
	}
	l.put(strings.Repeat("x", most))
	l.put("after")
	l.check(0)
}

func closed(l *log) {
	l.put("one")
	l.close()
	if _, err := l.append("two"); !errors.Is(err, journal.ErrClosed) {
		l.Errorf("append: got %v", err)
	}
	if _, err := l.ReadAt(make([]byte, 1), l.at[0], 0); err == nil {
		l.Error("a closed journal is read")
	}
	l.open(0)
	l.check(0)
}
