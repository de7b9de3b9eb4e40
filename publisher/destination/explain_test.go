package destination_test

import (
	"fmt"
	"net/http"
	"path"
	"testing"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, all, err := destination.Standings(p.dir); err != nil || all[0].Transit != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	if r := p.mustSync(nil); r.Fetched != 1 || !r.InSync() {
		t.Errorf("got %+v", r)
	}
	p.want()
}
