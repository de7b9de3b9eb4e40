package publisher_test

import (
	"context"
	"path/filepath"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// setDumps gives the queue sets with dumps.
func setDumps(s *source, sets string) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), "jobs", func(i *queuefs.QueueInfo) error { i.Dumps = sets; return nil })
	must(s, err)
}

func TestSetsWithoutDumps(t *testing.T) {
	for _, tt := range []struct {
		source, queue    string
		pending, replica bool
	}{
		{"", "", true, true},
		{"replica", "", false, true},
		{"replica", "pending", true, false},
		{"none", "pending, replica", true, true},
		{"none", "", false, false},
		{"", "none", false, false},
	} {
		s := newSource(t, publisher.Options{MaxEntries: 12, Dumps: tt.source}, "jobs")
		q := s.queue("jobs")
		setDumps(s, tt.queue)
		for round := range 4 {
			activity(s, q, round)
			must(t, s.pub.Flush())
		}
		must(t, s.pub.Publish(context.Background()))
		for set, want := range map[string]bool{"pending": tt.pending, "replica": tt.replica} {
			zips, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", set, "*.zip*"))
			must(t, err)
			if got := len(zips) > 0; got != want {
				t.Errorf("%q, queue %q: packages of %s: %q", tt.source, tt.queue, set, zips)
			}
			for _, e := range s.document(newMirror(s, "jobs", set).list).entries {
				if !want && (e.Capability == sitemap.ChangeDump || e.Capability == sitemap.ResourceDump) {
					t.Errorf("%q, queue %q: %s has a %s", tt.source, tt.queue, set, e.Capability)
				}
			}
		}
		m := newMirror(s, "jobs", "replica")
		m.since = q.Info().Created
		m.incremental(nil)
		m.compare(q)
		if len(s.problems) > 0 {
			t.Errorf("problems: %q", s.problems)
		}
	}
}

// Dumps may end and begin in the middle of a list.
func TestDumpsEndAndBegin(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 3)
	must(t, s.pub.Flush())
	setDumps(s, "none")
	s.submitN(q, 3)
	must(t, s.pub.Flush())
	setDumps(s, "")
	s.submitN(q, 3)
	must(t, s.svc.Checkpoint(context.Background()))
	s.crash()
	q = s.queue("jobs")
	for round := range 8 {
		activity(s, q, round)
	}
	s.settle()
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.since = q.Info().Created
		m.dumps()
		m.incremental(nil)
		m.compare(q)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestAPackageIsNotListedBeforeItIsComplete looks at all packages after each step of the
// work, and after a crash there.
func TestAPackageIsNotListedBeforeItIsComplete(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for steps := range 12 {
		s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
		q := s.queue("jobs")
		for round := range 6 {
			activity(s, q, round)
		}
		must(t, s.pub.Flush())
		for range steps {
			s.pub.Tick(stopped)
		}
		whole := func() {
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.since = q.Info().Created
				m.dumps()
				m.incremental(nil)
				m.compare(q)
			}
		}
		whole()
		s.crash()
		q = s.queue("jobs")
		whole()
		s.settle()
		whole()
		if len(s.problems) > 0 {
			t.Errorf("after %d steps: problems %q", steps, s.problems)
		}
	}
}
