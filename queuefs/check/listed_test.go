package check_test

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

// served opens a home, and returns its queues, what was reported, and how many jobs are
// pending.
func served(t *testing.T, dir string) (ids []string, reports string, pending int64) {
	t.Helper()
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, Report: func(p queuefs.Problem) { reports += p.String() + "\n" }})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	for _, q := range s.Queues() {
		ids = append(ids, q.ID())
		pending += q.State().Pending
	}
	return ids, reports, pending
}

// twoQueues is a home with a job in each of the queues a and b, stopped or killed.
func twoQueues(t *testing.T, stopped bool) string {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{}))
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	defer func() { s.Close() }()
	for _, id := range []string{"a", "b"} {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1})
		must(t, err)
		must(t, s.Checkpoint(ctx))
		submit(t, q, queuefs.Meta{}, "job of "+id)
	}
	if stopped {
		must(t, s.Close())
	}
	return copyHome(t, dir)
}

func TestTheListOfQueuesKeepsNoHomeShut(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		for _, tt := range []struct {
			name, list string
			queues     string // served
			told       string
			cured      string // queues after the cure
		}{
			{"added before the stop", "a\nb\nnew\n", "a b new", "", "a b new"},
			{"zeros", "a\n\x00\x00\x00\nb\n", "a b", "queues.txt: line 2: bad name", "a b"},
			{"no queue at all", "a b c\x00\n", "", "queues.txt: line 1: bad name", "a b"},
			{"reserved", "cut\na\nb", "a b", "queues.txt: line 1: bad name", "a b"},
			{"a long line", strings.Repeat("x", 100_000) + "\na\nb\n", "a b", "queues.txt: line 1: ", "a b"},
			{"short", "a\n", "a", "queues.txt: queue b is not listed, and not served", "a b"},
			{"empty", "", "", "queues.txt: queue a is not listed, and not served", "a b"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dir := twoQueues(t, stopped)
				must(t, os.WriteFile(filepath.Join(dir, "queues.txt"), []byte(tt.list), 0o666))
				r, err := check.Home(dir, check.Options{Segment: segment})
				must(t, err)
				if (len(r.Problems) > 0) != (tt.told != "") || tt.told != "" && !strings.HasPrefix(r.Problems[0].String(), tt.told) {
					t.Errorf("check: %q", texts(r.Problems))
				}
				for range 2 { // the second time the journal was released
					ids, reports, _ := served(t, dir)
					if got := strings.Join(ids, " "); got != tt.queues || !strings.HasPrefix(reports, tt.told) {
						t.Errorf("served %q, reports %q", got, reports)
					}
				}
				if o, ok := check.Cure(&r, nil); ok {
					o.Segment = segment
					_, err = check.Home(dir, o)
					must(t, err)
				}
				ids, reports, pending := served(t, dir)
				slices.Sort(ids)
				if got := strings.Join(ids, " "); got != tt.cured || reports != "" || pending != 2 {
					t.Errorf("after the cure: %q with %d jobs, reports %q", got, pending, reports)
				}
			})
		}
	}
}

func TestAQueueWithoutItsDirectory(t *testing.T) {
	dir := twoQueues(t, true)
	must(t, os.RemoveAll(filepath.Join(dir, "queues/b")))
	if ids, reports, pending := served(t, dir); strings.Join(ids, " ") != "a" || pending != 1 || !strings.HasPrefix(reports, "queues/b: directory lost") {
		t.Errorf("served %q, %d jobs, reports %q", ids, pending, reports)
	}
	for _, o := range []check.Options{{}, {Repair: true}, {Rebuild: true, AcceptLoss: true}} { // which do not bring it back
		o.Segment = segment
		r, err := check.Home(dir, o)
		must(t, err)
		if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].String(), "queues/b: directory lost") || len(r.Mended) > 0 || r.Queues != 1 {
			t.Errorf("%+v: problems %q, mended %q", o, texts(r.Problems), texts(r.Mended))
		}
		if cure, ok := check.Cure(&r, nil); ok {
			t.Errorf("a check with %+v is to cure it", cure)
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	must(t, errors.Join(s.RemoveLost(ctx, "b"), s.Close()))
	if r, err := check.Home(dir, check.Options{Segment: segment}); err != nil || len(r.Problems) > 0 || r.Queues != 1 {
		t.Errorf("after its removal: %+v, %v", r, err)
	}
}

// A home that nobody has opened yet has no journal, and is whole.
func TestAHomeJustMadeIsWhole(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{}))
	for range 2 {
		r, err := check.Home(dir, check.Options{Segment: segment})
		must(t, err)
		if len(r.Problems) > 0 {
			t.Errorf("got %q", texts(r.Problems))
		}
		s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
		must(t, err)
		must(t, s.Close())
	}
}
