package queuefs

import (
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// still is a journal without records.
type still struct{ journal.Journal }

func (still) Stats() journal.Stats { return journal.Stats{} }

func newSpace(t *testing.T) *diskSpace {
	t.Helper()
	dir, err := durable.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	shared := &ledger.Shared{Gate: ledger.NewGate(), Now: time.Now, Journal: still{}}
	return &diskSpace{Home: dir, Shared: shared, Limit: 1 << 30}
}

// A journal that reached its bound with few files to write waits for a checkpoint alone.
func TestFewFilesAreLeftToACheckpoint(t *testing.T) {
	s := newSpace(t)
	s.Replayed(2 << 30)
	s.Shared.Behind.Add(4096)
	if !s.Lagging() || s.Overdue() {
		t.Errorf("lagging %v, overdue %v", s.Lagging(), s.Overdue())
	}
	s.Shared.Behind.Add(1)
	if !s.Overdue() {
		t.Error("so many are not few")
	}
	s.Checkpointed(0)
	if s.Overdue() {
		t.Error("overdue without lag")
	}
}

// With few files to write a checkpoint is due before the journal reaches its bound, and
// with many it is not.
func TestALightCheckpointIsDueSooner(t *testing.T) {
	s := newSpace(t)
	now := time.Now()
	s.Replayed(256<<20 - 1)
	if due, _, _ := s.Due(now, now); due {
		t.Error("due before")
	}
	s.Replayed(1)
	if due, _, _ := s.Due(now, now); !due {
		t.Error("not due")
	}
	s.Shared.Behind.Add(5001)
	if due, _, _ := s.Due(now.Add(time.Second), now); !due {
		t.Error("not due in calm")
	}
	s.Shared.Journal = &busy{}
	s.Due(now, now)
	if due, calm, _ := s.Due(now.Add(time.Second), now); due || calm {
		t.Errorf("due %v, calm %v, with many files in a burst", due, calm)
	}
}

// busy is a journal in a burst.
type busy struct {
	journal.Journal
	written int64
}

func (b *busy) Stats() journal.Stats {
	b.written += 4 << 20
	return journal.Stats{Written: b.written}
}

// Files that a crash left to be written make the service write, and hold nobody back.
func TestFilesFoundBehindHoldNobodyBack(t *testing.T) {
	s := newSpace(t)
	if s.Lagging() || s.TooFar() {
		t.Error("nothing is behind")
	}
	s.Shared.Behind.Add(3 * maxBehindJobs)
	if !s.Lagging() || !s.TooFar() {
		t.Error("so many must hold submissions back")
	}
	s.Opened()
	if !s.Lagging() || s.TooFar() {
		t.Error("those found at the opening hold back")
	}
	s.Shared.Behind.Add(2 * maxBehindJobs)
	if !s.TooFar() {
		t.Error("new ones do not hold back")
	}
	s.Shared.Behind.Add(-3 * maxBehindJobs)
	s.Checkpointed(0)
	if !s.TooFar() {
		t.Error("after a checkpoint, those found still count for nothing")
	}
}

func TestTheBoundInBytesCountsTheReplayedJournal(t *testing.T) {
	s := newSpace(t)
	s.Limit = 1000
	s.Replayed(999)
	if s.Behind() != 999 || s.Lagging() {
		t.Errorf("got %d bytes behind, lagging %v", s.Behind(), s.Lagging())
	}
	s.Replayed(1)
	if !s.Lagging() || s.TooFar() {
		t.Error("want the bound reached, and not twice")
	}
	s.Replayed(1000)
	if !s.TooFar() {
		t.Error("want twice the bound reached")
	}
	s.Checkpointed(0)
	if s.Behind() != 0 || s.Lagging() {
		t.Errorf("got %d bytes behind after a checkpoint", s.Behind())
	}
}
