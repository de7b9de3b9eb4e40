package home_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/home"
)

// watched is queue-info.txt of a queue in a new directory.
func watched(t *testing.T, text string) (f *home.File[home.QueueInfo], name string) {
	t.Helper()
	dir := t.TempDir()
	name = dir + "/queue-info.txt"
	must(t, os.WriteFile(name, []byte(text), 0o666))
	file := home.QueueFiles(nil)(openDir(t, dir), "jobs")
	return &file, name
}

// due calls Changed and checks whether it has read the file.
func due(t *testing.T, f *home.File[home.QueueInfo], want bool) home.Reading[home.QueueInfo] {
	t.Helper()
	r, got, err := f.Changed()
	if got != want || err != nil {
		t.Errorf("due: got %v, %v, want %v", got, err, want)
	}
	return r
}

func TestAFileIsReadAgainWhenItHasHeldStill(t *testing.T) {
	f, name := watched(t, "identifier: jobs\n")
	r, err := f.Read()
	must(t, err)
	f.Take(r)
	due(t, f, false)
	due(t, f, false)
	for _, text := range []string{"", "identifier: jobs\nname: x\n"} { // an editor
		must(t, os.WriteFile(name, []byte(text), 0o666))
		due(t, f, false)
	}
	r = due(t, f, true)
	if r.Value.Name != "x" || string(r.Text) != "identifier: jobs\nname: x\n" || r.Bad != "" || time.Since(r.Written) > time.Hour {
		t.Errorf("got %+v", r)
	}
	due(t, f, true) // until it is taken
	f.Take(r)
	due(t, f, false)
	f.Again()
	due(t, f, true)
}

func TestAFileThatCannotBeUsed(t *testing.T) {
	f, name := watched(t, "")
	r, err := f.Read()
	if err == nil || r.Text == nil || r.Written.IsZero() {
		t.Errorf("empty: got %+v, %v", r, err)
	}
	if _, got, _ := f.Changed(); got {
		t.Error("it has not held still")
	}
	r, got, err := f.Changed()
	if !got || err == nil {
		t.Errorf("empty: got %v, %v", got, err)
	}
	f.Take(r) // refused
	due(t, f, false)
	must(t, os.Remove(name))
	for range 2 {
		r, got, err = f.Changed()
		if !got || !errors.Is(err, fs.ErrNotExist) || r.Text != nil {
			t.Errorf("gone: got %+v, %v, %v", r, got, err)
		}
		f.Take(r)
	}
	if to, err := f.SetAside(); to != "" || err != nil {
		t.Errorf("got %q, %v", to, err)
	}
	must(t, os.Mkdir(name, 0o777))
	if r, err = f.Read(); err == nil || r.Text != nil {
		t.Errorf("directory: got %+v, %v", r, err)
	}
	must(t, os.Remove(name))
	// It comes back.
	must(t, os.WriteFile(name, []byte("identifier: jobs\n"), 0o666))
	due(t, f, false)
	due(t, f, true)
}

func TestSetKeepsTheRestOfTheFile(t *testing.T) {
	f, name := watched(t, "# mine\nIdentifier: jobs\nphone: 1\nname: old\n\nmore: x\n")
	r, err := f.Read()
	must(t, err)
	was, err := os.Stat(name)
	must(t, err)
	set, err := f.Set(r, anvl.Record{{Name: "name", Value: "old"}, {Name: "description"}})
	must(t, err)
	if now, err := os.Stat(name); err != nil || !os.SameFile(was, now) || string(set.Text) != string(r.Text) {
		t.Error("the file was written though nothing changed")
	}
	set, err = f.Set(r, anvl.Record{{Name: "name"}, {Name: "description", Value: "new"}})
	want := "# mine\nIdentifier: jobs\nphone: 1\nname:\ndescription: new\n\nmore: x\n"
	if text, _ := os.ReadFile(name); err != nil || string(set.Text) != want || string(text) != want || set.Value.Description != "new" || set.Value.Name != "" {
		t.Errorf("got %+v, %v, file\n%s", set, err, text)
	}
	f.Take(set)
	due(t, f, false)
	due(t, f, false)
}

// A bad file makes way for the properties known before.
func TestSetInThePlaceOfABadFile(t *testing.T) {
	f, name := watched(t, "garbage")
	r, err := f.Read()
	if err == nil {
		t.Fatal("it is read")
	}
	if _, err := f.Instead(r, nil, "why"); err == nil {
		t.Error("nothing is known, and has no identifier")
	}
	known, err := f.Instead(r, []byte("identifier: jobs\nname: x\n"), "why")
	if err != nil || known.Bad != "why" || known.Value.Name != "x" || !known.Written.Equal(r.Written) {
		t.Errorf("got %+v, %v", known, err)
	}
	f.Take(known) // the file as it is, not read again
	due(t, f, false)
	due(t, f, false)
	set, err := f.Set(known, nil)
	if text, _ := os.ReadFile(name); err != nil || set.Bad != "" || string(text) != "identifier: jobs\nname: x\n" {
		t.Errorf("got %+v, %v, file\n%s", set, err, text)
	}
	if aside, err := os.ReadFile(name[:len(name)-len("queue-info.txt")] + "corrupt/queue-info.txt"); err != nil || string(aside) != "garbage" {
		t.Errorf("set aside: got %q, %v", aside, err)
	}
}
