package destination_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// dated adds a change with a time to the Change List, and makes it.
func dated(f *testSource, path, text string, at time.Time) {
	e := sitemap.Entry{Loc: f.URL + path, Change: sitemap.Deleted, DateTime: at, Length: -1}
	if delete(f.Resources, path); text != "" {
		f.Resources[path], f.Modified[path] = text, at
		e = f.Entry(path)
		e.Change, e.DateTime = sitemap.Updated, at
	}
	f.Changes = append(f.Changes, e)
}

// Changes of one resource within the same day, second, or instant of the list are all applied,
// in whatever runs.
func TestChangesWithTheSameTime(t *testing.T) {
	for name, at := range map[string]time.Time{
		"day":         time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		"second":      time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		"microsecond": time.Date(2026, 11, 20, 10, 0, 0, 1000, time.UTC),
	} {
		for _, texts := range [][]string{{"one", "two"}, {"one", ""}, {"", "two"}, {"one", "two", "one"}, {"", "one", "", "one"}} {
			t.Run(fmt.Sprintf("%s %q", name, texts), func(t *testing.T) {
				f := newSource(t)
				f.Put("/a", "former")
				f.Put("/b", "other")
				p := newPlace(t, f)
				p.mustSync(nil)
				for _, text := range texts {
					dated(f, "/a", text, at)
					p.mustSync(nil)
					if got := p.files()["/a"]; got != text {
						t.Errorf("got %q, want %q", got, text)
					}
					p.want()
				}
				if r := p.mustSync(nil); r.Fetched+r.Deleted+r.Failed > 0 || len(p.said) > 0 {
					t.Errorf("nothing new: got %+v, said %q", r, p.said)
				}
			})
		}
	}
}

// A list may be older than changes of its own day or second.
func TestChangesOfTheDayOfTheList(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "former")
	f.Now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	p := newPlace(t, f)
	p.mustSync(nil)
	dated(f, "/a", "changed in the afternoon", time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
	p.mustSync(nil)
	p.want()
}

// Without a digest an entry may stand for a second change in the same second: the resource is
// asked for once more when the list goes on.
func TestChangesWithoutADigestAreAskedForAgain(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "former")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	at := f.Tick()
	dated(f, "/a", "one", at)
	last := &f.Changes[len(f.Changes)-1]
	last.Hashes, last.Length, last.LastMod = nil, -1, time.Time{}
	p.mustSync(nil)
	f.Resources["/a"], f.Modified["/a"] = "two", f.Tick()
	f.Put("/b", "b2")
	p.mustSync(nil)
	if got := p.files(); got["/a"] != "two" || got["/b"] != "b2" {
		t.Errorf("got %v", got)
	}
}

// An entry that appears late, before or behind newer ones that were read, is noticed: whole
// lists are compared, and all is there.
func TestChangesListedLate(t *testing.T) {
	for name, put := range map[string]func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry{
		"in its place": func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry {
			return append([]sitemap.Entry{late}, all...)
		},
		"at the end": func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry { return append(all, late) },
	} {
		for _, text := range []string{"", "late"} {
			for _, stale := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %q %v", name, text, stale), func(t *testing.T) {
					f := newSource(t)
					f.Put("/a", "a")
					f.Put("/b", "b")
					old, at := []sitemap.Entry{f.Entry("/a"), f.Entry("/b")}, f.Tick()
					if stale {
						f.serveList("/set/resourcelist.xml", sitemap.Head{Capability: sitemap.ResourceList, At: at}, old...)
					}
					p := newPlace(t, f)
					p.mustSync(nil)
					early := f.Tick()
					f.Put("/b", "b2")
					f.Put("/c", "c")
					p.mustSync(nil)
					dated(f, "/a", text, early)
					n := len(f.Changes) - 1
					f.Changes = put(f.Changes[:n:n], f.Changes[n])
					r := p.mustSync(nil)
					if len(p.said) != 1 || !strings.Contains(p.said[0], "/a at 2026-01-01T00:00:04Z was listed late") || !r.Sets[0].Baseline || !r.InSync() {
						t.Errorf("got %+v, said %q", r, p.said)
					}
					p.want()
					if r := p.mustSync(nil); r.Sets[0].Baseline || r.Fetched+r.Deleted > 0 || len(p.said) != 1 {
						t.Errorf("once more: got %+v, said %q", r, p.said)
					}
				})
			}
		}
	}
}

