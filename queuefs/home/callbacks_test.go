package home_test

import (
	"os"
	"path/filepath"
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
		if err != nil || string(text) != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info.Mode(), err)
		}
	}
	of("a", "", "")
	of("a", "http://h", "http://h")
	of("a", "http://h/by?hand", "http://h/by?hand") // in queue-info.txt, not concealed yet
	keep("a", "", "")
	keep("a", "http://h", "http://h")
	if _, err := os.Stat(filepath.Join(root, home.CallbacksDir)); !os.IsNotExist(err) {
		t.Errorf("got %v, want no file: nothing is secret", err)
	}
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
	if err := os.WriteFile(path("b"), []byte("# by hand\n\nhttp://h/4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of("b", "http://h", "http://h/4")
	if err := os.WriteFile(path("b"), []byte("b: http://h/4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Of("b", "http://h"); err == nil {
		t.Errorf("got %q, want an error", got)
	}
	if err := os.WriteFile(path(durable.TempPrefix+"1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(filepath.Join(root, home.CallbacksDir)); err != nil || len(names) != 1 {
		t.Errorf("got %v, %v, want b alone", names, err)
	}
}
