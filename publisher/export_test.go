package publisher_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/objects"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// inside asks a handler of this process.
type inside struct{ http.Handler }

func (h inside) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// newExport returns an Export of the source to a new directory.
func (s *source) newExport() *publisher.ExportDir {
	return &publisher.ExportDir{Client: &http.Client{Transport: inside{s}}, Source: "http://localhost", Dir: filepath.Join(s.newDir(), "tree")}
}

func run(t testing.TB, e *publisher.ExportDir) publisher.ExportResult {
	t.Helper()
	x, err := e.Run(context.Background())
	must(t, err)
	return x
}

const published1 = "/.well-known/resourcesync"

// tree returns the octets of all files of an export by path, without its own.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".cutie-export" {
			return err
		}
		data, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, dir)] = string(data)
		return err
	}))
	return files
}

// checkTree checks that every reference that begins with base and path leads to
// a file of the tree, and every file is named.
func checkTree(t testing.TB, files map[string]string, base, path string) {
	t.Helper()
	named := map[string]bool{"/robots.txt": true, published1 + "/index.xml": true, published1 + "/index.html": true}
	refer := func(from, uri string, e *sitemap.Entry) {
		if !strings.HasPrefix(uri, base+path) || strings.HasPrefix(uri, base+"/state/") {
			return
		}
		name, err := url.PathUnescape(strings.TrimPrefix(uri, base))
		must(t, err)
		if name == published1 {
			name += "/index.xml"
		}
		named[name] = true
		octets, ok := files[name]
		if !ok {
			t.Errorf("%s names %s, which is not there", from, uri)
		}
		if e == nil {
			return
		}
		sum := sha256.Sum256([]byte(octets))
		if got := hex.EncodeToString(sum[:]); e.Length >= 0 && int64(len(octets)) != e.Length || len(e.Hashes) > 0 && e.Hashes[0].Value != got {
			t.Errorf("%s says that %s has %d octets and digest %v, got %d and %s", from, uri, e.Length, e.Hashes, len(octets), got)
		}
	}
	for from, octets := range files {
		if !strings.HasSuffix(from, ".xml") {
			continue
		}
		d := parse(t, []byte(octets))
		for _, l := range d.head.Links {
			refer(from, l.Href, nil)
		}
		for _, e := range d.entries {
			switch d.head.Capability {
			case sitemap.ChangeList, sitemap.ChangeDumpManifest, sitemap.ResourceDumpManifest:
				if d.root == sitemap.URLSet {
					continue // what was
				}
			}
			refer(from, e.Loc, &e)
			for _, l := range e.Links {
				refer(from, l.Href, nil)
			}
		}
	}
	for name := range files {
		if !named[name] {
			t.Errorf("no one names %s", name)
		}
	}
}

// served returns what the source has under the paths of the tree.
func (s *source) served(files map[string]string) map[string]string {
	s.Helper()
	want := map[string]string{}
	for path := range files {
		uri := strings.TrimSuffix(strings.TrimSuffix(path, "/index.xml"), "/index.html")
		resp := s.get(base + (&url.URL{Path: uri}).EscapedPath())
		if resp.StatusCode != 200 {
			s.Errorf("%s is exported, but %s", path, resp.Status)
		}
		want[path] = string(read(s, resp))
	}
	return want
}

func TestExportIsWhatIsServed(t *testing.T) {
	s, _ := published(t)
	s.queue("a^20b")
	e := s.newExport()
	x := run(t, e)
	got := tree(t, e.Dir)
	if want := s.served(got); !maps.Equal(got, want) {
		t.Error("the tree differs from what is served")
	}
	checkTree(t, got, base, published1)
	if x.Documents != len(got) || x.Removed != 0 || x.Resources != 0 || x.Moved != 0 || x.Documents < 30 {
		t.Errorf("got %+v for %d files", x, len(got))
	}
}

