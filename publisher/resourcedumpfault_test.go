package publisher_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
	"cutie/testdata/long"
)

func TestADamagedPayloadStopsItsDumpAlone(t *testing.T) {
	s, q := newScript(t, publisher.Options{}, 4)
	q.lost[3] = true
	err := s.pub.Publish(context.Background())
	if !errors.Is(err, queuefs.ErrNoJob) || !strings.Contains(err.Error(), "payload/j000000000003") {
		t.Errorf("got %v", err)
	}
	if resp := s.get(s.doc(q.Queue, "pending", "resourcedump.xml")); resp.StatusCode != 404 {
		t.Errorf("a dump without all resources: %s", resp.Status)
	}
	if len(s.problems) != 4 { // no dumps, and no packages of the closed lists
		t.Errorf("problems: %q", s.problems)
	}
	q.lost = nil
	if err := s.pub.Publish(context.Background()); err == nil || strings.Contains(err.Error(), "Resource Dump") {
		t.Errorf("lists were passed over, and nothing else: %v", err)
	}
	m := newMirror(s, "jobs", "pending")
	if m.dump(); len(m.files) != 4 {
		t.Errorf("%d files", len(m.files))
	}
}

// TestEveryStepOfADumpMayFail makes three dumps, of which the first goes when
// the third comes, and fails steps that change the directory: once before it
// is done, once after.
func TestEveryStepOfADumpMayFail(t *testing.T) {
	t.Parallel()
	run := func(fault durable.Fault) *source {
		s := newSource(t, publisher.Options{}, "jobs")
		s.submitN(s.queue("jobs"), 1)
		must(t, s.svc.Checkpoint(context.Background()))
		must(t, s.pub.Close())
		s.opts.Fault = fault
		s.openFaulty()
		for range 3 {
			s.submitN(s.queue("jobs"), 2)
			if err := s.pub.Publish(context.Background()); err != nil && !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			dumpsAreWhole(s)
		}
		return s
	}
	var steps []string
	run(func(step string, do func() error) error { steps = append(steps, step); return do() })
	if len(steps) < 40 {
		t.Errorf("steps: %q", steps)
	}
	count := map[string]int{}
	for n, step := range steps {
		if count[step]++; !long.On() && count[step] > 4 && n < len(steps)-12 || long.Race() && n%5 != 0 {
			continue // each kind at the beginning, and all when a dump goes
		}
		for _, done := range []bool{false, true} {
			if !long.On() && done == (n%2 == 0) {
				continue
			}
			i := 0
			s := run(func(_ string, do func() error) error {
				if i++; i != n+1 {
					return do()
				}
				if done {
					do()
				}
				return errFault
			})
			s.opts.Fault = nil
			s.crash()
			dumpsAreWhole(s)
			must(t, s.pub.Publish(context.Background()))
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.dump()
				m.compare(s.queue("jobs"))
				if zips := packagesOnDisk(s, set); len(zips) > 2 {
					t.Errorf("left behind: %q", zips)
				}
			}
			if len(s.problems) > 0 || t.Failed() {
				t.Fatalf("step %d, %s (done %v): problems %q", n, step, done, s.problems)
			}
		}
	}
}

// dumpsAreWhole checks that all is there that a Resource Dump names, if there
// is one.
func dumpsAreWhole(s *source) {
	s.Helper()
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		for _, e := range m.document(m.list).entries {
			if e.Capability == sitemap.ResourceDump {
				m.dump()
			}
		}
	}
}
