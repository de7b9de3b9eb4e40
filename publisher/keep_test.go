package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// cull removes all processed jobs that may go, and returns how many went.
func cull(s *source, q *queuefs.Queue) (n int) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), q.ID(), func(i *queuefs.QueueInfo) error {
		i.CullingSize, i.CullingAge = 0, 0
		return nil
	})
	must(s, err)
	for _, err := range s.svc.Cull(context.Background(), queuefs.CullOptions{Queue: q.ID()}) {
		must(s, err)
		n++
	}
	return n
}

// packed returns the entries of all packages of a set: those with a bitstream,
// and how many there are in all.
func packed(s *source, set string) (paths map[string]bool, entries int) {
	s.Helper()
	paths = map[string]bool{}
	m := newMirror(s, "jobs", set)
	for _, e := range m.capability(sitemap.ChangeDump).entries {
		d, _ := openPackage(m, s.body(e.Loc))
		for _, c := range d.entries {
			entries++
			if c.Path != "" {
				paths[c.Loc] = true
			} else if c.Change != sitemap.Deleted {
				s.Errorf("%s: %s %s without its bitstream", e.Loc, c.Change, c.Loc)
			}
		}
	}
	return paths, entries
}

func TestCullingWaitsForThePackagesOfClosedListsIfItIsTo(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6, DumpsFirst: true}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	jobs := s.submitN(q, 6)
	s.consume(q, 4)
	must(t, s.pub.Flush()) // lists are closed, no package is made
	if since := s.pub.Needs("jobs"); !since.Equal(q.Info().Created) {
		t.Errorf("needs what changed after %v, want %v", since, q.Info().Created)
	}
	if n := cull(s, q); n != 0 {
		t.Errorf("%d jobs are culled before there is a package of them", n)
	}
	s.settle()
	if since := s.pub.Needs("jobs"); !since.IsZero() {
		t.Errorf("needs what changed after %v, want nothing", since)
	}
	if n := cull(s, q); n != 4 {
		t.Errorf("%d jobs are culled, want 4", n)
	}
	paths, _ := packed(s, "replica")
	for _, j := range jobs {
		if loc := fmt.Sprintf("%s/queues/jobs/payload/%v", base, j.ID); !paths[loc] {
			t.Errorf("no package has %s", loc)
		}
	}
	m.dumps()
	m.incremental(nil)
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// Jobs culled before there is a package of them are in the lists alone, and packages and
// lists lead to the same state.
func TestCullingDoesNotWaitForPackages(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	jobs := s.submitN(q, 6)
	s.consume(q, 4)
	must(t, s.pub.Flush()) // lists are closed, no package is made
	if since := s.pub.Needs("jobs"); !since.IsZero() {
		t.Errorf("needs what changed after %v, want nothing", since)
	}
	if n := cull(s, q); n != 4 {
		t.Errorf("%d jobs are culled, want 4", n)
	}
	s.settle()
	paths, _ := packed(s, "replica")
	for i, j := range jobs {
		if loc := fmt.Sprintf("%s/queues/jobs/payload/%v", base, j.ID); paths[loc] != (i >= 4) {
			t.Errorf("%s in a package: %v", loc, paths[loc])
		}
	}
	m.dumps()
	m.incremental(nil)
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

func TestCullingMakesRoomForPackages(t *testing.T) {
	o, forward := leaps(publisher.Options{MaxEntries: 6, DumpsFirst: true})
	s := newSource(t, o, "jobs")
	full := s.mayBeFull()
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	s.submitN(q, 6)
	s.consume(q, 4)
	must(t, s.pub.Flush()) // lists are closed, no package is made
	*full = true
	if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	if n := cull(s, q); n != 4 {
		t.Errorf("%d jobs are culled where there is no room for packages of them, want 4", n)
	}
	*full = false
	forward()
	s.untilMade()
	m.dumps()
	m.incremental(nil)
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

func TestAnOpenListKeepsNoJob(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	s.submitN(q, 4)
	s.consume(q, 3)
	must(t, s.pub.Tick(context.Background()))
	if n := cull(s, q); n != 3 {
		t.Errorf("%d jobs are culled, want 3", n)
	}
	s.submitN(q, 20)
	s.settle()
	paths, entries := packed(s, "replica")
	for loc := range paths {
		for id := queuefs.JobID(1); id <= 3; id++ {
			if strings.HasSuffix(loc, id.String()) {
				t.Errorf("a package has %s, which was culled", loc)
			}
		}
	}
	if entries == 0 || !paths[base+"/queues/jobs/payload/j000000000004"] {
		t.Errorf("%d entries packed, with %v", entries, paths)
	}
	m.dumps()
	m.incremental(nil)
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// heedless is a publisher that culling does not wait for.
type heedless struct{ queuefs.Follower }

func TestAJobCulledWhileItsPackageIsMadeIsLeftOut(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for steps := range 12 {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 16}, "jobs")
			q := s.queue("jobs")
			s.svc.Follow(heedless{s.pub})
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			s.submitN(q, 6)
			s.consume(q, 3)
			s.submitN(q, 4)
			for range steps {
				s.pub.Tick(stopped) // one step of the work
			}
			if n := cull(s, q); n != 3 {
				t.Errorf("%d jobs are culled, want 3", n)
			}
			s.settle()
			if _, n := packed(s, "replica"); n == 0 {
				t.Error("no package is made")
			}
			m.dumps()
			m.incremental(nil)
			m.compare(q)
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestAQueueMadeAgainIsPublishedAnew removes a queue that was published, with
// and without the publisher, and makes one of the same name.
func TestAQueueMadeAgainIsPublishedAnew(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"running", "crash", "without publisher"} {
		t.Run(how, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs", "other")
			q := s.queue("jobs")
			s.submitN(q, 3)
			s.consume(q, 3)
			s.settle()
			must(t, s.svc.Checkpoint(context.Background()))
			if n := cull(s, q); n != 3 {
				t.Fatalf("%d jobs are culled, want 3", n)
			}
			if how == "without publisher" {
				s.settle()
				must(t, s.svc.Close())
				must(t, s.pub.Close())
				svc, err := queuefs.Open(s.dir, queuefs.Options{Segment: 2 << 20})
				must(t, err)
				must(t, svc.RemoveQueue(context.Background(), "jobs"))
				s.svc = svc
				s.submitN(s.queue("jobs"), 2)
				s.consume(s.queue("jobs"), 2)
				s.submitN(s.queue("jobs"), 20)
				must(t, svc.Close())
				s.open()
			} else {
				must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
				if d := s.document(base + "/.well-known/resourcesync"); len(d.entries) != 2 {
					t.Errorf("%d sets are described, want those of the other queue", len(d.entries))
				}
				if resp := s.get(base + "/.well-known/resourcesync/jobs/pending/capabilitylist.xml"); resp.StatusCode != 410 {
					t.Errorf("what was published of a queue that is gone: %s", resp.Status)
				}
				if how == "crash" {
					s.crash()
				}
				s.submitN(s.queue("jobs"), 2)
				s.consume(s.queue("jobs"), 2)
				s.submitN(s.queue("jobs"), 20)
			}
			q = s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.since = q.Info().Created
			first := uint64(0)
			m.incremental(func(e *sitemap.Entry) {
				if first == 0 {
					first = e.Seq
				}
			})
			m.compare(q)
			if before := q.State().Before; before == 0 || first != uint64(before)+1 {
				t.Errorf("the first change is of event %d, those of the former queue end at %d", first, before)
			}
			s.settle()
			if _, n := packed(s, "replica"); n == 0 {
				t.Error("no package is made")
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestPackagesAreNotBegunWithoutRoom asks for room before a package is made, and
// makes it when there is some.
func TestPackagesAreNotBegunWithoutRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		room  int64 // octets, at first
		taken bool  // the next attempt needs what the first one gave back, too
	}{{"not for the list", 1000, false}, {"not for the payloads", 50_000, true}} {
		t.Run(c.name, func(t *testing.T) {
			room, most := c.room, int64(0)
			s := newSource(t, publisher.Options{MaxEntries: 6, Now: still(), HasSpace: func(octets int64) bool {
				most = max(most, octets)
				return octets <= room
			}}, "jobs")
			q := s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			s.submit(q, slices.Repeat([]string{strings.Repeat("payload", 5_000)}, 6)...)
			s.consume(q, 4)
			must(t, s.pub.Flush())
			var asked int64
			for range 3 {
				if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
				}
				if asked == 0 {
					asked = most
				}
			}
			if paths, _ := packed(s, "replica"); len(paths) > 0 {
				t.Errorf("packages have %d files", len(paths))
			}
			if more := most > asked; more != c.taken {
				t.Errorf("asks for %d octets, then for %d", asked, most)
			}
			if n := cull(s, q); n != 4 {
				t.Errorf("%d jobs are culled where there is no room for packages of them, want 4", n)
			}
			room = 1 << 30
			s.untilMade()
			if paths, _ := packed(s, "replica"); len(paths) == 0 {
				t.Error("there is room, and no package")
			}
			m.dumps()
			m.incremental(nil)
			m.compare(q)
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}