func TestExportWritesOnlyWhatChanged(t *testing.T) {
	s, _ := published(t)
	q := s.queue("jobs")
	e := s.newExport()
	run(t, e)
	if x := run(t, e); x != (publisher.ExportResult{}) {
		t.Errorf("nothing changed: %+v", x)
	}
	times := func() map[string]time.Time {
		m := map[string]time.Time{}
		for path := range tree(t, e.Dir) {
			st, err := os.Stat(e.Dir + path)
			must(t, err)
			m[path] = st.ModTime()
		}
		return m
	}
	for path := range times() {
		must(t, os.Chtimes(e.Dir+path, time.Unix(1, 0), time.Unix(1, 0)))
	}
	s.submitN(q, 1)
	x := run(t, e)
	var written []string
	for path, at := range times() {
		if !at.Equal(time.Unix(1, 0)) {
			written = append(written, strings.TrimPrefix(path, published1+"/jobs/"))
		}
	}
	slices.Sort(written)
	want := []string{"pending/changelist.xml", "pending/resourcelist-000001.xml", "pending/resourcelist.xml",
		"replica/changelist.xml", "replica/resourcelist-000001.xml", "replica/resourcelist.xml"}
	// Lists of nine entries are closed often: closed lists and indexes may follow.
	for _, w := range want {
		if !slices.Contains(written, w) {
			t.Errorf("written are %q, without %s", written, w)
		}
	}
	for _, w := range written {
		if strings.Contains(w, "capabilitylist") || strings.Contains(w, "index.xml") && !strings.Contains(w, "changelist-") || strings.HasSuffix(w, ".zip") {
			t.Errorf("%s was written", w)
		}
	}
	if x.Documents != len(written) {
		t.Errorf("got %+v, written are %q", x, written)
	}
	// What somebody removed or cut is written again.
	must(t, os.Remove(e.Dir+published1+"/jobs/pending/capabilitylist.xml"))
	must(t, os.Truncate(e.Dir+published1+"/jobs/replica/capabilitylist.xml", 5))
	if x := run(t, e); x.Documents != 2 {
		t.Errorf("got %+v for two damaged files", x)
	}
	got := tree(t, e.Dir)
	checkTree(t, got, base, published1)
	if !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
}

func TestExportKeepsWhatOnlyArchivesName(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 6, Retention: publisher.Retention{Current: time.Nanosecond}}, "jobs")
	for range 3 {
		s.submitN(s.queue("jobs"), 10)
		s.settle()
		must(t, s.pub.Publish(context.Background()))
	}
	e := s.newExport()
	run(t, e)
	want := tree(t, e.Dir)
	checkTree(t, want, base, published1)
	if !regexp.MustCompile(`/pending/changedump-000000000001-[0-9a-f]{8}\.zip `).MatchString(strings.Join(slices.Sorted(maps.Keys(want)), " ")) {
		t.Error("no package that an archive names")
	}
	for _, again := range []*publisher.ExportDir{e, {Client: e.Client, Source: e.Source, Dir: e.Dir}} {
		if x := run(t, again); x != (publisher.ExportResult{}) || !maps.Equal(tree(t, e.Dir), want) {
			t.Errorf("nothing changed: %+v", x)
		}
	}
}

func TestExportRemovesWhatIsNamedNoLonger(t *testing.T) {
	t.Parallel()
	s, _ := published(t)
	s.queue("more")
	e := s.newExport()
	e.Resources, e.Robots = true, true
	run(t, e)
	must(t, s.svc.RemoveQueue(context.Background(), "more"))
	x := run(t, e)
	got := tree(t, e.Dir)
	checkTree(t, got, base, "")
	for path := range got {
		if strings.Contains(path, "/more/") {
			t.Errorf("%s is left", path)
		}
	}
	if x.Removed < 10 {
		t.Errorf("got %+v", x)
	}
	// And without files of queues.
	e.Resources, e.Robots = false, false
	run(t, e)
	got = tree(t, e.Dir)
	checkTree(t, got, base, published1)
	if !maps.Equal(got, s.served(got)) {
		t.Error("the tree differs from what is served")
	}
}

