package publisher_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"cutie/queuefs"
	"cutie/sitemap"
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
		if want := 2*(len(q.IDs(queuefs.ListOptions{}))+len(late.IDs(queuefs.ListOptions{}))) + 2; files != want {
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
			must(t, os.WriteFile(dir+"/.cutie-export", []byte(`{"cutieExport":1}{"path":"../x","length":1}`), 0o666))
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
