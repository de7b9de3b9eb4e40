package destination_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	"cutie/publisher/destination/fetch"
	"cutie/sitemap"
)

// A fake is a Source of a test: resources, their changes, and faults by the path of a
// request.
type fake struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	now       time.Time
	resources map[string]string
	mods      map[string]time.Time
	changes   []sitemap.Entry
	from      time.Time                                                    // of the Change List
	dumped    bool                                                         // there is a Resource Dump
	faults    map[string]func(w http.ResponseWriter, r *http.Request) bool // true: it answered
	asked     map[string]int
	edit      func(path string, e *sitemap.Entry) // of entries in lists
	pack      func(z *zip.Writer, manifest []byte)
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), resources: map[string]string{}, mods: map[string]time.Time{},
		faults: map[string]func(http.ResponseWriter, *http.Request) bool{}, asked: map[string]int{}}
	f.from = f.now
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) tick() time.Time { f.now = f.now.Add(time.Second); return f.now }

func (f *fake) entry(path string) sitemap.Entry {
	e := sitemap.Entry{Loc: f.URL + path, Length: -1}
	if text, ok := f.resources[path]; ok {
		sum := sha256.Sum256([]byte(text))
		e.Length, e.LastMod = int64(len(text)), f.mods[path]
		e.Hashes = []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}
	}
	return e
}

func (f *fake) put(path, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change := sitemap.Updated
	if _, ok := f.resources[path]; !ok {
		change = sitemap.Created
	}
	f.resources[path], f.mods[path] = text, f.tick()
	e := f.entry(path)
	e.Change, e.DateTime = change, f.now
	f.changes = append(f.changes, e)
}

func (f *fake) remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.resources, path)
	e := f.entry(path)
	e.Change, e.DateTime = sitemap.Deleted, f.tick()
	f.changes = append(f.changes, e)
}

// fault answers requests for a path in its own way until do returns false.
func (f *fake) fault(path string, do func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[path] = do
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := r.URL.RequestURI()
	f.asked[path]++
	if do := f.faults[path]; do != nil && do(w, r) {
		return
	}
	switch path {
	case "/.well-known/resourcesync":
		f.document(w, sitemap.Head{Capability: sitemap.Description}, []sitemap.Entry{{Loc: f.URL + "/set/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1}})
	case "/set/capabilitylist.xml":
		all := []sitemap.Entry{{Loc: f.URL + "/set/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1},
			{Loc: f.URL + "/set/changelist.xml", Capability: sitemap.ChangeList, Length: -1}}
		if f.dumped {
			all = append(all, sitemap.Entry{Loc: f.URL + "/set/resourcedump.xml", Capability: sitemap.ResourceDump, Length: -1})
		}
		f.document(w, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}}, all)
	case "/set/resourcelist.xml":
		f.document(w, f.head(sitemap.ResourceList), f.all())
	case "/set/changelist.xml":
		var all []sitemap.Entry
		for _, e := range f.changes {
			if e.DateTime.After(f.from) {
				all = append(all, e)
			}
		}
		f.document(w, sitemap.Head{Capability: sitemap.ChangeList, From: f.from, Links: f.up()}, all)
	case "/set/resourcedump.xml":
		f.document(w, f.head(sitemap.ResourceDump), []sitemap.Entry{{Loc: f.URL + "/set/dump.zip", Length: -1}})
	case "/set/dump.zip":
		w.Write(f.zip())
	default:
		text, ok := f.resources[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Last-Modified", f.mods[path].Format(http.TimeFormat))
		fmt.Fprint(w, text)
	}
}

func (f *fake) up() []sitemap.Link {
	return []sitemap.Link{{Rel: "up", Href: f.URL + "/set/capabilitylist.xml"}}
}

func (f *fake) head(c sitemap.Capability) sitemap.Head {
	return sitemap.Head{Capability: c, At: f.now, Links: f.up()}
}

func (f *fake) all() (all []sitemap.Entry) {
	for path := range f.resources {
		e := f.entry(path)
		if f.edit != nil {
			f.edit(path, &e)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b sitemap.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	return all
}

func (f *fake) document(w http.ResponseWriter, head sitemap.Head, entries []sitemap.Entry) {
	w.Header().Set("Content-Type", "application/xml")
	w.Write(f.text(head, entries))
}

func (f *fake) text(head sitemap.Head, entries []sitemap.Entry) []byte {
	text := sitemap.AppendHead(nil, sitemap.URLSet, head)
	for i := range entries {
		text = sitemap.AppendEntry(text, sitemap.URLSet, &entries[i])
	}
	return sitemap.AppendFoot(text, sitemap.URLSet)
}

func (f *fake) zip() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	all := f.all()
	for i := range all {
		all[i].Path = fmt.Sprintf("/resources/%06d", i)
	}
	manifest := f.text(f.head(sitemap.ResourceDumpManifest), all)
	if f.pack != nil {
		f.pack(z, manifest)
		z.Close()
		return b.Bytes()
	}
	w, _ := z.Create("manifest.xml")
	w.Write(manifest)
	for _, e := range all {
		w, _ := z.Create(strings.TrimPrefix(e.Path, "/"))
		fmt.Fprint(w, f.resources[strings.TrimPrefix(e.Loc, f.URL)])
	}
	z.Close()
	return b.Bytes()
}

// A place is the directory of a copy of a fake.
type place struct {
	t    *testing.T
	f    *fake
	dir  string
	said []string
	mu   sync.Mutex
}

func (f *fake) newPlace() *place {
	return &place{t: f.t, f: f, dir: filepath.Join(f.t.TempDir(), "copy")}
}

func (p *place) open(change func(*destination.Options)) (*destination.Copy, error) {
	o := destination.Options{URL: p.f.URL, Dir: p.dir, HTTP: fetch.Options{Timeout: 2 * time.Second, Tries: 3, Pause: time.Millisecond}, Settle: time.Millisecond, Tell: func(s string) {
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

func (p *place) mustSync(change func(*destination.Options)) *destination.Report {
	p.t.Helper()
	r, err := p.sync(change)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *place) audit(deep bool) *destination.AuditReport {
	p.t.Helper()
	c, err := p.open(func(o *destination.Options) { o.Deep = deep })
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Audit(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
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
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}
