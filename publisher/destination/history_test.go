package destination_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// newQueue returns a Source whose set is the one of a queue; number gives its changes numbers.
func newQueue(t *testing.T) (f *testSource, number func()) {
	f = newSource(t)
	const list = "/.well-known/resourcesync/jobs/replica/capabilitylist.xml"
	f.Fault("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, []sitemap.Entry{{Loc: f.URL + list, Capability: sitemap.CapabilityList, Length: -1}})
		return true
	})
	f.Fault(list, func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList}, []sitemap.Entry{
			{Loc: f.URL + "/set/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1},
			{Loc: f.URL + "/set/changelist.xml", Capability: sitemap.ChangeList, Length: -1}})
		return true
	})
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
	if err != nil {
		t.Fatal(err)
	}
	// More than the state says is of a run that was cut off.
	if err := os.WriteFile(files[0], append(text, "rest"...), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Put("/d", "1")
	number()
	p.mustSync(keep)
	want(1, 2, 3, 4, 5, 6)

	text[len(text)/2] ^= 1
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := p.eventsOf(); err == nil {
		t.Errorf("damaged: got events %d", got)
	}
	// A file gone is a history that begins anew.
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
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