// TestExportedFilesFollow works on a queue and compares all files after each
// export, which goes from a list to an index on the way.
func TestExportedFilesFollow(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 40}, "jobs", "a^20b")
	e := s.newExport()
	e.Resources, e.Robots = true, true
	q, late := s.queue("jobs"), s.queue("a^20b")
	for round := range 9 {
		activity(s, q, round)
		s.submitN(late, round)
		s.consume(late, round/2)
		if round%3 == 2 {
			s.settle()
		}
		x := run(t, e)
		got := tree(t, e.Dir)
		checkTree(t, got, base, "")
		robots := got["/robots.txt"]
		delete(got, "/robots.txt")
		if want := s.served(got); !maps.Equal(got, want) {
			t.Fatalf("round %d: the tree differs from what is served", round)
		}
		if want := "Sitemap: " + base + published1 + "/jobs/replica/resourcelist.xml\n"; !strings.Contains(robots, want) || strings.Count(robots, "Sitemap:") != 4 {
			t.Errorf("robots.txt is %q", robots)
		}
		if x.Moved != 0 || x.Resources == 0 {
			t.Errorf("got %+v", x)
		}
		files := 0
		for path := range got {
			if strings.HasPrefix(path, "/queues/") {
				files++
			}
		}
		if want := 2*(len(q.IDs(index.Filter{}))+len(late.IDs(index.Filter{}))) + 2; files != want {
			t.Errorf("round %d: %d files of queues, want %d", round, files, want)
		}
	}
}

func TestExportRefusals(t *testing.T) {
	s, _ := published(t)
	for _, tt := range []struct {
		name, want string
		make       func(dir string, e *publisher.ExportDir)
	}{
		{"documents of others", "not by an export", func(dir string, e *publisher.ExportDir) {
			must(t, os.MkdirAll(dir+published1, 0o777))
		}},
		{"queues of others", "not by an export", func(dir string, e *publisher.ExportDir) {
			must(t, os.Mkdir(dir+"/queues", 0o777))
		}},
		{"robots.txt of others", "robots.txt is there", func(dir string, e *publisher.ExportDir) {
			e.Robots = true
			must(t, os.WriteFile(dir+"/robots.txt", []byte("User-agent: *\n"), 0o666))
		}},
		{"damaged state", "remove it", func(dir string, e *publisher.ExportDir) {
			must(t, os.WriteFile(dir+"/.cutie-export", []byte(`{"cutieExport":1,"files":{"../x":{"path":"../x","length":1}}}`), 0o666))
		}},
		{"state of another version", "remove it", func(dir string, e *publisher.ExportDir) {
			must(t, os.WriteFile(dir+"/.cutie-export", []byte(`{"cutieExport":2}`), 0o666))
		}},
		{"base URI", "not an absolute", func(dir string, e *publisher.ExportDir) { e.BaseURI = "static.test" }},
		{"nothing published", "404", func(dir string, e *publisher.ExportDir) {
			e.Client = &http.Client{Transport: inside{http.NotFoundHandler()}}
		}},
		{"not a document", "", func(dir string, e *publisher.ExportDir) {
			e.Client = &http.Client{Transport: inside{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html/>") })}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := s.newExport()
			must(t, os.Mkdir(e.Dir, 0o777))
			tt.make(e.Dir, e)
			before := tree(t, e.Dir)
			if _, err := e.Run(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if got := tree(t, e.Dir); !maps.Equal(got, before) {
				t.Errorf("the directory was changed: %q", slices.Sorted(maps.Keys(got)))
			}
		})
	}
}

func TestTwoExportsDoNotShareADirectory(t *testing.T) {
	s, _ := published(t)
	e := s.newExport()
	var second error
	e.Client = &http.Client{Transport: inside{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other := *e
		_, second = other.Run(context.Background())
		s.ServeHTTP(w, r)
	})}}
	run(t, e)
	if second == nil || !strings.Contains(second.Error(), "another export") {
		t.Errorf("got %v", second)
	}
}

// TestExportIsServedByAPlainFileServer follows what a Destination would.
func TestExportIsServedByAPlainFileServer(t *testing.T) {
	s, _ := published(t)
	server := httptest.NewServer(nil)
	defer server.Close()
	e := s.newExport()
	e.BaseURI = server.URL
	e.Resources = true
	run(t, e)
	server.Config.Handler = http.FileServer(http.Dir(e.Dir))
	get := func(uri string) []byte {
		resp, err := http.Get(uri)
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s", uri, resp.Status)
		}
		return read(t, resp)
	}
	files := 0
	for _, set := range parse(t, get(server.URL+published1)).entries {
		for _, c := range parse(t, get(set.Loc)).entries {
			d := parse(t, get(c.Loc))
			for _, x := range d.entries {
				octets := get(x.Loc)
				if c.Capability != sitemap.ResourceList || d.root != sitemap.SitemapIndex {
					continue
				}
				for _, f := range parse(t, octets).entries {
					sum := sha256.Sum256(get(f.Loc))
					if hex.EncodeToString(sum[:]) != f.Hashes[0].Value {
						t.Errorf("%s is not what the list says", f.Loc)
					}
					files++
				}
			}
		}
	}
	if files < 20 {
		t.Errorf("%d files", files)
	}
	if !bytes.Equal(get(server.URL+published1), get(server.URL+published1+"/index.xml")) {
		t.Error("the Source Description is not the same at both names")
	}
}

