package destination_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A testSource is a Source of a test: resources, their changes, and faults by the path of a
// request.
type testSource struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	Now       time.Time
	Resources map[string]string
	Modified  map[string]time.Time
	Changes   []sitemap.Entry
	From      time.Time                                                    // of the Change List
	Dumped    bool                                                         // there is a Resource Dump
	Faults    map[string]func(w http.ResponseWriter, r *http.Request) bool // true: it answered
	Asked     map[string]int
	Watch     func(path string)                   // of each request, before it is answered
	Edit      func(path string, e *sitemap.Entry) // of entries in lists
	Pack      func(z *zip.Writer, manifest []byte)
}

// newSource returns a Source without resources; it ends with the test.
func newSource(t *testing.T) *testSource {
	f := &testSource{t: t, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Resources: map[string]string{}, Modified: map[string]time.Time{},
		Faults: map[string]func(http.ResponseWriter, *http.Request) bool{}, Asked: map[string]int{}}
	f.From = f.Now
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// Tick makes it a second later, and returns the time.
func (f *testSource) Tick() time.Time { f.Now = f.Now.Add(time.Second); return f.Now }

// Entry returns the entry of a resource in a Resource List.
func (f *testSource) Entry(path string) sitemap.Entry {
	e := sitemap.Entry{Loc: f.URL + path, Length: -1}
	if text, ok := f.Resources[path]; ok {
		sum := sha256.Sum256([]byte(text))
		e.Length, e.LastMod = int64(len(text)), f.Modified[path]
		e.Hashes = []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}
	}
	return e
}

// Put makes or changes a resource, a second later.
func (f *testSource) Put(path, text string) { f.Lock(func() { f.put(path, text) }) }

// put is Put while a request is answered.
func (f *testSource) put(path, text string) {
	change := sitemap.Updated
	if _, ok := f.Resources[path]; !ok {
		change = sitemap.Created
	}
	f.Resources[path], f.Modified[path] = text, f.Tick()
	e := f.Entry(path)
	e.Change, e.DateTime = change, f.Now
	f.Changes = append(f.Changes, e)
}

// Remove removes a resource, a second later.
func (f *testSource) Remove(path string) { f.Lock(func() { f.remove(path) }) }

// remove is Remove while a request is answered.
func (f *testSource) remove(path string) {
	delete(f.Resources, path)
	e := f.Entry(path)
	e.Change, e.DateTime = sitemap.Deleted, f.Tick()
	f.Changes = append(f.Changes, e)
}

// fault answers requests for a path in its own way until do returns false.
func (f *testSource) Fault(path string, do func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Faults[path] = do
}

// serve answers requests for a path with a list, or an index of lists.
func (f *testSource) serve(path string, list func() (sitemap.Root, sitemap.Head, []sitemap.Entry)) {
	f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool {
		root, head, all := list()
		f.Document(w, root, head, all)
		return true
	})
}

// serveList is serve for a list that stays as it is.
func (f *testSource) serveList(path string, head sitemap.Head, all ...sitemap.Entry) {
	f.serve(path, func() (sitemap.Root, sitemap.Head, []sitemap.Entry) { return sitemap.URLSet, head, all })
}

// sets makes a Source of sets with these names: /NAME/capabilitylist.xml.
func (f *testSource) sets(names ...string) {
	var all []sitemap.Entry
	for _, name := range names {
		all = append(all, sitemap.Entry{Loc: f.URL + "/" + name + "/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1})
	}
	f.serveList("/.well-known/resourcesync", sitemap.Head{Capability: sitemap.Description}, all...)
}

// capabilities gives a set a Capability List that names /set/CAPABILITY.xml, or other places.
func (f *testSource) capabilities(set, at string, documents ...sitemap.Capability) {
	var all []sitemap.Entry
	for _, c := range documents {
		name := strings.ReplaceAll(string(c), "-", "")
		all = append(all, sitemap.Entry{Loc: f.URL + "/" + at + "/" + name + ".xml", Capability: c, Length: -1})
	}
	up := []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}
	f.serveList("/"+set+"/capabilitylist.xml", sitemap.Head{Capability: sitemap.CapabilityList, Links: up}, all...)
}

// say answers requests for a path with a text.
func (f *testSource) say(path, text string) {
	f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, text); return true })
}

// status answers requests for a path with a status.
func (f *testSource) status(path string, status int) {
	f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
}

