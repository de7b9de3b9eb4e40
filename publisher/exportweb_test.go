package publisher_test

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs/objects"
	"cutie/testdata/long"
)

// A web is a bucket in memory. Its call number fail fails, before it is done or after.
type web struct {
	files map[string]shown
	dirs  bool // a name is that of a file or of a directory
	calls int
	fail  int
	after bool
}

type shown struct{ octets, media, cache string }

func (w *web) do(f func()) error {
	w.calls++
	if w.calls != w.fail || w.after {
		f()
	}
	if w.calls == w.fail {
		return errFault
	}
	return nil
}

func (w *web) Publish(_ context.Context, name string, file *os.File, media, cache string) error {
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if w.dirs && "/"+name == published1 {
		return objects.ErrPrefix
	}
	return w.do(func() { w.files[name] = shown{string(data), media, cache} })
}

func (w *web) Delete(_ context.Context, name string) error {
	return w.do(func() { delete(w.files, name) })
}

func (w *web) List(_ context.Context, prefix, after string, most int) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		if strings.HasPrefix(name, prefix) && name > after && len(names) < most {
			names = append(names, name)
		}
	}
	return names, w.do(func() {})
}

// tree is what a web server serves from the bucket, as files of an export.
func (w *web) tree() map[string]string {
	all := map[string]string{}
	for name, f := range w.files {
		if "/"+name != published1 || f.octets != w.files[name+"/index.xml"].octets {
			all["/"+name] = f.octets
		}
	}
	return all
}

// differences names the files that are not the same in two trees.
func differences(got, want map[string]string) (names []string) {
	for name, octets := range got {
		if at, there := want[name]; !there || at != octets {
			names = append(names, "got "+name)
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			names = append(names, "no "+name)
		}
	}
	slices.Sort(names)
	return names
}

func TestEveryRequestToABucketMayFail(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs")
	activity(s, s.queue("jobs"), 0)
	s.settle()
	first, bucket := s.newExport(), &web{files: map[string]shown{}}
	first.Resources, first.Robots, first.Web, first.To = true, true, bucket, "s3://bucket"
	run(t, first)
	if d := differences(bucket.tree(), tree(t, first.Dir)); d != nil {
		t.Fatalf("bucket and directory: %q", d)
	}
	kinds := map[string]bool{}
	for name, f := range bucket.files {
		if (f.cache == "no-cache") == strings.Contains(f.cache, "immutable") {
			t.Errorf("%s: got %q", name, f.cache)
		}
		kinds[f.media] = true
		if strings.Contains(name, "/payload/") && f.media != "application/octet-stream" || strings.HasSuffix(name, ".xml") && f.media != "application/xml" {
			t.Errorf("%s: got %s", name, f.media)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("got %v, want six media types", kinds)
	}
	calls := bucket.calls
	if x := run(t, first); x != (publisher.ExportResult{}) || bucket.calls != calls {
		t.Errorf("got %+v and %d requests, want none without changes", x, bucket.calls-calls)
	}

	activity(s, s.queue("jobs"), 1)
	must(t, s.svc.RemoveQueue(context.Background(), s.queue("gone").ID()))
	s.settle()
	stride := long.N(9, 1)
	if long.Race() {
		stride *= 5
	}
	for n, more := 1, true; more; n += stride {
		for _, after := range []bool{false, true} {
			w := &web{files: maps.Clone(bucket.files), fail: n, after: after}
			e := *first
			e.Dir, e.Web = filepath.Join(t.TempDir(), "tree"), w
			must(t, os.CopyFS(e.Dir, os.DirFS(first.Dir)))
			_, err := e.Run(context.Background())
			if more = w.calls >= n; more != (err != nil) {
				t.Fatalf("request %d of %d: %v", n, w.calls, err)
			}
			for path, octets := range w.tree() {
				if !strings.HasSuffix(path, ".xml") {
					continue
				}
				for _, ref := range parse(t, []byte(octets)).entries {
					at, ok := strings.CutPrefix(ref.Loc, base+published1)
					if _, there := w.tree()[published1+at]; ok && !there {
						t.Errorf("request %d: %s names %s, which is not there", n, path, ref.Loc)
					}
				}
			}
			w.fail = 0
			run(t, &e)
			if d := differences(w.tree(), tree(t, e.Dir)); d != nil {
				t.Fatalf("request %d: after the next export: %q", n, d)
			}
			if !more {
				break
			}
		}
		if n > 1000 {
			t.Fatal("no end")
		}
	}

	// Another bucket gets all; a directory that was lost leaves nothing behind.
	run(t, first)
	other := &web{dirs: true, files: map[string]shown{published1[1:] + "/old.xml": {}, "queues/old/x": {}, "mine": {}}}
	e := *first
	e.Web, e.To = other, "s3://other"
	run(t, &e)
	want := tree(t, e.Dir)
	want["/mine"] = ""
	if d := differences(other.tree(), want); d != nil {
		t.Errorf("another bucket: %q", d)
	}
	bucket.files["queues/old/x"] = shown{}
	e = *s.newExport()
	e.Resources, e.Robots, e.Web, e.To = true, true, bucket, "s3://bucket"
	run(t, &e)
	if d := differences(bucket.tree(), tree(t, e.Dir)); d != nil {
		t.Errorf("another directory: %q", d)
	}
}
