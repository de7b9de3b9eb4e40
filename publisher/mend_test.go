package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

func TestAQueueMayHaveAnyNameThatQueuesMayHave(t *testing.T) {
	names := []string{"cursor", "end", "lists", "pending", "replica"}
	s := newSource(t, publisher.Options{MaxEntries: 10}, names...)
	for round := range 2 {
		for _, id := range names {
			activity(s, s.queue(id), round)
		}
		must(t, s.svc.Checkpoint(context.Background()))
		s.settle()
		s.crash()
	}
	for _, id := range names {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, id, set)
			m.since = s.queue(id).Info().Created
			m.incremental(nil)
			m.compare(s.queue(id))
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestAListClosedWhereTheCursorStandsStaysClosed crashes after a list was
// closed at the very event that the cursor has read.
func TestAListClosedWhereTheCursorStandsStaysClosed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *source, later *time.Duration){
		"period": func(s *source, later *time.Duration) {
			*later += 2 * time.Hour
			must(s, s.pub.Tick(context.Background()))
		},
		"next event does not fit": func(s *source, _ *time.Duration) {
			s.submitN(s.queue("jobs"), 1)
			must(s, s.pub.Tick(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			later := time.Duration(0)
			s := newSource(t, publisher.Options{MaxEntries: 6, Period: time.Hour,
				Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
			s.submitN(s.queue("jobs"), 6) // one full list of pending, two of replica
			must(t, s.svc.Checkpoint(context.Background()))
			closed := len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 1
			end(s, &later)
			want := changeDocuments(s)
			if got := len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 1; got != closed+1 {
				t.Fatalf("%d lists were closed, want 1", got-closed)
			}
			s.crash()
			sameDocuments(t, changeDocuments(s), want)
			for round := range 4 {
				activity(s, s.queue("jobs"), round)
			}
			s.settle()
			s.crash()
			s.reopen()
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.since = s.queue("jobs").Info().Created
				m.incremental(nil)
				m.compare(s.queue("jobs"))
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestDamageWhileRunningStopsNothing spoils files below resourcesync under a
// running publisher: the engine goes on, and lists begin anew.
func TestDamageWhileRunningStopsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(s *source, top string)
	}{
		{"open lists removed", func(s *source, top string) { s.each(top+"/jobs/*/*.entries", os.Remove) }},
		{"open lists cut", func(s *source, top string) {
			s.each(top+"/jobs/*/*.entries", func(f string) error { return os.Truncate(f, 10) })
		}},
		{"open lists are directories", func(s *source, top string) {
			s.each(top+"/jobs/*/*.entries", func(f string) error { must(s, os.Remove(f)); return os.Mkdir(f, 0o700) })
		}},
		{"sets removed", func(s *source, top string) { s.each(top+"/jobs/*", os.RemoveAll) }},
		{"a set is a file", func(s *source, top string) {
			s.each(top+"/jobs/pending", func(f string) error { must(s, os.RemoveAll(f)); return os.WriteFile(f, nil, 0o600) })
		}},
		{"a set is a link", func(s *source, top string) {
			s.each(top+"/jobs/pending", func(f string) error { must(s, os.RemoveAll(f)); return os.Symlink("/", f) })
		}},
		{"queue removed", func(s *source, top string) { s.each(top+"/jobs", os.RemoveAll) }},
		{"queue is a file", func(s *source, top string) {
			s.each(top+"/jobs", func(f string) error { must(s, os.RemoveAll(f)); return os.WriteFile(f, nil, 0o600) })
		}},
		{"cursor is a directory", func(s *source, top string) {
			s.each(top+"/cutie-cursor", func(f string) error { must(s, os.Remove(f)); return os.Mkdir(f, 0o700) })
		}},
		{"everything removed", func(s *source, top string) { must(s, os.RemoveAll(top)) }},
		{"everything is a file", func(s *source, top string) {
			must(s, os.RemoveAll(top))
			must(s, os.WriteFile(top, nil, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs")
			q := s.queue("jobs")
			for round := range 3 {
				activity(s, q, round)
			}
			s.settle()
			must(t, s.svc.Checkpoint(context.Background()))
			activity(s, q, 1) // a list to be packed
			must(t, s.pub.Flush())
			c.damage(s, filepath.Join(s.dir, "resourcesync"))
			for round := range 3 {
				activity(s, q, round)
				must(t, s.svc.Checkpoint(context.Background()))
			}
			s.settle()
			if len(s.problems) == 0 {
				t.Error("nothing is reported")
			}
			check := func() {
				t.Helper()
				for _, set := range []string{"pending", "replica"} {
					m := newMirror(s, "jobs", set)
					m.baseline()
					activity(s, s.queue("jobs"), 1)
					m.incremental(nil)
					m.compare(s.queue("jobs"))
				}
			}
			check()
			s.settle()
			changeDocuments(s) // all that are named are there
			s.problems = nil
			s.crash()
			check()
			s.reopen()
			check()
			if len(s.problems) > 0 {
				t.Errorf("problems after it was mended: %q", s.problems)
			}
		})
	}
}

// each does something to all files of a pattern, of which there is one.
func (s *source) each(pattern string, do func(string) error) {
	s.Helper()
	names, err := filepath.Glob(pattern)
	must(s, err)
	if len(names) == 0 {
		s.Fatalf("no %s", pattern)
	}
	for _, name := range names {
		must(s, do(name))
	}
}

// mayBeFull opens the publisher anew; while full is true, no step of it finds room but syncs:
// what was written has its room.
func (s *source) mayBeFull() (full *bool) {
	must(s, s.pub.Close())
	full = new(bool)
	s.opts.Fault = func(step string, do func() error) error {
		if *full && !strings.HasPrefix(step, "sync") {
			return fmt.Errorf("%s: %w", step, syscall.ENOSPC)
		}
		return do()
	}
	s.openPublisher()
	return full
}

func TestAFullDiskIsAnErrorAndNoDamage(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6}, "jobs")
	full := s.mayBeFull()
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.svc.Checkpoint(context.Background()))
	*full = true
	s.svc.Follow(nil) // it has room: what is tested is what it would be told
	activity(s, q, 1)
	activity(s, s.queue("new"), 0) // its directory cannot be made
	if err := s.pub.Flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	*full = false
	s.svc.Follow(s.pub)
	s.opts.Fault = nil
	s.crash()
	for _, id := range []string{"jobs", "new"} {
		for _, set := range []string{"pending", "replica"} {
			m := newMirror(s, id, set)
			m.since = s.queue(id).Info().Created
			m.incremental(nil)
			m.compare(s.queue(id))
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}
