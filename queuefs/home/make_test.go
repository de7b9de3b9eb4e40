package home_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openDir opens a directory for the time of the test.
func openDir(t *testing.T, path string) *durable.Dir {
	t.Helper()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestUnmade breaks Init off after each of its steps: what is left is no home, and
// another Init makes it one. What others have put into a directory is no such rest.
func TestUnmade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	unmade := func(want bool, when string) {
		t.Helper()
		if got, err := home.Unmade(dir); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", when, got, err, want)
		}
	}
	unmade(true, "nothing")
	for _, name := range []string{"lost+found", "log/lost+found"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		unmade(true, "the root of a volume: "+name)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "lost+found"), nil, 0o666))
	unmade(false, "a file with the name of a directory of the system")
	must(t, os.RemoveAll(dir))
	for _, name := range []string{"", "log", "queues"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o777))
		unmade(true, "directory "+name)
	}
	for _, name := range []string{"cutie-tmp-1", "cutie-info.txt"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o666))
		unmade(true, "file "+name)
	}
	for _, name := range []string{"foreign", "queues/jobs", "log/file", "0=cutie_0.3"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
		unmade(false, "file "+name)
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	must(t, os.Remove(filepath.Join(dir, "log")))
	unmade(false, "properties of somebody")
	must(t, home.Init(dir, home.ServiceInfo{}))
	unmade(false, "a home")
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o666))
	if got, err := home.Unmade(dir); err == nil || got {
		t.Errorf("a file: got %v, %v", got, err)
	}
}

// TestComplete makes a home of a directory without tag and properties, and leaves
// a whole home as it is.
func TestComplete(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	if err := home.CheckTag(d, nil); !errors.Is(err, home.ErrNoHome) {
		t.Errorf("got %v", err)
	}
	for _, want := range [][]string{{"0=cutie_0.3", "cutie-info.txt"}, nil} {
		var made []string
		must(t, home.Complete(d, time.Now(), func(p home.Problem) { made = append(made, p.Path) }))
		if !slices.Equal(made, want) {
			t.Errorf("got %q, want %q", made, want)
		}
	}
	must(t, home.CheckTag(d, nil))
	if r, err := home.ServiceFile(d).Read(); err != nil || r.Value.Scheme != home.Scheme || r.Value.Created.IsZero() {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestCompleteNamesTheTag(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	must(t, home.Complete(d, time.Now(), func(home.Problem) {}))
	must(t, os.Rename(filepath.Join(dir, "0=cutie_0.3"), filepath.Join(dir, "0=cutie_0.4")))
	var told []string
	must(t, home.Complete(d, time.Now(), func(p home.Problem) { told = append(told, p.String()) }))
	if want := []string{"0=cutie_0.4: wrong name; renamed to 0=cutie_0.3"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	tags, err := filepath.Glob(dir + "/0=*")
	must(t, err)
	if !slices.Equal(tags, []string{dir + "/0=cutie_0.3"}) {
		t.Errorf("tags %q", tags)
	}
	must(t, home.CheckTag(d, func(p home.Problem) { t.Error(p) }))
}

func TestLockIsHeldUntilItsFileIsClosed(t *testing.T) {
	dir := t.TempDir()
	lock, err := home.Lock(dir)
	must(t, err)
	var locked *home.LockedError
	if _, err := home.Lock(dir); !errors.As(err, &locked) || *locked != (home.LockedError{Dir: dir, PID: os.Getpid()}) {
		t.Errorf("got %v", err)
	}
	must(t, lock.Close())
	lock, err = home.Lock(dir)
	must(t, err)
	must(t, lock.Close())
	if _, err := home.Lock(dir + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestQueuesUnderEitherName(t *testing.T) {
	for there, want := range map[string]string{"": "queues", "queues": "queues", "queue": "queue"} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, there), 0o777))
		q, err := home.OpenQueues(openDir(t, dir))
		must(t, err)
		if got := filepath.Base(q.Path()); got != want {
			t.Errorf("%q: got %q", there, got)
		}
		q.Close()
	}
}

// A wrong tag is told, and shuts no home (Cutie 0.3, 6.1).
func TestWrongTagIsTold(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		told  []string // parts of the problems
		opens bool
	}{
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\n"}, nil, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\r\n"}, nil, true},
		{map[string]string{"0=cutie_0.2": "Cutie/0.2\n"}, []string{"version 0.2"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.2\n"}, []string{"wrong tag", "version 0.2"}, true},
		{map[string]string{"0=cutie_0.3": ""}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "Dflat/0.19\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "C\x00tie/0.3\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=dflat_0.19": "Cutie/0.3\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\n", "0=dflat_0.19": "Dflat/0.19\n"}, []string{"more than one"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.9\n"}, nil, false},
		{map[string]string{"0=cutie_1.0": "?\n"}, nil, false},
		{map[string]string{"0=dflat_0.19": "Dflat/0.19\n"}, nil, false},
	} {
		d, err := durable.OpenDir(t.TempDir(), nil)
		must(t, err)
		for name, content := range tt.files {
			must(t, d.Replace(name, []byte(content)))
		}
		var told []string
		err = home.CheckTag(d, func(p home.Problem) { told = append(told, p.Text) })
		if (err == nil) != tt.opens {
			t.Errorf("%q: got %v", tt.files, err)
		}
		for i, part := range tt.told {
			if len(told) != len(tt.told) || !strings.Contains(told[i], part) {
				t.Errorf("%q: told %q, want %q", tt.files, told, tt.told)
			}
		}
		if len(tt.told) == 0 && len(told) > 0 {
			t.Errorf("%q: told %q", tt.files, told)
		}
		must(t, d.Close())
	}
}

// TestInitLeavesAHomeWithoutItsTagAlone takes the tag of a home away: another Init would
// give the service a new identity.
func TestInitLeavesAHomeWithoutItsTagAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	must(t, home.Init(dir, home.ServiceInfo{Identifier: "first"}))
	must(t, os.MkdirAll(filepath.Join(dir, "log/journal"), 0o700)) // as the first opening does
	must(t, os.Remove(filepath.Join(dir, "0=cutie_0.3")))
	before, err := os.ReadFile(filepath.Join(dir, "cutie-info.txt"))
	must(t, err)
	if err := home.Init(dir, home.ServiceInfo{Identifier: "second"}); !errors.Is(err, home.ErrNoHome) {
		t.Errorf("got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "cutie-info.txt"))
	if err != nil || string(after) != string(before) {
		t.Errorf("got %s, %v", after, err)
	}
}
