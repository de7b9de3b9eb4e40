package table_test

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
	"testing"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/table"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in returns the directory of a table, with faults.
func in(t testing.TB, path string, fault durable.Fault) *durable.Dir {
	t.Helper()
	d, err := durable.OpenDir(path, fault)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func open(t testing.TB, d *durable.Dir) *table.Table {
	t.Helper()
	rows, err := table.Open(d, false)
	must(t, err)
	t.Cleanup(func() { rows.Close() })
	return rows
}

// again closes a table, and opens it.
func again(t testing.TB, d *durable.Dir, rows *table.Table) *table.Table {
	t.Helper()
	must(t, rows.Close())
	return open(t, d)
}

func want(t testing.TB, rows *table.Table, k table.Kind, key, contents string) {
	t.Helper()
	got, err := rows.Get(k, key)
	if must(t, err); string(got) != contents || (got == nil) != (contents == "") {
		t.Errorf("row %s %q is %.20q, want %.20q", k, key, got, contents)
	}
}

func keys(t testing.TB, rows *table.Table, k table.Kind, prefix, from string) (all []string) {
	t.Helper()
	must(t, rows.Each(k, prefix, from, func(key string, _ []byte, bad error) bool {
		must(t, bad)
		all = append(all, key)
		return true
	}))
	return all
}

// Staged rows are seen at once, and are there after a commit alone.
func TestRows(t *testing.T) {
	d := in(t, t.TempDir(), nil)
	rows := open(t, d)
	for _, key := range []string{"a", "b\x001", "b\x002", "b\x003", "bb", "c"} {
		rows.Put(table.Queues, key, []byte("was "+key))
	}
	want(t, rows, table.Queues, "a", "was a")
	want(t, rows, table.Meta, "a", "")
	must(t, rows.Commit())
	rows.Put(table.Queues, "a", []byte("is a"))
	rows.Delete(table.Queues, "c")
	rows.Delete(table.Queues, "bb")
	rows.Put(table.Queues, "bb", []byte("again"))
	want(t, rows, table.Queues, "a", "is a")
	want(t, rows, table.Queues, "c", "")
	rows = again(t, d, rows)
	want(t, rows, table.Queues, "a", "was a")
	want(t, rows, table.Queues, "c", "was c")
	want(t, rows, table.Queues, "bb", "was bb")
	if got := keys(t, rows, table.Queues, "b\x00", ""); !slices.Equal(got, []string{"b\x001", "b\x002", "b\x003"}) {
		t.Errorf("rows of b: %q", got)
	}
	if got := keys(t, rows, table.Queues, "b\x00", "b\x002"); !slices.Equal(got, []string{"b\x002", "b\x003"}) {
		t.Errorf("rows of b from 2 on: %q", got)
	}
	for prefix, last := range map[string]string{"b\x00": "b\x003", "c": "c", "d": "", "\x00": ""} {
		if got, err := rows.Last(table.Queues, prefix); err != nil || got != last {
			t.Errorf("the last row of %q is %q, %v", prefix, got, err)
		}
	}
	old := func(_ string, contents []byte) bool { return string(contents) != "was b\x003" }
	must(t, rows.DeleteUntil(table.Queues, "b\x00", old))
	rows.Put(table.Queues, "b\x004", []byte("staged"))
	rows = again(t, d, rows)
	if got := keys(t, rows, table.Queues, "", ""); !slices.Equal(got, []string{"a", "b\x003", "bb", "c"}) {
		t.Errorf("rows: %q", got)
	}
	// Staged rows go with those of the file.
	for _, drop := range []func(table.Kind, string) error{rows.Drop, rows.DeleteAll} {
		rows.Put(table.Queues, "b\x005", []byte("staged"))
		must(t, drop(table.Queues, "b\x00"))
		must(t, rows.Commit())
		if got := keys(t, rows, table.Queues, "", ""); !slices.Equal(got, []string{"a", "bb", "c"}) {
			t.Errorf("rows: %q", got)
		}
	}
}

// Rows stay staged without space, the newer ones of a key, and other failures are final.
func TestFailedCommit(t *testing.T) {
	var fail error
	during := func() {}
	done := false
	d := in(t, t.TempDir(), func(step string, do func() error) error {
		if fail == nil || step != "commit "+table.Name {
			return do()
		}
		during()
		if done {
			_ = do()
		}
		return fail
	})
	rows := open(t, d)
	told := 0
	rows.Failed = func(error) { told++ }
	rows.Put(table.Queues, "a", []byte("1"))
	must(t, rows.Commit())
	for _, done = range []bool{false, true} {
		rows.Put(table.Queues, "a", []byte("2"))
		rows.Put(table.Queues, "b", []byte("2"))
		rows.Put(table.Queues, "c", []byte("2"))
		fail, during = unix.ENOSPC, func() {
			want(t, rows, table.Queues, "a", "2")
			rows.Put(table.Queues, "b", []byte("3"))
			rows.Delete(table.Queues, "c")
		}
		if err := rows.Commit(); !errors.Is(err, unix.ENOSPC) || errors.Is(err, table.ErrFailed) {
			t.Errorf("without space: %v", err)
		}
		want(t, rows, table.Queues, "b", "3")
		fail = nil
		must(t, rows.Commit())
		rows = again(t, d, rows)
		rows.Failed = func(error) { told++ }
		want(t, rows, table.Queues, "a", "2")
		want(t, rows, table.Queues, "b", "3")
		want(t, rows, table.Queues, "c", "")
	}
	rows.Put(table.Queues, "a", []byte("4"))
	fail, done, during = unix.EIO, false, func() {}
	for range 2 {
		if err := rows.Commit(); !errors.Is(err, table.ErrFailed) || !errors.Is(err, unix.EIO) {
			t.Errorf("after EIO: %v", err)
		}
		fail = nil
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	rows = again(t, d, rows)
	want(t, rows, table.Queues, "a", "2")
}

// Many change rows, read and commit at a time: the last rows of each are there.
func TestConcurrent(t *testing.T) {
	d := in(t, t.TempDir(), nil)
	rows := open(t, d)
	var all sync.WaitGroup
	const rounds = 40
	for of := range 4 {
		all.Go(func() {
			key := fmt.Sprint("q", of)
			for n := range rounds {
				text := fmt.Appendf(nil, "%d %0*d", n, n*100, n)
				rows.PutAll([]table.Row{{table.Queues, key, text}, {table.Pages, table.PageKey(key, n), text}})
				want(t, rows, table.Queues, key, string(text))
				if n > 0 {
					rows.Delete(table.Pages, table.PageKey(key, n-1))
				}
				must(t, rows.Commit())
				want(t, rows, table.Queues, key, string(text))
				if got := keys(t, rows, table.Pages, table.Of(key), ""); len(got) == 0 {
					t.Errorf("no page of %s", key)
				}
			}
		})
	}
	all.Wait()
	rows = again(t, d, rows)
	for of := range 4 {
		key := fmt.Sprint("q", of)
		if got := keys(t, rows, table.Pages, table.Of(key), ""); !slices.Equal(got, []string{table.PageKey(key, rounds-1)}) {
			t.Errorf("pages of %s: %q", key, got)
		}
	}
}

// A file that is mostly free is made anew at an opening, with all rows, whatever fails.
func TestCompact(t *testing.T) {
	var fail string
	done := false
	path := t.TempDir()
	d := in(t, path, func(step string, do func() error) error {
		if step != fail {
			return do()
		}
		if done {
			_ = do()
		}
		return unix.EIO
	})
	rows := open(t, d)
	large := bytes.Repeat([]byte("x"), 1<<20)
	for n := range 20 {
		rows.Put(table.Pages, table.PageKey("q", n), large)
	}
	must(t, rows.Commit())
	for n := range 18 {
		rows.Delete(table.Pages, table.PageKey("q", n))
	}
	must(t, rows.Commit())
	must(t, rows.Close())
	size := func() int64 {
		st, err := os.Stat(filepath.Join(path, table.Name))
		must(t, err)
		return st.Size()
	}
	was := size()
	of := filepath.Base(path)
	for _, fail = range []string{"temp " + of, "copy " + table.Name, "rename to " + of, "sync " + of} {
		for _, done = range []bool{false, true} {
			if done && (strings.HasPrefix(fail, "rename") || strings.HasPrefix(fail, "sync")) {
				continue // that is the copy in its place
			}
			if rows, err := table.Open(d, false); err == nil {
				must(t, rows.Close())
			}
			step := fail
			fail = ""
			rows := open(t, d)
			want(t, rows, table.Pages, table.PageKey("q", 19), string(large))
			must(t, rows.Close())
			fail = step
		}
	}
	fail = ""
	rows = open(t, d)
	want(t, rows, table.Pages, table.PageKey("q", 18), string(large))
	want(t, rows, table.Pages, table.PageKey("q", 17), "")
	if size() > was/4 {
		t.Errorf("%d octets of %d are left", size(), was)
	}
}

// A table is had by one, and a look changes nothing.
func TestTwice(t *testing.T) {
	path := t.TempDir()
	if rows, err := table.Open(in(t, path, nil), true); err != nil || rows.Has(table.Meta, "x") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(path, table.Name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a look made a table: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(path, table.Name), nil, 0o600))
	if rows, err := table.Open(in(t, path, nil), true); err != nil || rows.Has(table.Meta, "x") {
		t.Errorf("a look at an empty file: %v", err)
	}
	open(t, in(t, path, nil))
	if _, err := table.Open(in(t, path, nil), false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the second: %v", err)
	}
}

// Whatever happens to the octets of the file, an opening ends with damage, or with rows that
// are right or known to be damaged; and so does a change after it.
func TestDamage(t *testing.T) {
	path := t.TempDir()
	d := in(t, path, nil)
	rows := open(t, d)
	text := func(n int) []byte { return fmt.Appendf(nil, "row %d %0*d", n, n%1500, n) }
	for n := range 300 {
		rows.Put(table.Pages, table.PageKey("q", n), text(n))
		rows.Put(table.Queues, fmt.Sprint("queue-", n), text(n%50))
		if n%100 == 99 {
			must(t, rows.Commit())
		}
	}
	for n := 0; n < 300; n += 3 {
		rows.Delete(table.Pages, table.PageKey("q", n))
	}
	must(t, rows.Commit())
	must(t, rows.Close())
	whole, err := os.ReadFile(filepath.Join(path, table.Name))
	must(t, err)
	const page = 4096
	rng := rand.New(rand.NewPCG(1, 2))
	anywhere := func() int { return rng.IntN(len(whole)/page) * page }
	damages := map[string]func([]byte) []byte{
		"an octet":            func(b []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b },
		"the head of a page":  func(b []byte) []byte { b[anywhere()+rng.IntN(200)] ^= 1 << rng.IntN(8); return b },
		"a page of zeros":     func(b []byte) []byte { clear(b[anywhere():][:page]); return b },
		"a cut":               func(b []byte) []byte { return b[:rng.IntN(len(b))] },
		"a page like another": func(b []byte) []byte { copy(b[anywhere():], whole[anywhere():][:page]); return b },
	}
	many := 12
	if s := os.Getenv("DAMAGES"); s != "" {
		fmt.Sscan(s, &many)
	}
	for name, damage := range damages {
		for range many {
			at := t.TempDir()
			must(t, os.WriteFile(filepath.Join(at, table.Name), damage(slices.Clone(whole)), 0o600))
			examine(t, name+", looked at", at, true, text)
			examine(t, name, at, false, text)
		}
	}
}

func examine(t *testing.T, name, path string, look bool, text func(int) []byte) {
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	defer d.Close()
	rows, err := table.Open(d, look)
	if err != nil {
		if !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	defer rows.Close()
	damaged := len(rows.Damaged)
	must(t, rows.Each(table.Pages, "", "", func(_ string, _ []byte, bad error) bool {
		if bad != nil {
			damaged++
		}
		return true
	}))
	wrong := 0
	for n := range 300 {
		row, err := rows.Get(table.Pages, table.PageKey("q", n))
		if n%3 == 0 && row != nil || n%3 != 0 && err == nil && string(row) != string(text(n)) {
			wrong++
		}
		if row, err := rows.Get(table.Queues, fmt.Sprint("queue-", n)); err == nil && string(row) != string(text(n%50)) {
			wrong++
		}
	}
	if st, _ := os.Stat(filepath.Join(path, table.Name)); wrong > damaged && st.Size() > 0 {
		t.Errorf("%s: %d rows are wrong, %d known", name, wrong, damaged)
	}
	if look {
		return
	}
	for n := range 300 {
		rows.Put(table.Pages, table.PageKey("q", n), text(n))
	}
	if err := rows.Commit(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
