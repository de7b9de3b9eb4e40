package publisher_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

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
