package source_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination/fetch"
	"cutie/publisher/destination/source"
	"cutie/queuefs/outbound"
	"cutie/wellknown"
)

const (
	plainSitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://s.org/a</loc></url></urlset>`
	description  = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="description"/><url><loc>SITE/sets.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`
)

var loopback, _ = outbound.NewAddresses([]string{"127.0.0.1"})

// A site names a plain Sitemap in its robots.txt. It is taken where no other Source is, and
// not in place of one that gives no answer.
func TestAnotherSourceIsNoSubstitute(t *testing.T) {
	for _, tt := range []struct {
		name   string
		path   string         // of the URL
		failed map[string]int // statuses by path
		times  int            // how often they fail
		want   string         // part of the error, or else By
	}{
		{"nothing else", "/page", nil, 0, "robots.txt"},
		{"there is none", "/page", map[string]int{wellknown.Path: 404, "/page": 404}, 9, "robots.txt"},
		{"a static site", "/page", map[string]int{wellknown.Path: 403}, 9, "robots.txt"},
		{"a Source that fails once", "/page", map[string]int{wellknown.Path: 503}, 1, string(wellknown.ByWellKnown)},
		{"a Source that fails", "/page", map[string]int{wellknown.Path: 503}, 9, "503"},
		{"a private Source", "/", map[string]int{wellknown.Path: 401}, 9, "401"},
		{"a private URL", "/page", map[string]int{"/page": 401}, 9, "401"},
		{"a forbidden URL", "/page", map[string]int{"/page": 403}, 9, "403"},
		{"a page that fails", "/page", map[string]int{"/page": 502}, 9, "502"},
		{"a Sitemap beside a failure", "/map.xml", map[string]int{wellknown.Path: 503}, 9, string(wellknown.ByDocument)},
	} {
		asked := map[string]int{}
		var site *httptest.Server
		site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[r.URL.Path]++
			if status := tt.failed[r.URL.Path]; status > 0 && asked[r.URL.Path] <= tt.times {
				w.WriteHeader(status)
				return
			}
			switch r.URL.Path {
			case "/robots.txt":
				io.WriteString(w, "Sitemap: "+site.URL+"/map.xml\n")
			case "/map.xml":
				io.WriteString(w, plainSitemap)
			case wellknown.Path:
				if tt.want == string(wellknown.ByWellKnown) {
					io.WriteString(w, strings.ReplaceAll(description, "SITE", site.URL))
					return
				}
				fallthrough
			default:
				http.NotFound(w, r)
			}
		}))
		s, err := source.Find(t.Context(), fetch.New(fetch.Options{Addresses: loopback, Tries: 2, Pause: time.Millisecond}), site.URL+tt.path)
		switch {
		case err != nil && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: got %v", tt.name, err)
		case err == nil && string(s.By) != tt.want:
			t.Errorf("%s: found by %q, want %q", tt.name, s.By, tt.want)
		}
		if got := asked["/robots.txt"]; err != nil && got > 0 {
			t.Errorf("%s: robots.txt was asked for %d times", tt.name, got)
		}
		site.Close()
	}
}

// A missing server ends the search at once.
func TestNoServer(t *testing.T) {
	site := httptest.NewServer(nil)
	site.Close()
	client := fetch.New(fetch.Options{Addresses: loopback, Tries: 2, Pause: time.Millisecond})
	_, err := source.Find(t.Context(), client, site.URL)
	requests, _ := client.Counts()
	if err == nil || !strings.Contains(err.Error(), wellknown.ErrNoAnswer.Error()) || requests > 4 {
		t.Errorf("%d requests, %v", requests, err)
	}
}
