package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// TestPublishingGoesOnAfterAFailedSync lets the n-th sync below resourcesync fail, and
// some after it. Submissions go on, the failure is told, and publishing goes on by itself
// with files of other inodes.
func TestPublishingGoesOnAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"sync file", "sync dir pending", "sync dir jobs", "sync dir resourcesync"} {
		for _, times := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d", failing, times), func(t *testing.T) {
				later := time.Duration(0)
				s := newSource(t, publisher.Options{MaxEntries: 12, Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
				q := s.queue("jobs")
				activity(s, q, 0)
				must(t, s.pub.Close())
				left := times
				s.opts.Fault = func(step string, do func() error) error {
					if step == failing && left > 0 {
						left--
						return errors.Join(syscall.EIO, do())
					}
					return do()
				}
				s.openPublisher()
				failed := 0
				for range 30 {
					activity(s, q, 1) // submissions go on
					if err := s.pub.Tick(context.Background()); err != nil {
						if !errors.Is(err, syscall.EIO) {
							t.Fatal(err)
						}
						failed++
					}
					if err := s.pub.Failure(); err != nil {
						if !errors.Is(err, queuefs.ErrFailed) {
							t.Errorf("got %v", err)
						}
						if err := errors.Join(s.pub.Flush(), s.pub.Synced()); !errors.Is(err, queuefs.ErrFailed) {
							t.Errorf("events are released: %v", err)
						}
					}
					later += 2 * time.Minute
				}
				if left > 0 || failed == 0 {
					t.Fatalf("%d faults left, %d failures told", left, failed)
				}
				must(t, s.pub.Failure())
				must(t, s.svc.Checkpoint(context.Background()))
				s.settle()
				check := func() {
					t.Helper()
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						m.since = s.queue("jobs").Info().Created
						m.incremental(nil)
						m.compare(s.queue("jobs"))
					}
				}
				check()
				s.crash()
				check()
				if temps, _ := filepath.Glob(filepath.Join(s.dir, "resourcesync", "cutie-tmp-*")); len(temps) > 0 || len(s.problems) > 0 {
					t.Errorf("left behind %q, problems %q", temps, s.problems)
				}
			})
		}
	}
}

// Files of a home of a former version have no digests and no seals.
func TestAHomeOfAFormerVersionGoesOn(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 5 {
		activity(s, s.queue("jobs"), round)
		must(t, s.pub.Flush())
	}
	s.settle()
	want := s.documentsNow()
	s.close()
	s.unfold()
	s.each(filepath.Join(s.dir, "resourcesync", "jobs", "*", "lists"), func(name string) error {
		edit(t, name, func(b []byte) []byte { return former(b, "lists", true) })
		return nil
	})
	s.each(filepath.Join(s.dir, "resourcesync", "jobs", "*", "packages"), func(name string) error {
		edit(t, name, func(b []byte) []byte { return former(b, "packages", false) })
		return nil
	})
	s.open()
	sameDocuments(t, s.documentsNow(), want)
	// A damaged list of unknown digest is made again from its compressed form.
	s.each(filepath.Join(s.dir, "resourcesync", "jobs", "replica", "changelist-000000000001.entries"), func(name string) error {
		edit(t, name, func(b []byte) []byte { return b[:len(b)-9] })
		return nil
	})
	s.neverWrong(want)
	must(t, s.pub.Verify(context.Background()))
	if len(s.problems) == 0 || !strings.Contains(s.problems[len(s.problems)-1], "made again from its compressed form") {
		t.Errorf("problems: %q", s.problems)
	}
	s.problems = nil
	must(t, s.pub.Verify(context.Background()))
	sameDocuments(t, s.documentsNow(), want)
	// From here on digests are known.
	s.each(filepath.Join(s.dir, "resourcesync", "jobs", "pending", "changelist-000000000001.entries"), func(name string) error {
		edit(t, name, func(b []byte) []byte { b[300] ^= 1; return b })
		return nil
	})
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
	s.neverWrong(want)
	s.settle()
	sameDocuments(t, s.documentsNow(), want)
	activity(s, s.queue("jobs"), 1)
	s.settle()
	s.reopen()
	m := newMirror(s, "jobs", "replica")
	m.since = s.queue("jobs").Info().Created
	m.incremental(nil)
	m.compare(s.queue("jobs"))
	if index := m.capability(sitemap.ChangeList); len(index.entries) < 3 {
		t.Errorf("the index has %d lists", len(index.entries))
	}
}

// former returns a file of lines as a former version has written it.
func former(lines []byte, title string, digests bool) []byte {
	text := strings.Replace(string(lines), "cutie "+title+" 2 ", "cutie "+title+" 1 ", 1)
	out := ""
	for i, line := range strings.SplitAfter(text, "\n") {
		w := strings.Fields(line)
		if i > 0 && len(w) == 8 {
			if digests {
				w[6] = "-"
			}
			line = strings.Join(w[:7], " ") + "\n"
		}
		out += line
	}
	return []byte(out)
}
