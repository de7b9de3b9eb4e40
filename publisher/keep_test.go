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

// Jobs culled before there is a package of them are in it all the same, and so is each job
// file that was replaced: nothing waits for packages.
func TestPackagesHaveAllFilesOfTheirLists(t *testing.T) {
	for _, crash := range []string{"no", "before packages", "before the end of a list"} {
		t.Run(crash, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
			q := s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.since = q.Info().Created
			var jobs []queuefs.JobID
			for _, j := range s.submitN(q, 6) {
				jobs = append(jobs, j.ID)
			}
			s.consume(q, 6)
			must(t, s.pub.Flush())
			if n := cull(s, q); n != 6 {
				t.Errorf("%d jobs are culled, want 6", n)
			}
			if crash == "before the end of a list" {
				must(t, s.svc.Checkpoint(context.Background()))
				s.crash()
				q = s.queue("jobs")
			}
			s.submitN(q, 20) // closes the list
			must(t, s.pub.Flush())
			if crash == "before packages" {
				s.crash()
				q = s.queue("jobs")
			}
			s.settle()
			paths, entries := packed(s, "replica")
			left := 0
			for _, st := range s.pub.State() {
				left += st.Left
			}
			// The record of the first event does not have queue-info.txt, which changed since.
			if d := newMirror(s, "jobs", "replica").lists(); left != 1 || entries+left != closedEntries(s, d) {
				t.Errorf("packages have %d entries and lack %d, closed lists have %d", entries, left, closedEntries(s, d))
			}
			for _, id := range jobs {
				for _, dir := range []string{"payload", "pending", "consumed"} {
					if loc := fmt.Sprintf("%s/queues/jobs/%s/%v", base, dir, id); !paths[loc] {
						t.Errorf("no package has %s", loc)
					}
				}
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

// closedEntries returns the entries of the closed lists among lists; the last one is open.
func closedEntries(s *source, lists []sitemap.Entry) (n int) {
	for _, l := range lists[:len(lists)-1] {
		n += len(s.document(l.Loc).entries)
	}
	return n
}

func TestAJobMayBeCulledWhileItsPackageIsMade(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for steps := range 12 {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 16}, "jobs")
			q := s.queue("jobs")
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

// TestPackagesGiveWayFirst has no free space for packages: lists go on, packages do not
// grow, culling makes space, and what is left of the files is packed when there is space.
func TestPackagesGiveWayFirst(t *testing.T) {
	for _, late := range []bool{false, true} {
		room := int64(100)
		if late {
			room = 1 << 30
		}
		s := newSource(t, publisher.Options{MaxEntries: 6, Now: still(), HasSpace: func(octets int64) bool { return octets <= room }}, "jobs")
		q := s.queue("jobs")
		m := newMirror(s, "jobs", "replica")
		m.baseline()
		s.submit(q, slices.Repeat([]string{strings.Repeat("payload", 5_000)}, 6)...)
		s.consume(q, 4)
		must(t, s.pub.Flush())
		room = 1000
		for range 3 {
			if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
			}
		}
		if paths, _ := packed(s, "replica"); len(paths) > 0 {
			t.Errorf("packages have %d files", len(paths))
		}
		for _, st := range s.pub.State() {
			if !errors.Is(st.Err, syscall.ENOSPC) {
				t.Errorf("late %v: %v: %v", late, st.Set, st.Err)
			}
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
			t.Errorf("late %v: problems: %q", late, s.problems)
		}
	}
}
