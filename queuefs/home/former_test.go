package home_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// A directory moved away is gone at once, and its files go as long as nobody says stop.
func TestFormerDirectoriesGoLater(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, err := durable.OpenDir(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	temp, err := dir.MakeSub(home.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	defer temp.Close()
	const files = 10
	for range 2 {
		for _, name := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			if err := os.MkdirAll(filepath.Join(at, home.QueuesDir, "jobs", name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := home.MoveAway(dir, temp, home.QueuesDir); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Stat(home.QueuesDir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("it is there: %v", err)
		}
	}
	if err := home.MoveAway(dir, temp, home.QueuesDir); err != nil {
		t.Errorf("without one: %v", err)
	}
	left := func() (n int) {
		filepath.Walk(temp.Path(), func(_ string, info os.FileInfo, err error) error {
			if err == nil && len(info.Name()) == 1 {
				n++
			}
			return nil
		})
		return n
	}
	enough, asked := errors.New("enough"), 0
	stop := func() error {
		if asked++; asked > files/2 {
			return enough
		}
		return nil
	}
	if err := home.SweepFormer(temp, stop); !errors.Is(err, enough) || left() >= 2*files || left() < files {
		t.Errorf("stopped: %v, %d of %d left", err, left(), 2*files)
	}
	if err := home.SweepFormer(temp, func() error { return nil }); err != nil || left() != 0 {
		t.Errorf("then: %v, %d left", err, left())
	}
	if names, err := os.ReadDir(temp.Path()); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}
