package home_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

func TestURLsOfCallbacksAreKeptApart(t *testing.T) {
	root := t.TempDir()
	open := func() *home.Callbacks {
		dir, err := durable.OpenDir(root, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		return &home.Callbacks{Home: dir}
	}
	c := open()
	keep := func(queue, full, public string) {
		t.Helper()
		if got, err := c.Keep(queue, full); err != nil || got != public {
			t.Errorf("%s keeps %s: got %q, %v, want %q", queue, full, got, err, public)
		}
	}
	of := func(queue, public, want string) {
		t.Helper()
		for _, c := range []*home.Callbacks{c, open()} {
			if got, err := c.Of(queue, public); err != nil || got != want {
				t.Errorf("%s of %s: got %q, %v, want %q", public, queue, got, err, want)
			}
		}
	}
	path := func(queue string) string { return filepath.Join(root, home.CallbacksDir, queue) }
	file := func(queue, want string) {
		t.Helper()
		name := path(queue)
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(text), want+"seal: ") {
			t.Errorf("got %q, %v, want %q and a seal", text, err, want)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info.Mode(), err)
		}
	}
	of("a", "", "")
	if got, err := c.Of("a", "http://h"); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("without a file: got %q, %v", got, err)
	}
	of("a", "http://h/by?hand", "http://h/by?hand") // in queue-info.txt, not concealed yet
	keep("a", "", "")
	keep("c", "http://h", "http://h")
	of("c", "http://h", "http://h")
	keep("a", "http://h/1", "http://h")
	keep("b", "http://h/2", "http://h")
	keep("a", "https://i:8/3?x=y", "https://i:8")
	keep("a", "https://i:8/3?x=y", "https://i:8")
	file("a", "http://h/1\nhttps://i:8/3?x=y\n")
	file("b", "http://h/2\n")
	// Whichever of the two is in queue-info.txt after a crash.
	of("a", "http://h", "http://h/1")
	of("a", "https://i:8", "https://i:8/3?x=y")
	of("b", "http://h", "http://h/2")
	keep("a", "https://i:8", "https://i:8") // as everybody sees it: no change
	of("a", "https://i:8", "https://i:8/3?x=y")
	if err := c.Settle("a", "https://i:8"); err != nil {
		t.Error(err)
	}
	file("a", "https://i:8/3?x=y\n")
	if err := c.Settle("a", ""); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path("a")); !os.IsNotExist(err) {
		t.Errorf("got %v, want no file", err)
	}
	file("b", "http://h/2\n")
	text, err := os.ReadFile(path("b"))
	if err != nil {
		t.Fatal(err)
	}
	text[len("http://h/")] ^= 1
	if err := os.WriteFile(path("b"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Of("b", "http://h"); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("got %q, %v, want damage", got, err)
	}
	keep("b", "http://h/5", "http://h")
	of("b", "http://h", "http://h/5")
	if err := os.WriteFile(path(durable.TempPrefix+"1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(filepath.Join(root, home.CallbacksDir)); err != nil || len(names) != 2 {
		t.Errorf("got %v, %v, want b and c alone", names, err)
	}
}
