package main_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// contents returns the files below a directory, with their times and contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		all[path] = info.ModTime().String() + "\n" + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadingAClosedHomeChangesNothing reads a home that no daemon serves: no file and no
// directory of it changes. Jobs moved by hand are taken in all the same.
func TestReadingAClosedHomeChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("cutie", append(args, "--home", home)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("init")
	run("create", "jobs")
	for range 3 {
		run("put", "jobs", "text")
	}
	run("get", "jobs", "--lease", "1h", "--lease-out", "lease")
	run("putResult", "jobs", "j000000000001", "text", "--lease", "@lease")
	before := contents(t, home)
	for verb, want := range map[string]string{
		"status":                    "jobs\t2\t1\t0\t",
		"status -t json":            `"name":"home"`,
		"ls jobs":                   "j000000000001\tconsumed",
		"show jobs j000000000001":   "status: consumed",
		"peek jobs":                 "text\n",
		"peek jobs j000000000001":   "text\n",
		"result jobs j000000000001": "text",
		"check":                     " 0 problems",
	} {
		if got := run(strings.Fields(verb)...); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", verb, got, want)
		}
		after := contents(t, home)
		for path, text := range before {
			if after[path] != text {
				t.Errorf("%s: changed %s", verb, path)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: got %d files, want %d", verb, len(after), len(before))
		}
	}
	if err := os.Rename(filepath.Join(home, "queues/jobs/pending/j000000000002"), filepath.Join(home, "queues/jobs/consumed/j000000000002")); err != nil {
		t.Fatal(err)
	}
	if got := run("status"); !strings.Contains(got, "jobs\t1\t2\t0\t") {
		t.Errorf("after a move by hand: %s", got)
	}
}
