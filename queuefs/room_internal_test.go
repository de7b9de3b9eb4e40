package queuefs

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs/digest"
	"cutie/queuefs/index"
)

// unfiledJobs counts what room.bare and room.unsure are to be.
func unfiledJobs(s *Service) (bare, unsure int64) {
	for _, q := range s.Queues() {
		q.mu.RLock()
		for id := range JobID(q.idx.Pages() * PageJobs) {
			switch j, _ := q.idx.Known(id); {
			case j.Behind && j.Filed == 0:
				bare++
			case j.Behind && j.Filed == index.FiledUnknown:
				unsure++
			}
		}
		q.mu.RUnlock()
	}
	return bare, unsure
}

// What is reserved is given back, and what waits for files is known, whatever
// becomes of an operation.
func TestRoomIsAccountedFor(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(Init(dir, ServiceInfo{Name: "x"}))
	var steps atomic.Int64
	var failing atomic.Bool
	s, err := Open(dir, Options{Segment: 1 << 20, Fault: func(step string, do func() error) error {
		if failing.Load() && !strings.Contains(step, "journal") && steps.Add(1)%5 == 0 {
			return syscall.ENOSPC
		}
		return do()
	}})
	must(err)
	make := func(id string) *Queue {
		q, err := s.CreateQueue(t.Context(), QueueInfo{ID: id, Name: id})
		must(err)
		return q
	}
	q, other := make("q"), make("other")
	balanced := func(when string) {
		t.Helper()
		if n := s.room.coming.load(); n != (space{}) {
			t.Errorf("%s: %v are still coming", when, n)
		}
		bare, unsure := unfiledJobs(s)
		if got := s.room.bare.Load(); got != bare {
			t.Errorf("%s: %d jobs have no files, want %d", when, got, bare)
		}
		if got := s.room.unsure.Load(); got != unsure {
			t.Errorf("%s: of %d jobs nobody knows which files they have, want %d", when, got, unsure)
		}
	}
	submit := func(q *Queue, n int, m Meta) error {
		sub := q.Begin()
		defer sub.Discard()
		for range n {
			if _, err := sub.Add(m); err != nil {
				return err
			}
		}
		_, err := sub.Commit(t.Context())
		return err
	}
	for round := range 4 {
		failing.Store(round%2 == 1)
		when := fmt.Sprint("round ", round)
		for range 20 {
			_ = submit(q, 3, Meta{})
			_ = submit(other, 1, Meta{})
			if err := submit(q, 1, Meta{Expect: []digest.Value{digest.NewValue(digest.SHA256, []byte("no digest of it                 "))}}); err == nil {
				t.Error("a wrong digest was believed")
			}
		}
		balanced(when + ", submitted")
		for i := range 30 {
			j, err := q.Next(t.Context(), "w")
			if errors.Is(err, ErrEmpty) {
				break
			}
			if err == nil && i%3 == 0 {
				_, _ = q.Requeue(t.Context(), j.ID)
				_, _ = q.Delete(t.Context(), j.ID)
			}
		}
		balanced(when + ", taken")
		_, _ = q.fileSome(10)
		balanced(when + ", some filed")
		for range s.Cull(t.Context(), CullOptions{Keep: &Thresholds{}}) {
		}
		balanced(when + ", culled")
		_ = s.Maintain(t.Context())
		balanced(when + ", maintained")
	}
	failing.Store(false)
	s.full.Store(false)
	must(submit(other, 5, Meta{}))
	for {
		if _, err := other.Next(t.Context(), "w"); err != nil {
			break
		}
	}
	for range s.Cull(t.Context(), CullOptions{Queue: "other", Keep: &Thresholds{}}) {
	}
	must(s.RemoveQueue(t.Context(), "other"))
	balanced("removed")
	must(s.Checkpoint(t.Context()))
	if n := s.room.bare.Load(); n != 0 {
		t.Errorf("%d jobs have no files after a checkpoint", n)
	}
	must(s.Close())
}

// Of what a crash left, jobs that have their files need no room for them any more:
// else nobody could submit before the first checkpoint.
func TestRoomForWhatACrashLeft(t *testing.T) {
	const jobs = 200
	s := crashed(t, jobs)
	before := s.needs()
	if !before.holds(jobsRoom(jobs)) {
		t.Errorf("%v are needed for %d jobs", before, jobs)
	}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Queues()[0].fileSome(64); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.needs(); !before.holds(after.plus(jobsRoom(jobs))) {
		t.Errorf("%v are needed when the files are there, %v before", after, before)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever has written files looks at the disk before they are reckoned as written:
// else, while many are written, there seems to be the room that they have taken.
func TestRoomIsLookedAtAsFilesAreWritten(t *testing.T) {
	s := crashed(t, 10)
	q, err := s.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	old := space{1 << 60, 1 << 60}
	for _, w := range []struct {
		what  string
		write func() error
	}{
		{"some files were", func() error { _, err := q.fileSome(5); return err }},
		{"a checkpoint was", func() error { return s.Checkpoint(t.Context()) }},
	} {
		s.room.free.store(old)
		if err := w.write(); err != nil {
			t.Fatal(err)
		}
		if s.room.free.load() == old {
			t.Errorf("after %s written nobody looked how much room is left", w.what)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A large payload takes nothing of the disk that is reserved for others, before
// anybody knows how large it is.
func TestALargePayloadLeavesWhatIsReserved(t *testing.T) {
	s := crashed(t, 1)
	q, err := s.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	payload := strings.Repeat("x", 3<<20)
	for _, full := range []bool{true, false} {
		for how, write := range map[string]func(d *Draft) error{
			"Write":    func(d *Draft) error { _, err := d.Write([]byte(payload)); return err },
			"ReadFrom": func(d *Draft) error { _, err := d.ReadFrom(strings.NewReader(payload)); return err },
		} {
			const many = 1 << 40 // jobs whose files have no room
			if full {
				s.room.bare.Add(many)
			}
			sub := q.Begin()
			d, err := sub.Add(Meta{})
			if err != nil {
				t.Fatal(err)
			}
			err = write(d)
			if full != errors.Is(err, ErrNoSpace) || !full && err != nil {
				t.Errorf("%s on a full disk, %v: %v", how, full, err)
			}
			if !full {
				if _, err := sub.Commit(t.Context()); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
			sub.Discard()
			if full {
				s.room.bare.Add(-many)
			}
			s.full.Store(false)
			if n := s.room.coming.load(); n != (space{}) {
				t.Errorf("%s on a full disk, %v: %v are still coming", how, full, n)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
