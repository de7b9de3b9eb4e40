package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// A payload that is lost stays lost. Repairing keeps what is in its place, and
// keeps consumers from stumbling over the job.
func TestRepairPutsJobsWithoutTheirPayloadOnHold(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	for range 7 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "payload of a job")
	}
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Hold(ctx, 6, "for a reason"); err != nil {
		t.Fatal(err)
	}
	closeHome(t, s)
	for id, how := range map[queuefs.JobID]string{1: "one octet", 2: "one octet", 3: "cut", 4: "gone", 6: "gone"} {
		spoil(t, dir, id, how)
	}
	// The file of a job that is damaged otherwise as well is mended with it.
	edit := filepath.Join(dir, "queues/jobs/pending/j000000000002")
	text, err := os.ReadFile(edit)
	must(t, err)
	must(t, os.WriteFile(edit, []byte(strings.Replace(string(text), "filename: f", "filename: g", 1)), 0o666))
	inspect := func(repair bool, want ...string) {
		t.Helper()
		r, err := check.Home(dir, check.Options{Segment: segmentSize, Repair: repair})
		must(t, err)
		var got []string
		for _, p := range r.Problems {
			if rest, ok := strings.CutPrefix(p.String(), "queues/jobs/payload/j00000000000"); ok {
				got = append(got, rest)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	inspect(false, "1: payload has not its SHA-256 digest", "2: payload has not its SHA-256 digest",
		"3: payload has 3 octets instead of 16", "4: payload missing", "6: payload missing")
	inspect(true, "1: payload has not its SHA-256 digest; moved to corrupt/payload-j000000000001",
		"2: payload has not its SHA-256 digest; moved to corrupt/payload-j000000000002; the job is on hold",
		"3: payload has 3 octets instead of 16; moved to corrupt/payload-j000000000003; the job is on hold",
		"4: payload missing; the job is on hold", "6: payload missing; the job is on hold")
	s, q = openHome(t, dir, queuefs.Options{})
	taken, err := q.NextN(ctx, "w", 9)
	if err != nil || len(taken) != 2 || taken[0].ID != 5 || taken[1].ID != 7 {
		t.Errorf("got %v, %v", taken, err)
	}
	for id, want := range map[queuefs.JobID]string{2: "payload has not its SHA-256 digest", 3: "payload has 3 octets instead of 16", 4: "payload missing", 6: "for a reason"} {
		if j, err := q.Job(id); err != nil || j.Held.IsZero() || j.HeldFor != want || (id == 2) != (j.Filename == "g") {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	closeHome(t, s)
	// Whoever has the payload brings it.
	must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/payload/j000000000004"), []byte("payload of a job"), 0o666))
	inspect(true, "1: payload missing", "2: payload missing; the job is on hold", "3: payload missing; the job is on hold", "6: payload missing; the job is on hold")
	s, q = openHome(t, dir, queuefs.Options{})
	if _, err := q.Release(ctx, 4); err != nil {
		t.Error(err)
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.ID != 4 {
		t.Errorf("got %v, %v", j.ID, err)
	}
	closeHome(t, s)
}

// TestCheckOnAFullDisk compares what can be compared, with files that are
// behind the journal and without.
func TestCheckOnAFullDisk(t *testing.T) {
	for _, behind := range []bool{false, true} {
		dir := mount(t, "8m")
		home := filepath.Join(dir, "home")
		o := queuefs.Options{Segment: 4 * smallSegment}
		s, q := openHome(t, home, o)
		for range 5 {
			submit(t, q, queuefs.Meta{}, strings.Repeat("x", 10_000))
		}
		must(t, s.Checkpoint(ctx))
		if !behind {
			closeHome(t, s)
		}
		if behind {
			submit(t, q, queuefs.Meta{}, strings.Repeat("x", 10_000))
		}
		free := fill(t, dir, 0)
		if behind {
			if err := s.Close(); !errors.Is(err, queuefs.ErrNoSpace) {
				t.Errorf("close: got %v", err)
			}
			free = fill(t, dir, 0) // also what a segment took that was being prepared
		}
		for range 2 {
			r, err := check.Home(home, check.Options{Segment: o.Segment})
			switch {
			case err != nil:
				t.Errorf("behind %v: %v", behind, err)
			case !behind && (r.Jobs != 5 || r.Octets != 50_000 || len(r.Problems)+len(r.Mended) > 0):
				t.Errorf("got %+v", r)
			case behind && (r.Jobs != 6 || r.Octets != 60_000 || len(r.Problems)+len(r.Mended) > 0):
				t.Errorf("got %+v", r)
			}
			if !behind {
				continue
			}
			r, err = check.Home(home, check.Options{Segment: o.Segment, Repair: true})
			if err == nil || !errors.Is(err, queuefs.ErrNoSpace) || r.Jobs != 6 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, queuefs.ErrNoSpace.Error()) {
				t.Errorf("to mend: got %+v, %v", r, err)
			}
		}
		free()
		r, err := check.Home(home, check.Options{Segment: o.Segment})
		if want := len(r.Problems) + len(r.Mended); err != nil || want > 0 {
			t.Errorf("with room: %+v, %v", r, err)
		}
		s, q = openHome(t, home, o)
		if got := q.State().Pending; behind && got != 6 || !behind && got != 5 {
			t.Errorf("%d jobs", got)
		}
		closeHome(t, s)
	}
}