// Lists that run from the newest change to the oldest one, in a dialect that has the other order,
// lead to the last change all the same.
func TestListsWithTheNewestChangeFirst(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	for _, text := range []string{"one", "two", "three"} {
		dated(f, "/a", text, f.Tick())
		dated(f, "/b", text, f.Tick())
		n := len(f.Changes)
		f.Changes = append([]sitemap.Entry{f.Changes[n-1], f.Changes[n-2]}, f.Changes[:n-2]...)
		if text != "one" {
			p.mustSync(nil)
			p.want()
		}
	}
}

// Several lists of an index may grow, and a closed one may appear late.
func TestListsBesideOthers(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	f.Now = day(1)
	lists := map[string][]sitemap.Entry{"/one": nil, "/two": nil}
	late := false
	f.serve("/set/changelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
		all := []sitemap.Entry{{Loc: f.URL + "/one", From: day(1), Length: -1}, {Loc: f.URL + "/two", From: day(1), Length: -1}}
		if late {
			all = append([]sitemap.Entry{{Loc: f.URL + "/late", From: day(1), Until: day(3), Length: -1}}, all...)
		}
		return sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: day(1)}, all
	})
	for list, until := range map[string]time.Time{"/one": {}, "/two": {}, "/late": day(3)} {
		f.serve(list, func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
			return sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: day(1), Until: until}, lists[list]
		})
	}
	change := func(list, path, text string, at time.Time) {
		dated(f, path, text, at)
		lists[list] = append(lists[list], f.Changes[len(f.Changes)-1])
	}
	p.mustSync(nil)
	for n := 10; n < 13; n++ {
		change("/one", "/a", fmt.Sprint(n), day(n))
		change("/two", "/b", fmt.Sprint(n), day(n).Add(time.Hour))
		if r := p.mustSync(nil); r.Fetched != 2 || len(p.said) > 0 {
			t.Fatalf("got %+v, said %q", r, p.said)
		}
		p.want()
	}
	late = true
	change("/late", "/c", "c", day(2))
	if r := p.mustSync(nil); len(p.said) != 1 || !strings.Contains(p.said[0], "/c at 2026-11-02T00:00:00Z was listed late") {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

// A run that is cut off between changes of one time goes on with the rest of them.
func TestACutBetweenChangesOfOneTime(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for i := range 2100 { // more than a batch
		dated(f, fmt.Sprintf("/r%04d", i), "x", at)
	}
	f.status("/r2050", http.StatusServiceUnavailable)
	if r := p.mustSync(func(o *destination.Options) { o.HTTP.Tries = 1 }); r.Failed != 1 {
		t.Errorf("got %+v", r)
	}
	f.Fault("/r2050", nil)
	if r := p.mustSync(nil); r.Failed != 0 || len(p.said) != 1 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

// inLists makes an index of Change Lists, with so many changes each.
func inLists(f *testSource, size int) {
	f.Fault("/set/changelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		var all []sitemap.Entry
		from := f.From
		for first := 0; first < len(f.Changes); first += size {
			part := f.Changes[first:min(first+size, len(f.Changes))]
			until := part[len(part)-1].DateTime
			e := sitemap.Entry{Loc: fmt.Sprintf("%s/set/changes-%d.xml", f.URL, first), From: from, Until: until, Length: -1}
			f.Faults[strings.TrimPrefix(e.Loc, f.URL)] = func(w http.ResponseWriter, _ *http.Request) bool {
				f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: e.From, Until: until, Links: f.Up()}, part)
				return true
			}
			all, from = append(all, e), until
		}
		f.Document(w, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: f.From, Links: f.Up()}, all)
		return true
	})
}