// TestACopySaysNothingOfHubs exports a Source before and after it has a hub: the
// hub distributes topics of the Source, so a copy at another place has none.
func TestACopySaysNothingOfHubs(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: dialect}, "jobs", "a^20b")
		activity(s, s.queue("jobs"), 0)
		s.settle()
		var site http.Handler = s
		exported := func(uri string) map[string]string {
			e := s.newExport()
			e.Client = &http.Client{Transport: inside{site}}
			e.BaseURI, e.Resources, e.Robots = uri, true, true
			run(t, e)
			return tree(t, e.Dir)
		}
		const elsewhere = "https://static.test/copy"
		without := exported(elsewhere)
		site = withTopics{s, s.notifier()}
		got := exported(elsewhere)
		if !maps.Equal(got, without) {
			for path, text := range got {
				if text != without[path] {
					t.Errorf("%v: %s is another than without a hub", dialect, path)
				}
			}
		}
		checkTree(t, got, elsewhere, "")
		// One for the place of the Source is what is served.
		list := published1 + "/jobs/pending/capabilitylist.xml"
		for _, uri := range []string{"", base + "/"} {
			if got := exported(uri); strings.Count(got[list], hubURI) != 2 || got[list] != string(s.body(base+list)) {
				t.Errorf("%v: at %q the Capability List is %s", dialect, uri, got[list])
			}
		}
	}
}

// withTopics is the site of a source that has topics.
type withTopics struct {
	*source
	topics http.Handler
}

func (s withTopics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, published1) {
		s.topics.ServeHTTP(w, r)
		return
	}
	s.source.ServeHTTP(w, r)
}

