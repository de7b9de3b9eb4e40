package queuefs_test

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"cutie/queuefs"
)

// A home without room for another event opens all the same; a change of the
// properties is told when there is room.
func TestChangedPropertiesAreToldWhenThereIsRoom(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment})
	f := newFollower(t)
	f.follow(s)
	_, first := q.InfoFile()
	const fill = 14 // events, of one block each, beside those of the head and the beginning
	for range fill {
		submit(t, q, queuefs.Meta{}, "x")
	}
	closeHome(t, s)
	edit(t, dir, properties(t, dir)+"maxAttempts: 3\n")
	// The next segment, as if it had never been prepared.
	if err := os.Remove(dir + "/log/journal/0000000000000002.log"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	full := true
	s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if full && step == "prepare segment" {
			return syscall.ENOSPC
		}
		return do()
	}})
	defer closeHome(t, s)
	f.follow(s)
	for range 2 {
		if q.Info().MaxAttempts != 3 || q.Seq() != fill {
			t.Errorf("without room: got %+v, event %d", q.Info(), q.Seq())
		}
		reload(t, s)
	}
	full = false
	reload(t, s)
	if n := tells(t, f, q, first); n != 1 || q.Seq() != fill+1 {
		t.Errorf("with room: got %d events of properties, %d of all", n, q.Seq())
	}
}
