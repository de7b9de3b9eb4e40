package publisher_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// growing returns the growing packages on disk, by path.
func growing(s *source) (names []string) {
	s.Helper()
	names, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", "*", "*.open"))
	must(s, err)
	return names
}

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
		grow := growing(s)
		must(t, s.pub.Publish(context.Background()))
		for set, want := range map[string]bool{"pending": tt.pending, "replica": tt.replica} {
			has := func(name string) bool { return strings.Contains(name, "/"+set+"/") }
			if got := slices.ContainsFunc(grow, has); got != want {
				t.Errorf("%q, queue %q: a package of %s grows: %v", tt.source, tt.queue, set, got)
			}
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
		if grow := growing(s); len(grow) > 0 {
			t.Errorf("of closed lists %q are left", grow)
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
	if n := len(growing(s)); n != 2 {
		t.Errorf("%d packages grow, want 2", n)
	}
	setDumps(s, "none")
	s.submitN(q, 3)
	must(t, s.pub.Flush())
	if grow := growing(s); len(grow) > 0 {
		t.Errorf("after the end of dumps there are %q", grow)
	}
	setDumps(s, "")
	s.submitN(q, 3) // of the list without a growing package
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

// TestGrowingPackagesAfterACrash damages growing packages after a checkpoint, and lists go
// on. The packages get the octets they would have without: the journal has what is lost.
func TestGrowingPackagesAfterACrash(t *testing.T) {
	t.Parallel()
	flip := func(at func(size int) int) func(string) {
		return func(name string) { edit(t, name, func(b []byte) []byte { b[at(len(b))] ^= 0xff; return b }) }
	}
	for _, c := range []struct {
		name   string
		damage func(name string)
		told   bool
	}{
		{"none", func(string) {}, false},
		{"a torn tail", func(name string) {
			edit(t, name, func(b []byte) []byte { return append(b, "PK\x03\x04 and half a file"...) })
		}, false},
		{"short", func(name string) { edit(t, name, func(b []byte) []byte { return b[:len(b)-5] }) }, true},
		{"gone", func(name string) { must(t, os.Remove(name)) }, true},
		{"first octet", flip(func(int) int { return 0 }), true},
		{"middle", flip(func(n int) int { return n / 2 }), true},
		{"last octet", flip(func(n int) int { return n - 1 }), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := newSource(t, publisher.Options{MaxEntries: 40, Now: still()}, "jobs")
			for round := range 5 {
				activity(first, first.queue("jobs"), round)
				must(t, first.pub.Flush())
			}
			must(t, first.svc.Checkpoint(context.Background()))
			var want map[string]string
			for _, damaged := range []bool{false, true} {
				s := first.fork(func(s *source) {
					for _, name := range growing(s) {
						if damaged {
							c.damage(name)
						}
					}
				})
				q := s.queue("jobs")
				for round := range 5 {
					activity(s, q, round)
				}
				s.settle()
				told := len(s.problems) == 2
				if more := otherProblems(s); len(more) > 0 || told != (damaged && c.told) {
					t.Errorf("damaged %v: problems %q", damaged, s.problems)
				}
				for _, set := range []string{"pending", "replica"} {
					m := newMirror(s, "jobs", set)
					m.since = q.Info().Created
					m.dumps()
					m.incremental(nil)
					m.compare(q)
				}
				got := map[string]string{}
				for name, octets := range packageFiles(s) {
					got[strings.TrimPrefix(name, s.dir)] = octets
				}
				if len(got) < 4 {
					t.Errorf("%d packages", len(got))
				}
				if want == nil {
					want = got
					continue
				}
				for name, w := range want {
					if g := got[name]; g != w {
						t.Errorf("%s has %d other octets, was %d", name, len(g), len(w))
					}
				}
			}
		})
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
		if grow := growing(s); len(grow) > 2 {
			t.Errorf("after %d steps and a crash %q are left", steps, grow)
		}
		if len(s.problems) > 0 {
			t.Errorf("after %d steps: problems %q", steps, s.problems)
		}
	}
}

// A copy of a home, made file by file while a list was closed, may have its package
// complete, its entries in gzip alone, and the list still open; after it the list may go on to another end. Without the
// journal the files of jobs of before are there alone. The packages get all the same the
// octets they would have.
func TestACopyMadeWhileAListWasClosed(t *testing.T) {
	t.Parallel()
	first := newSource(t, publisher.Options{MaxEntries: 80, Now: still()}, "jobs", "other")
	for round := range 2 {
		activity(first, first.queue("jobs"), round)
		must(t, first.pub.Flush())
	}
	first.releaseBy("jobs", "other")
	grow := growing(first)
	if len(grow) != 2 {
		t.Fatalf("%d packages grow", len(grow))
	}
	complete := map[string]string{}
	closed := first.fork(func(*source) {})
	must(t, closed.pub.Publish(context.Background()))
	for name, octets := range packageFiles(closed) {
		complete[strings.TrimPrefix(name, closed.dir)] = octets
	}
	for _, set := range []string{"pending", "replica"} {
		for _, name := range filesLike(closed, set, "changelist-*.gz") {
			octets, err := os.ReadFile(name)
			must(t, err)
			complete[strings.TrimPrefix(name, closed.dir)] = string(octets)
		}
	}
	packages := func(change func(*source)) map[string]string {
		s := first.fork(change)
		for round := range 8 {
			activity(s, s.queue("jobs"), round)
		}
		s.settle()
		if len(s.problems) > 0 {
			t.Errorf("problems %q", s.problems)
		}
		all := map[string]string{}
		for name, octets := range packageFiles(s) {
			all[strings.TrimPrefix(name, s.dir)] = octets
		}
		return all
	}
	want := packages(func(*source) {})
	got := packages(func(s *source) {
		for _, name := range growing(s) {
			must(t, os.Remove(name))
			name = strings.TrimSuffix(name, ".open")
			must(t, os.WriteFile(name, []byte(complete[strings.TrimPrefix(name, s.dir)]), 0o600))
		}
		for _, set := range []string{"pending", "replica"} {
			for _, name := range filesLike(s, set, "changelist-*.entries") {
				must(t, os.Remove(name))
				name = strings.TrimSuffix(name, ".entries") + ".gz"
				must(t, os.WriteFile(name, []byte(complete[strings.TrimPrefix(name, s.dir)]), 0o600))
			}
		}
	})
	if len(got) != len(want) {
		t.Errorf("%d packages, want %d", len(got), len(want))
	}
	for name, w := range want {
		if g := got[name]; g != w {
			t.Errorf("%s has %d other octets, was %d", name, len(g), len(w))
		}
	}
}

// After a crash events are followed again, and a result may be gone since they were
// followed first. It is in the package all the same.
func TestResultsOfBeforeACrashAreInThePackage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newSource(t, publisher.Options{Now: still()}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 2)
	must(t, s.svc.Checkpoint(ctx))
	s.submitN(q, 2)
	withResults(s, q, "a result", strings.Repeat("a longer one ", 200))
	must(t, s.pub.Tick(ctx))
	s.requeue(q, 1)
	must(t, s.pub.Tick(ctx))
	open := map[string]string{}
	for _, name := range growing(s) {
		octets, err := os.ReadFile(name)
		must(t, err)
		open[strings.TrimSuffix(strings.TrimPrefix(name, s.dir), ".open")] = string(octets)
	}
	s.crash()
	must(t, s.pub.Publish(ctx))
	packages := packageFiles(s)
	if len(open) != 2 || len(packages) != 2 {
		t.Errorf("%d packages grew, %d are complete", len(open), len(packages))
	}
	for name, octets := range packages {
		if was := open[strings.TrimPrefix(name, s.dir)]; was == "" || !strings.HasPrefix(octets, was) {
			t.Errorf("%s does not begin with what was there before the crash", name)
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems %q", s.problems)
	}
}
