package table_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/table"
)

func TestURLsOfCallbacksAreKeptApart(t *testing.T) {
	root := t.TempDir()
	dir, err := durable.OpenDir(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	file := filepath.Join(root, table.Name)
	var c *table.Table
	open := func() {
		t.Helper()
		if c, err = table.Open(dir, false); err != nil {
			t.Fatal(err)
		}
	}
	open()
	keep := func(queue, full, public string) {
		t.Helper()
		if got, err := c.KeepCallback(queue, full); err != nil || got != public {
			t.Errorf("%s keeps %s: got %q, %v, want %q", queue, full, got, err, public)
		}
	}
	of := func(queue, public, want string) {
		t.Helper()
		for range 2 {
			if got, err := c.Callback(queue, public); err != nil || got != want {
				t.Errorf("%s of %s: got %q, %v, want %q", public, queue, got, err, want)
			}
			if err := c.Close(); err != nil { // nothing of it was staged alone
				t.Error(err)
			}
			open()
		}
	}
	row := func(queue, want string) {
		t.Helper()
		if text, err := c.Get(table.Callbacks, queue); err != nil || string(text) != want {
			t.Errorf("row of %s: got %q, %v, want %q", queue, text, err, want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	of("a", "", "")
	if got, err := c.Callback("a", "http://h"); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("without a row: got %q, %v", got, err)
	}
	of("a", "http://h/by?hand", "http://h/by?hand") // in queue-info.txt, not concealed yet
	keep("a", "", "")
	keep("c", "http://h", "http://h")
	of("c", "http://h", "http://h")
	keep("a", "http://h/1", "http://h")
	keep("b", "http://h/2", "http://h")
	keep("a", "https://i:8/3?x=y", "https://i:8")
	keep("a", "https://i:8/3?x=y", "https://i:8")
	row("a", "http://h/1\nhttps://i:8/3?x=y\n")
	row("b", "http://h/2\n")
	// Whichever of the two is in queue-info.txt after a crash.
	of("a", "http://h", "http://h/1")
	of("a", "https://i:8", "https://i:8/3?x=y")
	of("b", "http://h", "http://h/2")
	keep("a", "https://i:8", "https://i:8") // as everybody sees it: no change
	of("a", "https://i:8", "https://i:8/3?x=y")
	if err := c.SettleCallback("a", "https://i:8"); err != nil {
		t.Error(err)
	}
	row("a", "https://i:8/3?x=y\n")
	if err := c.SettleCallback("a", ""); err != nil || c.Has(table.Callbacks, "a") {
		t.Errorf("got %v, want no row", err)
	}
	row("b", "http://h/2\n")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(table.Callbacks))
		text := append([]byte{}, b.Get([]byte("b"))...)
		text[len(text)-2] ^= 1
		return b.Put([]byte("b"), text)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	open()
	if got, err := c.Callback("b", "http://h"); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("got %q, %v, want damage", got, err)
	}
	keep("b", "http://h/5", "http://h")
	of("b", "http://h", "http://h/5")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A row that could not be set for want of space is the former one, also after a later commit, and
// whether or not the commit that failed was done.
func TestARowThatCannotBeSetStaysAsItWas(t *testing.T) {
	for _, done := range []bool{false, true} {
		full := false
		d := in(t, t.TempDir(), func(step string, do func() error) error {
			if !full || step != "commit "+table.Name {
				return do()
			}
			if done {
				_ = do()
			}
			return unix.ENOSPC
		})
		rows := open(t, d)
		must(t, rows.Set(table.Mirrors, "a", []byte("1")))
		full = true
		for _, key := range []string{"a", "new"} {
			if err := rows.Set(table.Mirrors, key, []byte("2")); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("got %v", err)
			}
		}
		full = false
		for range 2 {
			want(t, rows, table.Mirrors, "a", "1")
			want(t, rows, table.Mirrors, "new", "")
			must(t, rows.Commit())
			rows = again(t, d, rows)
		}
	}
}
