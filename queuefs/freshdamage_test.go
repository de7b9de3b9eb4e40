package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// crashedFresh is a home that was killed before its first checkpoint, whose
// files all stand, with what it holds and its last event.
func crashedFresh(t *testing.T, jobs int) (dir string, want world, seq queuefs.Seq) {
	t.Helper()
	home := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	for n := range jobs {
		submit(t, q, queuefs.Meta{Filename: fmt.Sprint("f", n)}, strings.Repeat("x", 3000))
	}
	must(t, s.Maintain(ctx)) // it is calm: files are written
	want, seq = observe(t, s), q.Seq()
	dir = copyHome(t, home)
	closeHome(t, s)
	return dir, want, seq
}

func segments(t *testing.T, dir string) []string {
	names, err := filepath.Glob(dir + "/log/journal/*.log")
	must(t, err)
	slices.Sort(names)
	return names
}

// TestAFreshQueueWithoutASegment takes a segment of the journal away. All job
// files and payloads stand.
func TestAFreshQueueWithoutASegment(t *testing.T) {
	crashed, want, seq := crashedFresh(t, 60)
	for _, which := range []string{"first", "middle", "last"} {
		t.Run(which, func(t *testing.T) {
			dir := copyHome(t, crashed)
			all := segments(t, dir)
			i := map[string]int{"first": 0, "middle": len(all) / 2, "last": len(all) - 2}[which]
			must(t, os.Remove(all[i]))
			if which == "last" {
				must(t, os.Remove(all[i+1]))
			}
			var problems []string
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
			if d := want.difference(observe(t, s)); d != "" {
				t.Errorf("jobs lost: %.600s", d)
			}
			if q.Seq() < seq {
				t.Errorf("last event is %d, was %d: numbers are given again", q.Seq(), seq)
			}
			j := submit(t, q, queuefs.Meta{}, "next")
			if j.ID != 61 {
				t.Errorf("the next job is %v", j.ID)
			}
			if len(problems) == 0 {
				t.Error("nobody is told")
			}
			closeHome(t, s)
			r, err := check.Home(dir, check.Options{Segment: smallSegment})
			if err != nil || len(r.Problems)+len(r.Mended) > 0 || r.Jobs != 61 {
				t.Errorf("check: %d jobs, %d problems, %v", r.Jobs, len(r.Problems), err)
			}
		})
	}
}

// interrupted stops the machine at each step of opening a copy of a home, and
// tests that it opens to the world then all the same.
func interrupted(t *testing.T, crashed string, want world) {
	t.Helper()
	for at := 1; ; at++ {
		f := newFaults(at, errInjected)
		f.stops = true
		dir := copyHome(t, crashed)
		s, err := queuefs.Open(dir, queuefs.Options{Segment: smallSegment, Fault: f.step, AcceptLoss: true})
		if err == nil {
			s.Close()
		}
		if !f.fired() {
			return
		}
		s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, AcceptLoss: true})
		if d := want.difference(observe(t, s)); d != "" {
			j := submit(t, q, queuefs.Meta{}, "this is another job")
			t.Fatalf("stopped at step %d, %s: %.300s\nand the next job is %v", at, f.name, d, j.ID)
		}
		s.Close()
		os.RemoveAll(dir)
	}
}

// The journal is damaged or gone, and the machine stops at each step of
// the opening that takes the jobs out of the directories.
func TestTakingInWhatTheJournalLostMayBeInterrupted(t *testing.T) {
	crashed, want, _ := crashedFresh(t, 20)
	for name, damage := range map[string]func(dir string){
		"no journal": func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) },
		"no middle": func(dir string) {
			all := segments(t, dir)
			must(t, os.Remove(all[len(all)/2]))
		},
		"no tail, torn": func(dir string) {
			all := segments(t, dir)
			must(t, os.Truncate(all[0], 8<<12))
			for _, n := range all[1:] {
				must(t, os.Remove(n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyHome(t, crashed)
			damage(dir)
			interrupted(t, dir, want)
		})
	}
}

