package segment_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// TestFailedSyncIsFinal fails a write, and a sync: nobody is told that it was
// done, and nothing is taken any more.
func TestFailedSyncIsFinal(t *testing.T) {
	for _, fails := range []string{"journal write", "journal sync"} {
		for _, happened := range []bool{false, true} {
			var failing atomic.Bool // the next segment is made beside the test
			path := tempDir(t)
			j := open(t, path, 0, func(step string, do func() error) error {
				if failing.Load() && step == fails {
					if happened {
						do()
					}
					return syscall.EIO
				}
				return do()
			})
			j.put("kept")
			failing.Store(true)
			if _, err := j.try("lost", journal.Adds); !errors.Is(err, journal.ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v", err)
			}
			failing.Store(false)
			if _, err := j.try("more", journal.Adds); !errors.Is(err, journal.ErrFailed) {
				t.Errorf("after that: got %v", err)
			}
			if _, err := j.log.ReadAt(make([]byte, 1), j.written[0].at+1, 0); !errors.Is(err, journal.ErrNoRecord) {
				t.Errorf("the lost record is read: %v", err)
			}
			j.readBack(j.written)
			j.close()
			again := open(t, path, 0, nil)
			if len(again.found) == 0 || again.found[0].data != "kept" || len(again.found) > 2 || len(again.found) == 2 && again.found[1].data != "lost" {
				t.Errorf("%s: found %v", fails, again.found)
			}
			again.put("goes on")
		}
	}
}

// TestReplayedIsSynced opens a log whose last records were written and not
// synced, as after a process was killed: who sees them may rely on them.
func TestReplayedIsSynced(t *testing.T) {
	path := tempDir(t)
	j := open(t, path, 0, func(step string, do func() error) error {
		if step == "journal sync" {
			return nil
		}
		return do()
	})
	j.put("not synced")
	j.close()
	synced := 0
	again := open(t, path, 0, func(step string, do func() error) error {
		if step == "journal sync" {
			synced++
		}
		return do()
	})
	if !slices.Equal(again.found, j.written) || synced != 1 {
		t.Errorf("found %d records, synced %d times", len(again.found), synced)
	}
	again.close()
	// If that fails the log does not open.
	c := &ledger{TB: t}
	if err := c.open(path, 0, func(step string, do func() error) error {
		if step == "journal sync" {
			return syscall.EIO
		}
		return do()
	}); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	c.dir.Close()
}

func TestNoRoomIsNoFailure(t *testing.T) {
	var full atomic.Bool // also segments are prepared in the background
	path := tempDir(t)
	j := open(t, path, 0, func(step string, do func() error) error {
		if full.Load() && step == "prepare segment" {
			return syscall.ENOSPC
		}
		return do()
	})
	full.Store(true)
	var err error
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = j.add(record(n, 17000), journal.Adds)
	}
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, journal.ErrFailed) {
		t.Fatalf("got %v", err)
	}
	j.put("a small one fits")
	full.Store(false)
	for range 20 {
		j.put(record(n, 9000))
	}
	j.close()
	again := open(t, path, 0, nil)
	if !slices.Equal(again.found, j.written) || len(again.reports) > 0 {
		t.Errorf("found %d records of %d, reported %q", len(again.found), len(j.written), again.reports)
	}
	for name := range images(t, path) {
		if strings.HasPrefix(name, durable.TempPrefix) && !strings.Contains(name, "spare") {
			t.Errorf("left over: %s", name)
		}
	}
}
