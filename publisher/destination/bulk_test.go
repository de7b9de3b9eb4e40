package destination_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/sitemap"
)

// A bulk is a Source of many resources of 1 KiB, for measurements. Its Change List
// waits for changes (RFC 7240) and answers with the part added to it.
type bulk struct {
	*httptest.Server
	N  int
	At time.Time // of the Resource List

	lists []string // one a page of 50,000
	pack  []byte

	mu      sync.Mutex
	changed map[int]int // versions of resources
	tail    []byte      // entries of the Change List
	more    chan struct{}
}

// newBulk returns a Source of n resources, with a Resource Dump if dumped is set.
func newBulk(tb testing.TB, n int, dumped bool) *bulk {
	f := &bulk{N: n, At: time.Now().UTC().Truncate(time.Second), changed: map[int]int{}, more: make(chan struct{})}
	f.Server = httptest.NewServer(f)
	tb.Cleanup(f.Close)
	for first := 0; first < n; first += sitemap.MaxEntries {
		text := sitemap.AppendHead(nil, sitemap.URLSet, f.head(sitemap.ResourceList))
		for i := first; i < min(first+sitemap.MaxEntries, n); i++ {
			e := f.Entry(i, 0)
			text = sitemap.AppendEntry(text, sitemap.URLSet, &e)
		}
		f.lists = append(f.lists, string(sitemap.AppendFoot(text, sitemap.URLSet)))
	}
	if dumped {
		f.pack = f.zip(tb)
	}
	return f
}

// zip returns a package of all resources.
func (f *bulk) zip(tb testing.TB) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, text []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	text := sitemap.AppendHead(nil, sitemap.URLSet, f.head(sitemap.ResourceDumpManifest))
	for i := range f.N {
		e := f.Entry(i, 0)
		e.Path = bulkPath(i)
		text = sitemap.AppendEntry(text, sitemap.URLSet, &e)
	}
	add("manifest.xml", sitemap.AppendFoot(text, sitemap.URLSet))
	for i := range f.N {
		add(bulkPath(i)[1:], bulkText(i, 0))
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func (f *bulk) head(c sitemap.Capability) sitemap.Head {
	h := sitemap.Head{Capability: c, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/set/capabilitylist.xml"}}}
	if c == sitemap.ChangeList {
		h.From = f.At
	} else {
		h.At = f.At
	}
	return h
}

// Change updates a resource, and wakes who waits for changes.
func (f *bulk) Change(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed[i]++
	e := f.Entry(i, f.changed[i])
	e.LastMod = time.Now().UTC().Truncate(time.Microsecond)
	e.Change, e.DateTime = sitemap.Updated, e.LastMod
	f.tail = sitemap.AppendEntry(f.tail, sitemap.URLSet, &e)
	close(f.more)
	f.more = make(chan struct{})
}

// ServeHTTP is [http.Handler].
func (f *bulk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := func(c sitemap.Capability, name string) sitemap.Entry {
		return sitemap.Entry{Loc: f.URL + "/set/" + name, Capability: c, Length: -1}
	}
	switch path := r.URL.Path; path {
	case "/.well-known/resourcesync":
		f.document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, list(sitemap.CapabilityList, "capabilitylist.xml"))
	case "/set/capabilitylist.xml":
		all := []sitemap.Entry{list(sitemap.ResourceList, "resourcelist.xml"), list(sitemap.ChangeList, "changelist.xml")}
		if f.pack != nil {
			all = append(all, list(sitemap.ResourceDump, "resourcedump.xml"))
		}
		f.document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}}, all...)
	case "/set/resourcelist.xml":
		var all []sitemap.Entry
		for i := range f.lists {
			all = append(all, sitemap.Entry{Loc: f.URL + "/list/" + strconv.Itoa(i), At: f.At, Length: -1})
		}
		f.document(w, sitemap.SitemapIndex, f.head(sitemap.ResourceList), all...)
	case "/set/resourcedump.xml":
		e := sitemap.Entry{Loc: f.URL + "/dump.zip", Length: int64(len(f.pack))}
		f.document(w, sitemap.URLSet, f.head(sitemap.ResourceDump), e)
	case "/dump.zip":
		http.ServeContent(w, r, "", f.At, bytes.NewReader(f.pack))
	case "/set/changelist.xml":
		f.changes(w, r)
	default:
		if n, ok := strings.CutPrefix(path, "/list/"); ok {
			i, _ := strconv.Atoi(n)
			io.WriteString(w, f.lists[i])
			return
		}
		i, err := strconv.Atoi(path[strings.LastIndexByte(path, 'r')+1:])
		if err != nil || i >= f.N {
			http.NotFound(w, r)
			return
		}
		f.mu.Lock()
		text := bulkText(i, f.changed[i])
		f.mu.Unlock()
		w.Write(text)
	}
}

func (f *bulk) document(w http.ResponseWriter, root sitemap.Root, head sitemap.Head, entries ...sitemap.Entry) {
	text := sitemap.AppendHead(nil, root, head)
	for i := range entries {
		text = sitemap.AppendEntry(text, root, &entries[i])
	}
	w.Write(sitemap.AppendFoot(text, root))
}

// changes answers with the Change List or what was added to it. Its entity tag is its
// length without the foot.
func (f *bulk) changes(w http.ResponseWriter, r *http.Request) {
	tag := func() string { return strconv.Quote(strconv.Itoa(len(f.tail))) }
	f.mu.Lock()
	if more := f.more; r.Header.Get("Prefer") != "" && r.Header.Get("If-None-Match") == tag() {
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		select {
		case <-more:
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	text := sitemap.AppendHead(nil, sitemap.URLSet, f.head(sitemap.ChangeList))
	text = sitemap.AppendFoot(append(text, f.tail...), sitemap.URLSet)
	now := tag()
	f.mu.Unlock()
	w.Header().Set("ETag", now)
	if r.Header.Get("If-Range") != "" {
		r.Header.Set("If-Range", now) // it grows at its end only
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// bulkPath returns the path of a resource.
func bulkPath(i int) string { return fmt.Sprintf("/d%03d/r%06d", i/1000, i) }

// bulkText returns the 1 KiB of a version of a resource.
func bulkText(i, version int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%07d %07d", i, version)[:15:15], 69)[:1024]
}

// Entry returns the entry of a version of a resource.
func (f *bulk) Entry(i, version int) sitemap.Entry {
	sum := sha256.Sum256(bulkText(i, version))
	return sitemap.Entry{Loc: f.URL + bulkPath(i), Length: 1024, LastMod: f.At, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}}
}
