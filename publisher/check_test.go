package publisher_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// checkable returns the directory of a closed home with every kind of published file.
func checkable(t *testing.T) (dir string, files []string) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{Period: time.Hour, DumpPeriod: 24 * time.Hour, MaxEntries: 40, Now: func() time.Time { return now }}, "jobs", "idle")
	q := s.queue("jobs")
	s.submitN(q, 30)
	s.settle() // the Resource Dump
	s.consume(q, 20)
	s.settle()
	now = now.Add(2 * time.Minute)
	s.settle()
	s.submitN(q, 3)
	s.ticks(1)
	now = now.Add(2 * time.Hour)
	must(t, s.pub.Flush())
	must(t, s.pub.CloseOld()) // lists that are not compressed, and have no packages
	s.submitN(q, 3)           // the open list
	must(t, s.pub.Flush())
	s.close()
	root := filepath.Join(s.dir, publisher.Dir)
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			rel, _ := filepath.Rel(s.dir, path)
			files = append(files, rel)
		}
		return err
	}))
	return s.dir, files
}

func named(problems []durable.Finding) (paths []string) {
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func TestCheckNamesEveryFileThatIsNotAsItWasWritten(t *testing.T) {
	dir, files := checkable(t)
	kinds := map[string]bool{}
	for _, f := range files {
		kinds[filepath.Ext(f)] = true
	}
	for _, ext := range []string{".entries", ".gz", ".zip", ".txt", ""} {
		if !kinds[ext] {
			t.Fatalf("no file %q among %q", ext, files)
		}
	}
	if got := publisher.Check(dir); len(got) > 0 {
		t.Fatalf("a whole home: %v", got)
	}
	for _, file := range files {
		path := filepath.Join(dir, file)
		whole, err := os.ReadFile(path)
		must(t, err)
		try := func(how string, change func() error) {
			t.Helper()
			must(t, change())
			got := named(publisher.Check(dir))
			if !slices.Contains(got, file) {
				t.Errorf("%s %s: got %q", file, how, got)
			}
			for _, p := range got {
				if p != file && !strings.Contains(file, "cutie-source.txt") {
					t.Errorf("%s %s: %s is named, too", file, how, p)
				}
			}
			must(t, os.WriteFile(path, whole, 0o600))
		}
		for _, at := range []int{0, 1, len(whole) / 3, len(whole) / 2, len(whole) - 2, len(whole) - 1} {
			try("with a flipped bit", func() error {
				bad := slices.Clone(whole)
				bad[at] ^= 4
				return os.WriteFile(path, bad, 0o600)
			})
		}
		try("cut", func() error { return os.Truncate(path, int64(len(whole)/2)) })
		try("removed", func() error { return os.Remove(path) })
	}
	if got := publisher.Check(dir); len(got) > 0 {
		t.Errorf("in the end: %v", got)
	}
}

func TestCheckNamesLostDirectoriesOfPublishedFiles(t *testing.T) {
	dir, _ := checkable(t)
	for _, name := range []string{"jobs/replica", "jobs"} {
		must(t, os.RemoveAll(filepath.Join(dir, publisher.Dir, name)))
		got := named(publisher.Check(dir))
		if !slices.Contains(got, publisher.Dir+"/jobs/replica") {
			t.Errorf("without %s: got %q", name, got)
		}
	}
}

func TestCheckPassesOverAHomeThatPublishesNothing(t *testing.T) {
	dir := t.TempDir()
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	if got := publisher.Check(dir); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	s := newSource(t, publisher.Options{}, "jobs")
	s.submitN(s.queue("jobs"), 3)
	killed := s.killed(s.newDir) // before the first checkpoint
	if got := publisher.Check(killed); len(got) > 0 {
		t.Errorf("killed: %v", got)
	}
	s.settle()
	killed = s.killed(s.newDir) // with documents, and before the first checkpoint
	if got := publisher.Check(killed); len(got) > 0 {
		t.Errorf("killed with documents: %v", got)
	}
}
