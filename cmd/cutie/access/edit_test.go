package access_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cutie/cmd/cutie/access"
)

// noFiles makes what may stand where a file should, and returns the names.
func noFiles(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link)); err != nil {
		t.Fatal(err)
	}
	return []string{fifo, link, dir, os.DevNull}
}

func TestOnlyARegularFileIsRead(t *testing.T) {
	for _, name := range noFiles(t) {
		_, _, loaded := access.Load(name)
		_, opened := access.New(access.Options{Users: name})
		edited := access.Edit(name, func(*access.Users) error { return nil })
		for _, err := range []error{loaded, opened, edited} {
			if err == nil || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "fifo") {
				t.Errorf("%s: got %v, want an error that names it", name, err)
			}
		}
	}
}

func TestUsersStayWhenTheFileBecomesNone(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	for _, name := range noFiles(t) {
		if err := errors.Join(os.Remove(g.file), os.Symlink(name, g.file)); err != nil {
			t.Fatal(err)
		}
		first, again := g.Reload(), g.Reload()
		if first == nil || again == nil || first.Error() != again.Error() || !strings.Contains(first.Error(), "no regular file") ||
			!strings.Contains(first.Error(), "those known before stay") {
			t.Errorf("%s: got %v, then %v, want the same twice", name, first, again)
		}
		if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 200 {
			t.Errorf("%s: got %d, want 200", name, got)
		}
	}
	if got := len(g.read); got != 1 {
		t.Errorf("reported %d times, want once", got)
	}
	if err := os.Remove(g.file); err != nil {
		t.Fatal(err)
	}
	g.write(user(t, "bob", "read", "bob"))
	must(t, g.Reload())
	if got, _ := g.ask("GET /state", as("bob", "bob"), client); got != 200 {
		t.Errorf("after the file is back: got %d, want 200", got)
	}
}

func TestEmptyFileIsDamage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "users")
	for _, text := range []string{"", "\n", "\x00\x00\x00\x00"} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		if u, _, err := access.Load(name); err == nil {
			t.Errorf("%q: got %v", text, u)
		}
	}
	must(t, os.WriteFile(name, nil, 0o600))
	if _, _, err := access.Load(name); !errors.Is(err, access.ErrEmpty) {
		t.Errorf("got %v", err)
	}
	// An edit that was killed leaves such a file, and the next one fills it.
	must(t, access.Edit(name, func(u *access.Users) error { return u.Add(access.User{Name: "ann"}) }))
	must(t, access.Edit(name, func(u *access.Users) error { return u.Remove("ann") }))
	if u, _, err := access.Load(name); err != nil || len(u.Users()) != 0 {
		t.Errorf("without the last user: got %v, %v", u, err)
	}
}
