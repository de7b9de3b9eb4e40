package destination_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// benchSync copies a Source, and audits the copy if audit is set.
func benchCopy(b *testing.B, o destination.Options, audit bool) (r *destination.Report) {
	b.Helper()
	c, err := destination.Open(b.Context(), o)
	if err == nil && audit {
		var a *destination.AuditReport
		if a, err = c.Audit(b.Context()); err == nil && !a.Clean() {
			b.Fatalf("audit: got %+v", a)
		}
	} else if err == nil {
		if r, err = c.Sync(b.Context()); err == nil && !r.InSync() {
			b.Fatalf("got %+v", r)
		}
	}
	must(b, err)
	must(b, c.Close())
	return r
}

// A million resources: 100 changes cost what 100 changes cost, and memory is bounded.
func BenchmarkMillion(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	f := newBulk(b, n)
	dir := filepath.Join(b.TempDir(), "copy")
	for b.Loop() {
		for _, do := range []string{"sync", "audit", "inspect"} {
			b.ReportMetric(processMemory(b, f.URL, dir, do), "MiB/"+do)
		}
		for i := range 100 {
			f.Change(i * n / 100)
		}
		began := time.Now()
		r := benchCopy(b, destination.Options{Dir: dir}, false)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/100changes")
		b.ReportMetric(float64(r.Octets), "octets/100changes")
		if r.Fetched != 100 || r.Requests > 110 {
			b.Fatalf("got %+v", r)
		}
	}
}

// processMemory runs a Destination as a process, and returns the memory it needed at most.
func processMemory(b *testing.B, url, dir, do string) float64 {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CUTIE_TEST_COPY="+dir, "CUTIE_TEST_SOURCE="+url, "CUTIE_TEST_DO="+do)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v: %s", do, err, out)
	}
	var kib float64
	_, text, _ := strings.Cut(string(out), "VmHWM:") // getrusage counts this process, too
	if _, err := fmt.Sscan(text, &kib); err != nil {
		b.Fatalf("%s: %v: %s", do, err, out)
	}
	return kib / 1024
}

// From a change at the Source to the file in its place, at 100 changes a second.
func BenchmarkFollowing(b *testing.B) {
	f := newBulk(b, 1000)
	dir := filepath.Join(b.TempDir(), "copy")
	c, err := destination.Open(b.Context(), destination.Options{URL: f.URL, Dir: dir, HTTP: source.Options{}})
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var ready atomic.Bool
	ended := make(chan error)
	go func() { ended <- c.Follow(ctx, time.Second, func(*destination.Report) { ready.Store(true) }) }()
	for !ready.Load() {
		time.Sleep(time.Millisecond)
	}
	var took []time.Duration
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for i := 0; b.Loop(); i++ {
		<-t.C
		r := i % 1000
		name, want := filepath.Join(dir, bulkPath(r)), string(bulkText(r, i/1000+1))
		began := time.Now()
		f.Change(r)
		for {
			if text, _ := os.ReadFile(name); string(text) == want {
				break
			}
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	<-ended
	must(b, c.Close())
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
}

// A bulk is a Source of many resources of 1 KiB, for measurements. Its Change List
// waits for changes (RFC 7240).
type bulk struct {
	*httptest.Server
	N  int
	At time.Time // of the Resource List

	lists []string // one a page of 50,000

	mu      sync.Mutex
	changed map[int]int // versions of resources
	tail    []byte      // entries of the Change List
	more    chan struct{}
}

// newBulk returns a Source of n resources.
func newBulk(tb testing.TB, n int) *bulk {
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
	return f
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
		f.document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}}, all...)
	case "/set/resourcelist.xml":
		var all []sitemap.Entry
		for i := range f.lists {
			all = append(all, sitemap.Entry{Loc: f.URL + "/list/" + strconv.Itoa(i), At: f.At, Length: -1})
		}
		f.document(w, sitemap.SitemapIndex, f.head(sitemap.ResourceList), all...)
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
