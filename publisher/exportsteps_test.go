package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
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

	attempt := func(fault durable.Fault) *publisher.ExportDir {
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

// TestAListClosedMeanwhileIsNotMissed closes lists and removes former ones after the open
// list was composed, and before the index is.
func TestAListClosedMeanwhileIsNotMissed(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 4, Retention: publisher.Retention{KeepOctets: 1000}}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 3)
	rounds := 3
	export := func() (map[string]string, error) {
		files, final := map[string]string{}, map[string]bool{}
		err := s.pub.Export(context.Background(), publisher.Export{}, func(f publisher.Exported, write func(io.Writer) error) error {
			var text bytes.Buffer
			must(t, write(&text))
			if final[f.Path] {
				t.Errorf("%s never changes, and comes again", f.Path)
			}
			files["/"+f.Path], final[f.Path] = text.String(), f.Final
			if strings.HasSuffix(f.Path, "/pending/changelist.xml") && rounds > 0 {
				rounds--
				s.submitN(q, 6)
				s.settle()
			}
			return nil
		})
		return files, err
	}
	got, err := export()
	must(t, err)
	if rounds > 0 {
		t.Errorf("%d rounds are left", rounds)
	}
	for _, index := range []string{"/pending/changelist-index.xml", "/pending/changelist.xml"} {
		if path := published1 + "/jobs" + index; got[path] == "" || got[path] != string(s.body(base+path)) {
			t.Errorf("%s is not as it is served", index)
		}
	}
	checkNamed(t, got)
	rounds = 1000
	if _, err := export(); !errors.Is(err, publisher.ErrMoving) {
		t.Errorf("got %v from a source that never rests", err)
	}
}

// checkNamed checks that every document that a document names is there.
func checkNamed(t testing.TB, files map[string]string) {
	t.Helper()
	for path, text := range files {
		if !strings.HasSuffix(path, ".xml") {
			continue
		}
		for _, e := range parse(t, []byte(text)).entries {
			ref, ok := strings.CutPrefix(e.Loc, base+published1+"/")
			if _, there := files[published1+"/"+ref]; ok && !there {
				t.Errorf("%s names %s, which is not there", path, e.Loc)
			}
		}
	}
}

// TestAnExportThatIsCutOffChangesNothing has a Source that stops answering at each step.
func TestAnExportThatIsCutOffChangesNothing(t *testing.T) {
	t.Parallel()
	s, _ := published(t)
	e := s.newExport()
	run(t, e)
	want := tree(t, e.Dir)
	activity(s, s.queue("jobs"), 3)
	whole := e.Client.Transport
	for n := 0; ; n += 1 + n/3 {
		cut := false
		e.Client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := whole.RoundTrip(r)
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				cut = n < len(body)
				resp.Body = io.NopCloser(bytes.NewReader(body[:min(n, len(body))]))
			}
			return resp, err
		})}
		_, err := e.Run(context.Background())
		if !cut {
			must(t, err)
			break
		}
		if err == nil || !maps.Equal(tree(t, e.Dir), want) {
			t.Fatalf("after %d bytes: got %v, want an error and the tree as it was", n, err)
		}
	}
	got := tree(t, e.Dir)
	checkTree(t, got, base, published1)
	if !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
