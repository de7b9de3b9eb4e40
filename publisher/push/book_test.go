package push_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/publisher/push"
	"cutie/queuefs/durable"
)

// A subscriber is a record.
type subscriber struct {
	Name  string
	Value int
	Text  string
}

func (r *subscriber) Key() string { return r.Name }

// An archive is a book in a directory.
type archive struct {
	t     *testing.T
	dir   string
	fault durable.Fault
	told  []error
	book  *push.Book[*subscriber]
}

func (a *archive) open() {
	a.t.Helper()
	dir, err := durable.OpenDir(a.dir, func(step string, do func() error) error {
		if a.fault != nil {
			return a.fault(step, do)
		}
		return do()
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { dir.Close() })
	a.book, err = push.OpenBook[*subscriber](durable.Sealed{Dir: dir, Name: "book", Kind: "book", Max: 1 << 24}, func(err error) { a.told = append(a.told, err) })
	if err != nil {
		a.t.Fatal(err)
	}
}

// set changes records; a negative value removes one.
func (a *archive) set(changes map[string]int) error {
	a.book.Update(func() error {
		for name, value := range changes {
			switch r := a.book.Get(name); {
			case value < 0 && r != nil:
				a.book.Drop(r)
			case r != nil:
				r.Value = value
			case value >= 0:
				a.book.Put(&subscriber{name, value, strings.Repeat("x", 400)})
			}
		}
		return nil
	})
	return a.book.Save()
}

// check returns the files that a check names.
func (a *archive) check() (bad []string) {
	a.t.Helper()
	dir, err := durable.LookIn(a.dir)
	if err != nil {
		a.t.Fatal(err)
	}
	defer dir.Close()
	push.CheckBook[*subscriber](durable.Sealed{Dir: dir, Name: "book", Kind: "book", Max: 1 << 24}, func(name string, _ error) { bad = append(bad, name) })
	return bad
}

func (a *archive) has() map[string]int {
	all := map[string]int{}
	a.book.View(func() {
		for r := range a.book.All() {
			all[r.Name] = r.Value
		}
	})
	return all
}

func (a *archive) want(what string, want map[string]int) {
	a.t.Helper()
	if got := a.has(); !maps.Equal(got, want) {
		a.t.Errorf("%s: got %d records, want %d, or others", what, len(got), len(want))
	}
}

func name(i int) string { return fmt.Sprintf("n%03d", i) }

// Saving costs what has changed, whatever the number of records.
func TestBookWritesChanges(t *testing.T) {
	a := &archive{t: t, dir: t.TempDir()}
	a.open()
	const many = 400
	want := map[string]int{}
	var written int64
	sizes := map[string]int64{}
	for i := range many {
		want[name(i)] = i
		if err := a.set(map[string]int{name(i): i}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"book", "book.tail"} {
			info, err := os.Stat(filepath.Join(a.dir, file))
			if err != nil {
				sizes[file] = 0
				continue
			}
			switch size := info.Size(); {
			case size > sizes[file] && file == "book.tail":
				written += size - sizes[file]
			case size != sizes[file]:
				written += size
			}
			sizes[file] = info.Size()
		}
	}
	if written > 5*many*450 {
		t.Errorf("%d records: %d octets were written", many, written)
	}
	a.open()
	a.want("opened again", want)
	for i := range many / 2 {
		delete(want, name(i))
		if err := a.set(map[string]int{name(i): -1}); err != nil {
			t.Fatal(err)
		}
	}
	a.want("half of them removed", want)
	a.open()
	a.want("and opened again", want)
	if len(a.told) > 0 {
		t.Errorf("told of %v", a.told)
	}
}

// At each step of a change the book stops, as failed, or as failed but done, and is
// opened again: it has the records before the change or after it.
func TestBookKeepsWhatIsSavedAtEachStep(t *testing.T) {
	stop := errors.New("stopped")
	base := map[string]int{}
	for i := range 40 {
		base[name(i)] = i
	}
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			a := &archive{t: t, dir: t.TempDir()}
			a.open()
			if err := a.set(base); err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(base)
			step, crashed := 0, false
			a.fault = func(_ string, do func() error) error {
				if step++; step < at {
					return do()
				}
				if !crashed && done {
					do()
				}
				crashed = true
				return stop
			}
			after := before
			for round := 0; round < 12 && !crashed; round++ {
				before, after = after, maps.Clone(after)
				change := map[string]int{name(100 + round): round, name((round * 7) % 40): -1}
				for i := range 4 {
					change[name(20+i)] = 1000 + round
				}
				for n, v := range change {
					if after[n] = v; v < 0 {
						delete(after, n)
					}
				}
				if err := a.set(change); err == nil && crashed {
					before = after
				}
			}
			a.fault = nil
			a.open()
			if got := a.has(); !maps.Equal(got, before) && !maps.Equal(got, after) {
				t.Errorf("done %v, step %d: got %d records, want %d or %d, or others", done, at, len(got), len(before), len(after))
			}
			if len(a.told) > 0 {
				t.Errorf("done %v, step %d: told of %v", done, at, a.told)
			}
			if err := a.set(map[string]int{"last": 1}); err != nil {
				t.Fatal(err)
			}
			want := a.has()
			a.open()
			a.want("after the crash", want)
			if !crashed {
				break
			}
		}
	}
}

