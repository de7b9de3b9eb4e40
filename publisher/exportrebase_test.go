package publisher_test

import (
	"archive/zip"
	"context"
	"cutie/publisher"
	"cutie/sitemap"
	"fmt"
	"html"
	"io"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestExportForAnotherSite(t *testing.T) {
	t.Parallel()
	for _, resources := range []bool{false, true} {
		t.Run(fmt.Sprint(resources), func(t *testing.T) {
			s, _ := published(t)
			const site = "https://static.test/a&b"
			e := s.newExport()
			e.BaseURI, e.Resources = site+"/", resources
			run(t, e)
			files := tree(t, e.Dir)
			path := published1
			if resources {
				path = ""
			}
			checkTree(t, files, site, path)
			moved := func(text string, spell func(string) string) string {
				text = strings.ReplaceAll(text, spell(base+published1), spell(site+published1))
				if resources {
					text = strings.ReplaceAll(text, spell(base+"/queues/"), spell(site+"/queues/"))
				}
				return text
			}
			zips := 0
			for path, got := range files {
				uri := base + strings.TrimSuffix(strings.TrimSuffix(path, "/index.xml"), "/index.html")
				want := string(s.body(uri))
				switch {
				case strings.HasSuffix(path, ".zip"):
					zips++
					a, b := unzip(t, got), unzip(t, want)
					b["manifest.xml"] = moved(b["manifest.xml"], html.EscapeString)
					if !maps.Equal(a, b) {
						t.Errorf("%s has other files", path)
					}
				case strings.Contains(path, "dump.xml"), strings.Contains(path, "/changedump-0") && !strings.HasSuffix(path, "-manifest.xml"): // see checkTree
				case strings.HasSuffix(path, ".json"):
					if got != moved(want, func(uri string) string { return uri }) {
						t.Errorf("%s is %.300s", path, got)
					}
				case got != moved(want, html.EscapeString):
					t.Errorf("%s is %.300s", path, got)
				}
				if !strings.HasSuffix(path, ".zip") && strings.Contains(got, base+published1) {
					t.Errorf("%s names documents of the source", path)
				}
			}
			if zips < 4 {
				t.Errorf("%d packages", zips)
			}
			if x := run(t, e); x != (publisher.ExportResult{}) {
				t.Errorf("nothing changed: %+v", x)
			}
			activity(s, s.queue("jobs"), 7)
			s.settle()
			run(t, e)
			checkTree(t, tree(t, e.Dir), site, path)
			again := s.newExport()
			again.BaseURI, again.Resources = site, resources
			run(t, again)
			if !maps.Equal(tree(t, again.Dir), tree(t, e.Dir)) {
				t.Error("made at once it has other octets than made in two steps")
			}
			// Back to the base URI of the source.
			e.BaseURI = ""
			run(t, e)
			if got := tree(t, e.Dir); !maps.Equal(got, s.served(got)) {
				t.Error("the tree differs from what is served")
			}
		})
	}
}

func unzip(t testing.TB, octets string) map[string]string {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(octets), int64(len(octets)))
	must(t, err)
	files := map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		must(t, err)
		data, err := io.ReadAll(in)
		must(t, err)
		files[f.Name] = string(data)
	}
	return files
}

// The documents of earlier versions are read and written again for another base URI, too.
func TestExportOfEarlierVersionsForAnotherSite(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sitemap.Dialect{sitemap.V10, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: dialect, MaxEntries: 8, Retention: publisher.Retention{Current: time.Nanosecond},
			Mirrors: []string{"https://mirror.test/m"}, Via: "https://origin.test/"}, "jobs")
		for round := range 3 {
			activity(s, s.queue("jobs"), round)
			s.settle()
			must(t, s.pub.Publish(context.Background()))
		}
		const site = "https://static.test/a&b"
		e := s.newExport()
		e.BaseURI, e.Resources = site, true
		run(t, e)
		files := tree(t, e.Dir)
		compared := 0
		for path, got := range files {
			if !strings.HasSuffix(path, ".xml") || strings.Contains(path, "dump.xml") || strings.Contains(path, "/changedump-0") || strings.Contains(path, "/resourcedump-") {
				continue
			}
			want := string(s.body(base + strings.TrimSuffix(path, "/index.xml")))
			for _, below := range []string{published1, "/queues/"} {
				want = strings.ReplaceAll(want, base+below, html.EscapeString(site)+below)
			}
			if got != want {
				t.Errorf("%v: %s is\n%.600s\nwant\n%.600s", dialect, path, got, want)
			}
			compared++
		}
		if compared < 15 {
			t.Errorf("%v: %d documents", dialect, compared)
		}
	}
}