// Nothing is fetched that a later list replaces or deletes.
func TestPlanOverSeveralLists(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	inLists(f, 3)
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 5 {
		f.Put("/a", fmt.Sprint("a", i))
		f.Put(fmt.Sprint("/b", i), "b")
		f.Put(fmt.Sprint("/c", i), "c")
	}
	for i := range 5 {
		f.Remove(fmt.Sprint("/b", i))
	}
	f.Put("/b1", "once more")
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 7 || len(p.said) > 0 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	if f.Asked["/a"] != 1 || f.Asked["/b1"] != 1 || f.Asked["/b2"] != 0 {
		t.Errorf("asked for %v", f.Asked)
	}
	p.want()
}

// changeDump gives a Source a Change Dump with one package of all changes; each file is of
// the text that its resource has now.
func changeDump(f *testSource) {
	f.capabilities("set", "set", sitemap.ResourceList, sitemap.ChangeList, sitemap.ChangeDump)
	f.serve("/set/changedump.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
		e := sitemap.Entry{Loc: f.URL + "/set/changes.zip", From: f.From, Until: f.Now, Length: int64(len(changesZip(f)))}
		return sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDump, From: f.From, Links: f.Up()}, []sitemap.Entry{e}
	})
	f.Fault("/set/changes.zip", func(w http.ResponseWriter, r *http.Request) bool {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(changesZip(f)))
		return true
	})
}

func changesZip(f *testSource) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	text := sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: f.From, Until: f.Now})
	files := map[string]string{}
	for i, e := range f.Changes {
		if now, ok := f.Resources[strings.TrimPrefix(e.Loc, f.URL)]; ok && e.Change != sitemap.Deleted {
			e.Path = fmt.Sprint("/", i)
			files[fmt.Sprint(i)] = now
		}
		text = sitemap.AppendEntry(text, sitemap.URLSet, &e)
	}
	put(z, "manifest.xml", string(sitemap.AppendFoot(text, sitemap.URLSet)))
	for i := range f.Changes {
		if now, ok := files[fmt.Sprint(i)]; ok {
			put(z, fmt.Sprint(i), now)
		}
	}
	z.Close()
	return b.Bytes()
}

