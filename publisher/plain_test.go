package publisher_test

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

// A plain Sitemap names what the Resource List does, by terms of sitemaps.org alone.
func TestAPlainSitemapIsTheResourceListWithoutItsTerms(t *testing.T) {
	t.Parallel()
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		for _, jobs := range []int{0, 30, 2500} {
			s := newSource(t, publisher.Options{Dialect: d, MaxEntries: 1500}, "jobs")
			q := s.queue("jobs")
			s.submitN(q, jobs)
			s.consume(q, jobs/3)
			for _, set := range []string{"pending", "replica"} {
				type entry struct {
					Loc     string `xml:"loc"`
					LastMod string `xml:"lastmod"`
				}
				var read func(url string) (all []string)
				read = func(url string) (all []string) {
					text := s.body(url)
					if bytes.Contains(text, []byte("rs:")) || bytes.Contains(text, []byte("cut:")) {
						t.Fatalf("%s has terms of ResourceSync: %.500s", url, text)
					}
					s.checkGzip(url)
					var doc struct {
						XMLName xml.Name
						URL     []entry `xml:"url"`
						Sitemap []entry `xml:"sitemap"`
					}
					must(t, xml.Unmarshal(text, &doc))
					if doc.XMLName.Space != sitemap.Namespace {
						t.Errorf("%s: root %v", url, doc.XMLName)
					}
					for _, e := range doc.Sitemap {
						all = append(all, read(e.Loc)...)
					}
					for _, e := range doc.URL {
						all = append(all, e.Loc+" "+e.LastMod)
					}
					return all
				}
				m := newMirror(s, "jobs", set)
				var want []string
				list := m.capability(sitemap.ResourceList)
				pages := []document{list}
				if list.root == sitemap.SitemapIndex {
					pages = nil
					for _, e := range list.entries {
						pages = append(pages, s.document(e.Loc))
					}
				}
				for _, p := range pages {
					for _, e := range p.entries {
						want = append(want, e.Loc+" "+string(sitemap.AppendTime(nil, e.LastMod)))
					}
				}
				url := s.doc(q, set, "sitemap.xml")
				if len(want) == 0 { // sitemaps.org wants an entry
					if resp := s.get(url); resp.StatusCode != 404 {
						t.Errorf("%s without an entry: %s", url, resp.Status)
					}
					s.submitN(q, 1)
					continue
				}
				if got := read(url); !slices.Equal(got, want) {
					t.Errorf("%s of %d jobs: got %d entries, want %d", set, jobs, len(got), len(want))
				}
				tag := s.get(url).Header.Get("ETag")
				s.submitN(q, 1)
				if now := s.get(url).Header.Get("ETag"); now == tag || tag == "" || strings.HasPrefix(now, "W/") {
					t.Errorf("%s: tag %s, then %s", set, tag, now)
				}
			}
		}
	}
}