func TestBookSaysWhatIsDamaged(t *testing.T) {
	a := &archive{t: t, dir: t.TempDir()}
	a.open()
	base := map[string]int{}
	for i := range 60 {
		base[name(i)] = i
	}
	if err := a.set(base); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := a.set(map[string]int{name(i): 1000}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(a.dir, "book.tail")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := os.ReadFile(filepath.Join(a.dir, "book"))
	lines := strings.SplitAfter(string(good), "\n")
	for name, tt := range map[string]struct {
		text  string
		known int // changes
		told  int
	}{
		"whole":             {string(good), 5, 0},
		"torn":              {string(good[:len(good)-100]), 4, 0},
		"cut within a line": {strings.Join(lines[:3], "") + lines[3][:20], 2, 0},
		"a bit":             {strings.Replace(string(good), `"Value":1000`, `"Value":1001`, 1), 0, 1},
		"swapped":           {lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""), 0, 1},
		"its first line":    {strings.Replace(string(good), "of ", "of 0", 1), 0, 1},
	} {
		a.told = nil
		for file, text := range map[string]string{"book.tail": tt.text, "book": string(sealed)} {
			if err := os.WriteFile(filepath.Join(a.dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.check(); len(got) != tt.told || tt.told > 0 && got[0] != "book.tail" {
			t.Errorf("%s: a check names %q", name, got)
		}
		a.open()
		changed := 0
		for _, v := range a.has() {
			if v == 1000 {
				changed++
			}
		}
		if changed != tt.known || len(a.has()) != 60 || len(a.told) != tt.told {
			t.Errorf("%s: got %d of %d changes, %d records, told of %v", name, changed, tt.known, len(a.has()), a.told)
		}
		if err := a.set(map[string]int{"more": 1}); err != nil {
			t.Fatal(err)
		}
		want := a.has()
		a.open()
		a.want(name+", saved again", want)
		os.RemoveAll(filepath.Join(a.dir, "corrupt"))
	}

	// A crash right after the sealed file was replaced leaves the tail of the former one.
	a.dir = t.TempDir()
	a.open()
	if err := a.set(map[string]int{"only": 1}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "book.tail"), good, 0o600); err != nil {
		t.Fatal(err)
	}
	a.told = nil
	if got := a.check(); len(got) > 0 {
		t.Errorf("a tail of another file: a check names %q", got)
	}
	a.open()
	if a.want("a tail of another file", map[string]int{"only": 1}); len(a.told) > 0 {
		t.Errorf("a tail of another file: told of %v", a.told)
	}
	for _, file := range []string{"book.tail", "book"} { // the first one is gone by now
		os.Remove(filepath.Join(a.dir, file))
	}
	if got := a.check(); len(got) != 1 || got[0] != "book" {
		t.Errorf("without its file: a check names %q", got)
	}
}
