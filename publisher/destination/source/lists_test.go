package source_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination/fetch"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// resources returns the last segments of all resources of the one set of a site whose
// documents are given by path; in them SITE stands for its URL.
func resources(t *testing.T, documents map[string]string) (string, time.Time, error) {
	t.Helper()
	var site *httptest.Server
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, strings.ReplaceAll(text, "SITE", site.URL))
	}))
	defer site.Close()
	found, err := source.Find(t.Context(), fetch.New(fetch.Options{Origin: site.URL, Tries: 1}), site.URL)
	if err != nil {
		t.Fatal(err)
	}
	set, err := found.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	at, err := set.Resources(t.Context(), func(e *sitemap.Entry, _ time.Time) error {
		got = append(got, strings.TrimPrefix(e.Loc, site.URL+"/"))
		return nil
	})
	return strings.Join(got, " "), at, err
}

func list(at string, names ...string) string  { return listOf("urlset", "url", at, names) }
func index(at string, names ...string) string { return listOf("sitemapindex", "sitemap", at, names) }

func listOf(root, entry, at string, names []string) string {
	text := `<` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	if at != "" {
		text += `<rs:md capability="resourcelist" at="` + at + `"/>`
	}
	for _, n := range names {
		text += fmt.Sprintf("<%s><loc>SITE/%s</loc></%[1]s>", entry, n)
	}
	return text + "</" + root + ">"
}

func TestAllListsAreRead(t *testing.T) {
	deep := map[string]string{"/sitemap.xml": index("", "d0")}
	for i := range 9 {
		deep[fmt.Sprintf("/d%d", i)] = index("", fmt.Sprintf("d%d", i+1))
	}
	for name, tt := range map[string]struct {
		documents map[string]string
		want, at  string // or part of the error
		err       string
	}{
		"two in robots.txt": {map[string]string{"/robots.txt": "Sitemap: s1.xml\nSitemap: SITE/s2.xml\n",
			"/s1.xml": list("2026-01-02T00:00:00Z", "a", "b"), "/s2.xml": list("2026-01-01T00:00:00Z", "c")}, "a b c", "2026-01-01", ""},
		"an index in an index": {map[string]string{"/sitemap.xml": index("", "i2.xml", "s1.xml"), "/i2.xml": index("", "s2.xml", "s1.xml"),
			"/s1.xml": list("", "a"), "/s2.xml": list("", "b")}, "b a", "0001-01-01", ""},
		"an index of a time": {map[string]string{"/sitemap.xml": index("2026-01-03T00:00:00Z", "i2.xml"), "/i2.xml": index("2026-01-02T00:00:00Z", "s1.xml"),
			"/s1.xml": list("2026-01-01T00:00:00Z", "a")}, "a", "2026-01-03", ""},
		"an index in itself": {map[string]string{"/sitemap.xml": index("", "sitemap.xml", "s1.xml"), "/s1.xml": list("", "a")}, "a", "0001-01-01", ""},
		"an endless index":   {deep, "", "", "/d3: an index in more than 4 others"},
		"one is missing":     {map[string]string{"/sitemap.xml": index("", "s1.xml", "s2.xml"), "/s1.xml": list("", "a")}, "", "", "/s2.xml: 404"},
	} {
		got, at, err := resources(t, tt.documents)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", name, err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want || at.Format(time.DateOnly) != tt.at {
			t.Errorf("%s: got %q of %v, %v; want %q of %s", name, got, at, err, tt.want, tt.at)
		}
	}
}

// Equal URIs are one resource.
func TestLocationsAreNormal(t *testing.T) {
	got, _, err := resources(t, map[string]string{"/sitemap.xml": list("", "%7ea", "x/../~a", "ü", "b")})
	if want := "~a ~a %C3%BC b"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