// Lock does something while no request is answered.
func (f *testSource) Lock(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *testSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.RequestURI()
	f.mu.Lock()
	watch := f.Watch
	f.mu.Unlock()
	if watch != nil {
		watch(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Asked[path]++
	if do := f.Faults[path]; do != nil && do(w, r) {
		return
	}
	switch path {
	case "/.well-known/resourcesync":
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, []sitemap.Entry{{Loc: f.URL + "/set/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1}})
	case "/set/capabilitylist.xml":
		all := []sitemap.Entry{{Loc: f.URL + "/set/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1},
			{Loc: f.URL + "/set/changelist.xml", Capability: sitemap.ChangeList, Length: -1}}
		if f.Dumped {
			all = append(all, sitemap.Entry{Loc: f.URL + "/set/resourcedump.xml", Capability: sitemap.ResourceDump, Length: -1})
		}
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}}, all)
	case "/set/resourcelist.xml":
		f.Document(w, sitemap.URLSet, f.head(sitemap.ResourceList), f.all())
	case "/set/changelist.xml":
		var all []sitemap.Entry
		for _, e := range f.Changes {
			if e.DateTime.After(f.From) {
				all = append(all, e)
			}
		}
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: f.From, Links: f.Up()}, all)
	case "/set/resourcedump.xml":
		f.Document(w, sitemap.URLSet, f.head(sitemap.ResourceDump), []sitemap.Entry{{Loc: f.URL + "/set/dump.zip", Length: -1}})
	case "/set/dump.zip":
		w.Write(f.Package())
	default:
		text, ok := f.Resources[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Last-Modified", f.Modified[path].Format(http.TimeFormat))
		fmt.Fprint(w, text)
	}
}

// Up is the link to the Capability List.
func (f *testSource) Up() []sitemap.Link {
	return []sitemap.Link{{Rel: "up", Href: f.URL + "/set/capabilitylist.xml"}}
}

func (f *testSource) head(c sitemap.Capability) sitemap.Head {
	return sitemap.Head{Capability: c, At: f.Now, Links: f.Up()}
}

func (f *testSource) all() (all []sitemap.Entry) {
	for path := range f.Resources {
		e := f.Entry(path)
		if f.Edit != nil {
			f.Edit(path, &e)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b sitemap.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	return all
}

// Document answers with a document.
func (f *testSource) Document(w http.ResponseWriter, root sitemap.Root, head sitemap.Head, entries []sitemap.Entry) {
	w.Header().Set("Content-Type", "application/xml")
	w.Write(f.text(root, head, entries))
}

func (f *testSource) text(root sitemap.Root, head sitemap.Head, entries []sitemap.Entry) []byte {
	text := sitemap.AppendHead(nil, root, head)
	for i := range entries {
		text = sitemap.AppendEntry(text, root, &entries[i])
	}
	return sitemap.AppendFoot(text, root)
}

// Package returns the package of the Resource Dump.
func (f *testSource) Package() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	all := f.all()
	for i := range all {
		all[i].Path = fmt.Sprintf("/resources/%06d", i)
	}
	manifest := f.text(sitemap.URLSet, f.head(sitemap.ResourceDumpManifest), all)
	if f.Pack != nil {
		f.Pack(z, manifest)
		z.Close()
		return b.Bytes()
	}
	w, _ := z.Create("manifest.xml")
	w.Write(manifest)
	for _, e := range all {
		w, _ := z.Create(strings.TrimPrefix(e.Path, "/"))
		fmt.Fprint(w, f.Resources[strings.TrimPrefix(e.Loc, f.URL)])
	}
	z.Close()
	return b.Bytes()
}

// A place is the directory of a copy of a fake.
type place struct {
	t    *testing.T
	f    *testSource
	dir  string
	said []string
	mu   sync.Mutex
}

func newPlace(t *testing.T, f *testSource) *place {
	return &place{t: t, f: f, dir: filepath.Join(t.TempDir(), "copy")}
}

func (p *place) open(change func(*destination.Options)) (*destination.Copy, error) {
	o := destination.Options{URL: p.f.URL, Dir: p.dir, HTTP: source.Options{Timeout: 2 * time.Second, Tries: 3, Pause: time.Millisecond}, Settle: time.Millisecond, Tell: func(s string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, s)
	}}
	if change != nil {
		change(&o)
	}
	return destination.Open(p.t.Context(), o)
}

func (p *place) sync(change func(*destination.Options)) (*destination.Report, error) {
	c, err := p.open(change)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Sync(p.t.Context())
}

// cut runs Sync until a path is asked for.
func (p *place) cut(path string, change func(*destination.Options)) {
	p.t.Helper()
	c, err := p.open(change)
	must(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	was := p.f.Faults[path]
	p.f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool { cancel(); return was != nil && was(w, r) })
	_, err = c.Sync(ctx)
	if err = errors.Join(err, c.Close()); !errors.Is(err, context.Canceled) {
		p.t.Errorf("the run was not cut off: %v", err)
	}
	p.f.Fault(path, was)
}

// follow follows the Source until a path is asked for.
func (p *place) follow(path string, every time.Duration, prepare func(*destination.Copy), synced func(*destination.Copy)) {
	p.t.Helper()
	c, err := p.open(nil)
	must(p.t, err)
	defer c.Close()
	prepare(c)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	p.f.Fault(path, func(http.ResponseWriter, *http.Request) bool { cancel(); return false })
	if err := c.Follow(ctx, every, func(*destination.Report) { synced(c) }); !errors.Is(err, context.Canceled) {
		p.t.Errorf("%s was not asked for: %v, said %q", path, err, p.said)
	}
}

func (p *place) mustSync(change func(*destination.Options)) *destination.Report {
	p.t.Helper()
	r, err := p.sync(change)
	must(p.t, err)
	return r
}

func (p *place) audit(quick bool) *destination.AuditReport {
	p.t.Helper()
	c, err := p.open(func(o *destination.Options) { o.Quick = quick })
	must(p.t, err)
	defer c.Close()
	r, err := c.Audit(p.t.Context())
	must(p.t, err)
	return r
}

// files returns path and text of each file of the copy.
func (p *place) files() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(p.dir), ".", func(name string, e fs.DirEntry, err error) error {
		if name == ".cutie-sync" {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		all["/"+name] = string(text)
		return err
	})
	must(p.t, err)
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