func TestExportForAnotherSite(t *testing.T) {
	t.Parallel()
	for _, resources := range []bool{false, true} {
		t.Run(fmt.Sprint(resources), func(t *testing.T) {
			s, _ := published(t)
			const site = "https://static.test/a&b"
			e := s.newExport()
			e.BaseURI, e.Resources = site+"/", resources
			run(t, e)
			files := tree(t, e.Dir)
			path := published1
			if resources {
				path = ""
			}
			checkTree(t, files, site, path)
			moved := func(text string, spell func(string) string) string {
				text = strings.ReplaceAll(text, spell(base+published1), spell(site+published1))
				if resources {
					text = strings.ReplaceAll(text, spell(base+"/queues/"), spell(site+"/queues/"))
				}
				return text
			}
			zips := 0
			for path, got := range files {
				uri := base + strings.TrimSuffix(strings.TrimSuffix(path, "/index.xml"), "/index.html")
				want := string(s.body(uri))
				switch {
				case strings.HasSuffix(path, ".zip"):
					zips++
					a, b := unzip(t, got), unzip(t, want)
					b["manifest.xml"] = moved(b["manifest.xml"], html.EscapeString)
					if !maps.Equal(a, b) {
						t.Errorf("%s has other files", path)
					}
				case strings.Contains(path, "dump.xml"), strings.Contains(path, "/changedump-0") && !strings.HasSuffix(path, "-manifest.xml"): // see checkTree
				case strings.HasSuffix(path, ".json"):
					if got != moved(want, func(uri string) string { return uri }) {
						t.Errorf("%s is %.300s", path, got)
					}
				case got != moved(want, html.EscapeString):
					t.Errorf("%s is %.300s", path, got)
				}
				if !strings.HasSuffix(path, ".zip") && strings.Contains(got, base+published1) {
					t.Errorf("%s names documents of the source", path)
				}
			}
			if zips < 4 {
				t.Errorf("%d packages", zips)
			}
			if x := run(t, e); x != (publisher.ExportResult{}) {
				t.Errorf("nothing changed: %+v", x)
			}
			activity(s, s.queue("jobs"), 7)
			s.settle()
			run(t, e)
			checkTree(t, tree(t, e.Dir), site, path)
			again := s.newExport()
			again.BaseURI, again.Resources = site, resources
			run(t, again)
			if !maps.Equal(tree(t, again.Dir), tree(t, e.Dir)) {
				t.Error("made at once it has other octets than made in two steps")
			}
			// Back to the base URI of the source.
			e.BaseURI = ""
			run(t, e)
			if got := tree(t, e.Dir); !maps.Equal(got, s.served(got)) {
				t.Error("the tree differs from what is served")
			}
		})
	}
}

func unzip(t testing.TB, octets string) map[string]string {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(octets), int64(len(octets)))
	must(t, err)
	files := map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		must(t, err)
		data, err := io.ReadAll(in)
		must(t, err)
		files[f.Name] = string(data)
	}
	return files
}

// The documents of earlier versions are read and written again for another base URI, too.
func TestExportOfEarlierVersionsForAnotherSite(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sitemap.Dialect{sitemap.V10, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: dialect, MaxEntries: 8, Retention: publisher.Retention{Current: time.Nanosecond},
			Mirrors: []string{"https://mirror.test/m"}, Via: "https://origin.test/"}, "jobs")
		for round := range 3 {
			activity(s, s.queue("jobs"), round)
			s.settle()
			must(t, s.pub.Publish(context.Background()))
		}
		const site = "https://static.test/a&b"
		e := s.newExport()
		e.BaseURI, e.Resources = site, true
		run(t, e)
		files := tree(t, e.Dir)
		compared := 0
		for path, got := range files {
			if !strings.HasSuffix(path, ".xml") || strings.Contains(path, "dump.xml") || strings.Contains(path, "/changedump-0") || strings.Contains(path, "/resourcedump-") {
				continue
			}
			want := string(s.body(base + strings.TrimSuffix(path, "/index.xml")))
			for _, below := range []string{published1, "/queues/"} {
				want = strings.ReplaceAll(want, base+below, html.EscapeString(site)+below)
			}
			if got != want {
				t.Errorf("%v: %s is\n%.600s\nwant\n%.600s", dialect, path, got, want)
			}
			compared++
		}
		if compared < 15 {
			t.Errorf("%v: %d documents", dialect, compared)
		}
	}
}

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
	other.fail = 20 // on the way there are files of queues
	if _, err := e.Run(context.Background()); !errors.Is(err, errFault) {
		t.Errorf("got %v, want a failed request", err)
	}
	other.fail = 0
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