// Many changes come by packages, where these are shorter; few, or a broken package, by
// requests.
func TestCatchingUpByChangeDump(t *testing.T) {
	f := newSource(t)
	changeDump(f)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 200 {
		f.Put(fmt.Sprint("/r", i), "x")
	}
	for i := range 50 {
		f.Remove(fmt.Sprint("/r", i))
		f.Put(fmt.Sprint("/r", 50+i), "y")
	}
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 150 || r.Failed > 0 || len(p.said) > 0 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	for path, n := range f.Asked {
		if strings.HasPrefix(path, "/r") || n > 1 && !strings.Contains(path, "list") {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	p.want()

	f.Put("/few", "1")
	clear(f.Asked)
	p.mustSync(nil)
	if f.Asked["/set/changedump.xml"]+f.Asked["/set/changes.zip"] > 0 || f.Asked["/few"] != 1 {
		t.Errorf("asked for %v", f.Asked)
	}
	p.want()

	for i := range 200 {
		f.Put(fmt.Sprint("/s", i), "x")
	}
	f.Fault("/set/changes.zip", func(w http.ResponseWriter, _ *http.Request) bool { w.Write(changesZip(f)[:1000]); return true })
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 200 || !r.InSync() || len(p.said) != 1 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

// A resource that changes each time it is asked for is explained without the other changes
// after the cursor; these follow with the next run.
func TestExplainMakesChangesOfResourcesInTransitAlone(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	version := 0
	f.Fault("/b", func(http.ResponseWriter, *http.Request) bool {
		if version++; version > 2 {
			return false
		}
		f.Resources["/b"], f.Modified["/b"] = fmt.Sprint("b", version), f.Tick()
		for _, name := range []string{"/b", "/c"} {
			f.Resources["/c"], f.Modified["/c"] = "c", f.Now
			e := f.Entry(name)
			e.Change, e.DateTime = sitemap.Updated, f.Now
			f.Changes = append(f.Changes, e)
		}
		return false
	})
	p := newPlace(t, f)
	c, err := p.open(func(o *destination.Options) { o.Settle = -1 })
	must(t, err)
	r, err := c.Sync(t.Context())
	if err != nil || r.Sets[0].Transit != 1 || len(p.said) > 0 {
		t.Fatalf("got %+v, %v, said %q", r, err, p.said)
	}
	f.Lock(func() { delete(f.Asked, "/c") })
	f.Put("/d", "d")
	for rounds := 0; ; rounds++ {
		left, err := c.Explain(t.Context(), path.Base)
		if err != nil || rounds > 5 {
			t.Fatalf("got %v, %v", left, err)
		}
		if len(left) == 0 {
			break
		}
	}
	got := p.files()
	if got["/b"] != "b2" || got["/d"] != "" {
		t.Errorf("got %v", got)
	}
	must(t, c.Close())
	if _, all, err := destination.Standings(p.dir); err != nil || all[0].Transit != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	if r := p.mustSync(nil); r.Fetched != 1 || !r.InSync() {
		t.Errorf("got %+v", r)
	}
	p.want()
}

// newQueue returns a Source whose set is the one of a queue; number gives its changes numbers.
func newQueue(t *testing.T) (f *testSource, number func()) {
	f = newSource(t)
	const set = ".well-known/resourcesync/jobs/replica"
	f.sets(set)
	f.capabilities(set, "set", sitemap.ResourceList, sitemap.ChangeList)
	return f, func() {
		for i := range f.Changes {
			f.Changes[i].Seq, f.Changes[i].Event = uint64(i+1), "submit"
		}
	}
}

// eventsOf returns the events in the history of a copy.
func (p *place) eventsOf() (all []uint64, err error) {
	h, err := destination.OpenHistory(p.dir, "jobs/replica")
	if err != nil {
		return nil, err
	}
	defer h.Close()
	err = h.Read(func(e *sitemap.Entry) error { all = append(all, e.Seq); return nil })
	return all, err
}

// A copy of a queue keeps the changes that led to it, also some from before its baseline.
func TestHistoryOfAQueue(t *testing.T) {
	f, number := newQueue(t)
	f.Put("/a", "1")
	f.Put("/b", "1")
	number()
	p := newPlace(t, f)
	keep := func(o *destination.Options) { o.History = true }
	want := func(events ...uint64) {
		t.Helper()
		if got, err := p.eventsOf(); err != nil || !slices.Equal(got, events) {
			t.Errorf("got events %d, %v; want %d", got, err, events)
		}
	}
	p.mustSync(keep)
	f.Put("/a", "2")
	f.Remove("/b")
	number()
	p.mustSync(keep)
	want(1, 2, 3, 4)
	f.Put("/c", "1")
	number()
	p.mustSync(keep)
	p.mustSync(keep)
	want(1, 2, 3, 4, 5)
	p.want()

	files, err := filepath.Glob(filepath.Join(p.dir, ".cutie-sync/changes-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	// More than the state says is of a run that was cut off.
	must(t, os.WriteFile(files[0], append(text, "rest"...), 0o600))
	f.Put("/d", "1")
	number()
	p.mustSync(keep)
	want(1, 2, 3, 4, 5, 6)

	text[len(text)/2] ^= 1
	must(t, os.WriteFile(files[0], text, 0o600))
	if got, err := p.eventsOf(); err == nil {
		t.Errorf("damaged: got events %d", got)
	}
	// A file gone is a history that begins anew.
	must(t, os.Remove(files[0]))
	for range 2 {
		f.Put("/e", f.Now.String())
		number()
		p.mustSync(keep)
	}
	want(8)

	p.mustSync(func(o *destination.Options) { o.History, o.Exclude = true, []string{"*/f"} })
	f.Put("/f", "1")
	number()
	p.mustSync(func(o *destination.Options) { o.History, o.Exclude = true, []string{"*/f"} })
	if got, err := p.eventsOf(); !errors.Is(err, destination.ErrNoHistory) {
		t.Errorf("without some resources: got events %d, %v", got, err)
	}
}
