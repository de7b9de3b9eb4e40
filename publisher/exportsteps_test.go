package publisher_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/publisher/destination/documents"
	"cutie/queuefs/durable"
)

// TestEveryStepOfAnExportMayFail fails every step that changes the directory,
// once before it is done and once after, and wants a tree that can be served
// then, and the right one after another Run.
func TestEveryStepOfAnExportMayFail(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.settle()
	first := s.newExport()
	first.Resources = true
	run(t, first)
	activity(s, s.queue("jobs"), 1)
	must(t, s.svc.RemoveQueue(context.Background(), s.queue("gone").ID()))
	s.settle()
	want := s.newExport()
	want.Resources = true
	run(t, want)

	attempt := func(fault durable.Fault) *documents.Mirror {
		e := s.newExport()
		e.Resources, e.Fault = true, fault
		must(t, os.CopyFS(e.Dir, os.DirFS(first.Dir)))
		if _, err := e.Run(context.Background()); err != nil && !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		e.Fault = nil
		return e
	}
	steps := eachStep(func(fault durable.Fault) { attempt(fault) }, true, func(step string, fault durable.Fault) {
		e := attempt(fault)
		half := tree(t, e.Dir)
		maps.DeleteFunc(half, func(path, _ string) bool { return strings.Contains(path, "cutie-") })
		for path, octets := range half {
			if !strings.HasSuffix(path, ".xml") {
				continue
			}
			for _, ref := range parse(t, []byte(octets)).entries {
				at, ok := strings.CutPrefix(ref.Loc, base+published1)
				if _, there := half[published1+at]; ok && !there {
					t.Errorf("%s: %s names %s, which is not there", step, path, ref.Loc)
				}
			}
		}
		run(t, e)
		if got := tree(t, e.Dir); !maps.Equal(got, tree(t, want.Dir)) {
			t.Fatalf("%s: the next export makes %q", step, slices.Sorted(maps.Keys(got)))
		}
	})
	if kinds := slices.Compact(slices.Sorted(slices.Values(steps))); len(kinds) < 5 {
		t.Errorf("steps: %q", kinds)
	}
}

// TestAFirstExportThatWasKilledIsRunAgain kills the first run at every step.
func TestAFirstExportThatWasKilledIsRunAgain(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.settle()
	first, left := s.newExport(), []string{}
	first.Resources = true
	first.Fault = func(step string, do func() error) error {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS(first.Dir)))
		left = append(left, dir)
		return do()
	}
	run(t, first)
	for i := 0; i < len(left); i += 1 + i/20 {
		e := s.newExport()
		e.Resources, e.Dir = true, left[i]
		run(t, e)
		if got := tree(t, e.Dir); !maps.Equal(got, tree(t, first.Dir)) {
			t.Fatalf("step %d: the next export makes %q", i, slices.Sorted(maps.Keys(got)))
		}
	}
}

// TestAListClosedMeanwhileIsNotMissed closes lists between the request for the
// index and that for the open list.
func TestAListClosedMeanwhileIsNotMissed(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 4}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 3)
	e := s.newExport()
	rounds := 3
	busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pending/changelist.xml") && rounds > 0 {
			rounds--
			s.submitN(q, 6)
		}
		s.ServeHTTP(w, r)
	})
	e.Client = &http.Client{Transport: inside{busy}}
	run(t, e)
	got := tree(t, e.Dir)
	checkTree(t, got, base, published1)
	if !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
	rounds = 1000
	if _, err := e.Run(context.Background()); !errors.Is(err, documents.ErrMoving) {
		t.Errorf("got %v from a source that never rests", err)
	}
	after := tree(t, e.Dir)
	if !maps.Equal(after, got) {
		t.Error("the export that failed changed the tree")
	}
}

// TestADocumentGoneMeanwhileIsNotAskedForAgain has a source that removes a former document
// between the requests for its index and for itself. An export begins again with the index.
func TestADocumentGoneMeanwhileIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 4}, "jobs")
	s.submitN(s.queue("jobs"), 6)
	e := s.newExport()
	rounds := 3
	busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/replica/changelist-0") && rounds > 0 {
			rounds--
			http.Error(w, "gone", http.StatusGone)
			return
		}
		s.ServeHTTP(w, r)
	})
	e.Client = &http.Client{Transport: inside{busy}}
	run(t, e)
	if got := tree(t, e.Dir); rounds > 0 || !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
}

func TestExportLeavesOutWhatMovedOn(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 5)
	e := s.newExport()
	e.Resources = true
	moves := 2
	busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/queues/jobs/pending/") && moves > 0 {
			moves--
			s.consume(q, 1)
		}
		s.ServeHTTP(w, r)
	})
	e.Client = &http.Client{Transport: inside{busy}}
	if x := run(t, e); x.Moved == 0 {
		t.Errorf("got %+v", x)
	}
	if x := run(t, e); x.Moved != 0 {
		t.Errorf("got %+v", x)
	}
	got := tree(t, e.Dir)
	checkTree(t, got, base, "")
	if !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
}
