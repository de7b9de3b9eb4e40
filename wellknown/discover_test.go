package wellknown_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/sitemap"
	"cutie/wellknown"
)

// site answers with its bodies by path. A body with a blank line has header
// fields before it.
type site map[string]string

func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, ok := s[r.URL.RequestURI()]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if head, rest, ok := strings.Cut(body, "\n\n"); ok {
		for field := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(field), ": ")
			w.Header().Add(name, value)
		}
		body = rest
	}
	if to := w.Header().Get("Location"); to != "" {
		w.WriteHeader(http.StatusFound)
	}
	io.WriteString(w, body)
}

// document returns a ResourceSync document with a link up, if that is not
// empty, and one entry for each location.
func document(root sitemap.Root, c sitemap.Capability, up string, locs ...string) string {
	h := sitemap.Head{Capability: c}
	if c == sitemap.ResourceList {
		h.At = time.Unix(1_700_000_000, 0)
	}
	if up != "" {
		h.Links = []sitemap.Link{{Rel: sitemap.RelUp, Href: up}}
	}
	text := sitemap.AppendHead(nil, root, h)
	for _, loc := range locs {
		text = sitemap.AppendEntry(text, root, &sitemap.Entry{Loc: loc, Length: -1})
	}
	return "Content-Type: application/xml\n\n" + string(sitemap.AppendFoot(text, root))
}

const plainSitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>/</loc></url></urlset>`

func TestDiscover(t *testing.T) {
	const (
		list  = sitemap.URLSet
		index = sitemap.SitemapIndex
	)
	capabilityList := document(list, sitemap.CapabilityList, "/description.xml")
	for _, tt := range []struct {
		name, path string
		site       site
		want       wellknown.Discovery
	}{
		{
			"well-known URI", "/dir/resource",
			site{wellknown.Path: document(list, sitemap.Description, "", "/c1.xml", "c2.xml", "/c1.xml")},
			wellknown.Discovery{
				By: wellknown.ByWellKnown, Description: wellknown.Path,
				CapabilityLists: []string{"/c1.xml", "/.well-known/c2.xml"},
			},
		},
		{
			"description without sets", "/",
			site{wellknown.Path: document(list, sitemap.Description, "")},
			wellknown.Discovery{By: wellknown.ByWellKnown, Description: wellknown.Path},
		},
		{
			"redirect", "",
			site{wellknown.Path: "Location: /sync/d.xml\n\n", "/sync/d.xml": document(list, sitemap.Description, "", "c.xml")},
			wellknown.Discovery{
				By: wellknown.ByWellKnown, Description: wellknown.Path, CapabilityLists: []string{"/sync/c.xml"},
			},
		},
		{
			"index of descriptions", "/",
			site{
				wellknown.Path: document(index, sitemap.Description, "", "/d1.xml", "/gone.xml", "/d2.xml"),
				"/d1.xml":      document(list, sitemap.Description, "", "/c1.xml"),
				"/d2.xml":      document(list, sitemap.Description, "", "/c2.xml"),
			},
			wellknown.Discovery{
				By: wellknown.ByWellKnown, Description: wellknown.Path, CapabilityLists: []string{"/c1.xml", "/c2.xml"},
			},
		},
		{
			"capability list at the well-known URI", "/",
			site{wellknown.Path: capabilityList},
			wellknown.Discovery{
				By: wellknown.ByWellKnown, Description: "/description.xml", CapabilityLists: []string{wellknown.Path},
			},
		},
		{
			"link header", "/dir/resource",
			site{
				"/dir/resource": "Link: <gone.xml>; rel=resourcesync, <c.xml>; rel=resourcesync\nContent-Type: text/html\n\n" +
					"<link rel=resourcesync href=/other.xml>",
				"/dir/c.xml": capabilityList,
				"/other.xml": capabilityList,
			},
			wellknown.Discovery{
				By: wellknown.ByLinkHeader, Description: "/description.xml", CapabilityLists: []string{"/dir/c.xml"},
			},
		},
		{
			"HTML link and a page for every address", "/page",
			site{
				wellknown.Path: "Content-Type: text/html\n\n<p>not found",
				"/page":        "Content-Type: text/html; charset=utf-8\n\n<head><link rel=resourcesync href=c.xml>",
				"/c.xml":       document(list, sitemap.CapabilityList, ""),
			},
			wellknown.Discovery{By: wellknown.ByHTMLLink, CapabilityLists: []string{"/c.xml"}},
		},
		{
			"document", "/part.xml",
			site{"/part.xml": document(list, sitemap.ResourceList, "/c.xml"), "/c.xml": capabilityList},
			wellknown.Discovery{By: wellknown.ByDocument, Description: "/description.xml", CapabilityLists: []string{"/c.xml"}},
		},
		{
			"robots.txt", "/gone",
			site{
				"/robots.txt": wellknown.RobotsLine("/plain.xml") + wellknown.RobotsLine("/r1.xml") + wellknown.RobotsLine("/r2.xml"),
				"/plain.xml":  plainSitemap,
				"/r1.xml":     document(index, sitemap.ResourceList, "/c1.xml"),
				"/r2.xml":     document(list, sitemap.ResourceList, "/c2.xml"),
				"/c1.xml":     capabilityList,
				"/c2.xml":     capabilityList,
			},
			wellknown.Discovery{
				By: wellknown.ByRobots, Description: "/description.xml", CapabilityLists: []string{"/c1.xml", "/c2.xml"},
				Lists: []string{"/plain.xml"},
			},
		},
		{
			"plain Sitemaps in robots.txt", "/dir/page",
			site{
				"/robots.txt": "sitemap:/s1.xml\nSITEMAP : s2.xml # two\nSitemap: /s1.xml\n",
				"/s1.xml":     plainSitemap,
				"/s2.xml":     document(index, sitemap.ResourceList, ""),
			},
			wellknown.Discovery{By: wellknown.ByRobots, Lists: []string{"/s1.xml", "/s2.xml"}},
		},
		{
			"plain Sitemap", "/map.xml",
			site{"/map.xml": plainSitemap, "/robots.txt": "Sitemap: /s1.xml\n", "/s1.xml": plainSitemap},
			wellknown.Discovery{By: wellknown.ByDocument, Lists: []string{"/map.xml"}},
		},
		{
			"usual place", "/page",
			site{"/sitemap.xml": plainSitemap, wellknown.Path: plainSitemap},
			wellknown.Discovery{By: wellknown.BySitemap, Lists: []string{"/sitemap.xml"}},
		},
		{
			"capability list index", "/",
			site{wellknown.Path: document(index, sitemap.CapabilityList, "", "/c1.xml")},
			wellknown.Discovery{By: wellknown.ByWellKnown, Description: wellknown.Path, CapabilityLists: []string{"/c1.xml"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(tt.site)
			defer srv.Close()
			got, err := wellknown.Discover(t.Context(), srv.Client(), srv.URL+tt.path)
			if err != nil {
				t.Fatal(err)
			}
			got.Description = strings.TrimPrefix(got.Description, srv.URL)
			if !strings.HasPrefix(got.At, srv.URL+"/") {
				t.Errorf("found at %q", got.At)
			}
			got.At = ""
			for _, lists := range [][]string{got.CapabilityLists, got.Lists} {
				for i, c := range lists {
					lists[i] = strings.TrimPrefix(c, srv.URL)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestDiscoverFindsNothing(t *testing.T) {
	manyRobots := ""
	for i := range 5000 {
		manyRobots += wellknown.RobotsLine(fmt.Sprintf("/%d.xml", i))
	}
	for name, s := range map[string]site{
		"nothing there":     {},
		"endless redirects": {wellknown.Path: "Location: " + wellknown.Path + "\n\n", "/": "Location: /\n\n"},
		"up in a circle": {
			"/":      document(sitemap.URLSet, sitemap.ChangeList, "/r.xml"),
			"/r.xml": document(sitemap.URLSet, sitemap.ChangeList, "/"),
		},
		"no link up":        {"/": document(sitemap.URLSet, sitemap.ChangeList, "")},
		"too many sitemaps": {"/robots.txt": manyRobots},
	} {
		requests := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			s.ServeHTTP(w, r)
		}))
		got, err := wellknown.Discover(t.Context(), srv.Client(), srv.URL)
		srv.Close()
		if !errors.Is(err, wellknown.ErrNotFound) || !reflect.DeepEqual(got, wellknown.Discovery{}) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if requests > 1050 {
			t.Errorf("%s: %d requests", name, requests)
		}
	}
}

func TestDiscoverHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	_, err := wellknown.Discover(ctx, srv.Client(), srv.URL)
	if !errors.Is(err, context.Canceled) || errors.Is(err, wellknown.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestDiscoverRefusesURLs(t *testing.T) {
	for _, u := range []string{"", "example.com", "/path", "file:///etc/passwd", "http:///x", "http://\x00"} {
		if _, err := wellknown.Discover(t.Context(), nil, u); err == nil || errors.Is(err, wellknown.ErrNotFound) {
			t.Errorf("%q: got %v", u, err)
		}
	}
}

// What robots.txt names, and is no list, is said; what gives no answer now stays a list, so
// that nobody takes its resources for gone.
func TestRobotsNamesOtherThings(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy.xml" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		site{
			"/robots.txt": "Sitemap: /feed\nSitemap: /gone.xml\nSitemap: /busy.xml\nSitemap: /s1.xml\n",
			"/feed":       `<rss/>`,
			"/s1.xml":     plainSitemap,
		}.ServeHTTP(w, r)
	}))
	defer srv.Close()
	got, err := wellknown.Discover(t.Context(), srv.Client(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	refused := fmt.Sprint(got.Refused)
	if want := []string{srv.URL + "/s1.xml", srv.URL + "/busy.xml"}; !reflect.DeepEqual(got.Lists, want) || len(got.Refused) != 2 ||
		!strings.Contains(refused, "/feed: ") || !strings.Contains(refused, "<rss>") || !strings.Contains(refused, "/gone.xml: 404") {
		t.Errorf("got %q and refused %v", got.Lists, refused)
	}
}

// A document that is there and cannot be read is the reason, not what is missing in other
// places.
func TestARefusedDocumentIsTheReason(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/", `/sitemap.xml: line 1: root is <urlset> in namespace "https://www.sitemaps.org/schemas/sitemap/0.9"`},
		{"/odd.xml", `/odd.xml: line 1: xml: opening charset "EBCDIC": encoding EBCDIC is not read`},
	} {
		srv := httptest.NewServer(site{
			"/":            "Content-Type: text/html\n\n<p>home",
			"/sitemap.xml": "Content-Type: application/xml\n\n" + strings.Replace(plainSitemap, "http:", "https:", 1),
			"/odd.xml":     "Content-Type: application/xml\n\n" + `<?xml version="1.0" encoding="EBCDIC"?>` + plainSitemap,
		})
		_, err := wellknown.Discover(t.Context(), srv.Client(), srv.URL+tt.path)
		srv.Close()
		if err == nil || !errors.Is(err, wellknown.ErrNotFound) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "404") {
			t.Errorf("%s: got %v", tt.path, err)
		}
	}
}

func TestNormalURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"http://s.org":                         "http://s.org/",
		"HTTP://S.Org:80/A?B":                  "http://s.org/A?B",
		"https://s.org:443?q":                  "https://s.org/?q",
		"https://s.org:80/":                    "https://s.org:80/",
		"http://s.org:/a":                      "http://s.org/a",
		"http://s.org:8080#f":                  "http://s.org:8080/#f",
		"http://Bücher.example/ü?ü":            "http://xn--bcher-kva.example/%C3%BC?%C3%BC",
		"http://b%C3%BCcher.example/":          "http://xn--bcher-kva.example/",
		"http://[2001:DB8::1]:80/":             "http://[2001:db8::1]/",
		"http://s.org/%7euser/%2f%c3%bc/a%2Fb": "http://s.org/~user/%2F%C3%BC/a%2Fb",
		"http://s.org/x/../a/./b/..":           "http://s.org/a/",
		"http://s.org/../a/%2e%2E/b":           "http://s.org/b",
		"http://s.org//a//b/":                  "http://s.org//a//b/",
		"http://s.org/a b^c|d[1]?x=%zz&y=a b":  "http://s.org/a%20b%5Ec%7Cd[1]?x=%25zz&y=a%20b",
		"http://U:p@S.org/":                    "http://U:p@s.org/",
		"http://s.org/a?b=/../c":               "http://s.org/a?b=/../c",
		"http://my_host/":                      "http://my_host/",
		"urn:A:B":                              "urn:A:B",
		"ftp://S/":                             "ftp://S/",
	} {
		got, err := wellknown.Normal(uri)
		if got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", uri, got, err, want)
			continue
		}
		if again, err := wellknown.Normal(got); again != got || err != nil {
			t.Errorf("%s: again %q, %v", got, again, err)
		}
	}
	for _, uri := range []string{"http://s.org/100%", "http://a\x00/", "http://s.org:x/"} {
		if got, err := wellknown.Normal(uri); err == nil {
			t.Errorf("%q: got %q", uri, got)
		}
	}
}