// The numbers of events go on after a fresh queue has lost its journal.
func TestEventNumbersGoOnWithoutTheJournal(t *testing.T) {
	home := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	for range 3 {
		submit(t, q, queuefs.Meta{Filename: "f"}, "payload")
	}
	for range 3 {
		j, err := q.Next(ctx, "w")
		must(t, err)
		_, err = q.Requeue(ctx, j.ID)
		must(t, err)
	}
	must(t, s.Maintain(ctx))
	seq := q.Seq()
	crashed := copyHome(t, home)
	closeHome(t, s)
	must(t, os.RemoveAll(filepath.Join(crashed, "log/journal")))
	if _, err := queuefs.Open(crashed, queuefs.Options{Segment: smallSegment}); !errors.Is(err, queuefs.ErrJournalLost) {
		t.Errorf("got %v", err)
	}
	s, q = openHome(t, crashed, queuefs.Options{Segment: smallSegment, AcceptLoss: true})
	defer s.Close()
	if got := q.Seq(); got < seq {
		t.Errorf("last event is %d, but %d was told before", got, seq)
	}
}

// After a sync has failed the next process may see files in the cache that are not
// on the disk.
func TestFilesAreWrittenAgainAfterAFailedSync(t *testing.T) {
	home := filepath.Join(fastDir(t), "home")
	made, _ := openHome(t, home, queuefs.Options{Segment: smallSegment})
	must(t, made.Checkpoint(ctx))
	closeHome(t, made)
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if step == "syncfs" {
			return errInjected // as EIO: what was written is in doubt, the page cache has it as clean
		}
		return do()
	}})
	submit(t, q, queuefs.Meta{}, "payload")
	if err := s.Checkpoint(ctx); !errors.Is(err, queuefs.ErrFailed) {
		t.Fatal(err)
	}
	s.Close()
	puts := 0
	s, _ = openHome(t, home, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if strings.HasPrefix(step, "put ") {
			puts++
		}
		return do()
	}})
	must(t, s.Checkpoint(ctx))
	closeHome(t, s)
	if puts < 2 {
		t.Errorf("%d files written after a failed sync, want both: what the cache shows need not be on the disk", puts)
	}
}

// A queue was made and the machine stopped; an operator
// puts jobs into its directories, and the machine stops again while the home is
// opened that takes them in.
func TestTakingInJobsOfAFreshQueueMayBeInterrupted(t *testing.T) {
	source, want, _ := crashedFresh(t, 20)
	home := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, home, queuefs.Options{Segment: smallSegment})
	empty := copyHome(t, home)
	closeHome(t, s)
	for _, d := range []string{"pending", "payload"} {
		must(t, os.RemoveAll(filepath.Join(empty, "queues/jobs", d)))
		must(t, os.CopyFS(filepath.Join(empty, "queues/jobs", d), os.DirFS(filepath.Join(source, "queues/jobs", d))))
	}
	interrupted(t, empty, want)
}

// Job files are of later events than the journal has. Whoever follows
// asks for what came after the last event that it knows.
func TestEventsBeyondTheJournalAreGone(t *testing.T) {
	for name, scanned := range map[string]bool{"fresh": false, "scanned": true} {
		t.Run(name, func(t *testing.T) {
			dir, want, seq := crashedFresh(t, 60)
			all := segments(t, dir)
			for _, n := range all[2:] {
				must(t, os.Remove(n))
			}
			if scanned {
				loseIndex(t, dir, "jobs")
			}
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment})
			if d := want.difference(observe(t, s)); d != "" {
				t.Errorf("%.300s", d)
			}
			for after := range seq + 2 {
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Fatalf("events after %d: panic: %v", after, p)
						}
					}()
					q.Events(after, 10)
				}()
			}
			closeHome(t, s)
		})
	}
}
