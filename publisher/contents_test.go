package publisher_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestCopiesOfManifestsAreMadeOnce spoils packages when each copy was asked for
// in gzip: it is there as such and as text then, and nothing is read again. What
// was never asked for cannot be given, and is not given in part.
func TestCopiesOfManifestsAreMadeOnce(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 2500}, "jobs")
	s.submitN(s.queue("jobs"), 6000) // manifests of several blocks
	must(t, s.pub.Publish(context.Background()))
	m := newMirror(s, "jobs", "replica")
	var asked, never []string
	for _, c := range []sitemap.Capability{sitemap.ResourceDump, sitemap.ChangeDump} {
		for i, e := range m.capability(c).entries {
			if url := e.Link(sitemap.RelContents); i == 0 {
				never = append(never, url)
			} else {
				asked = append(asked, url)
			}
		}
	}
	if len(asked) < 2 {
		t.Fatalf("got manifests %q", asked)
	}
	want := map[string][]byte{}
	for _, url := range asked {
		want[url] = gunzip(t, read(t, s.get(url, "Accept-Encoding", "gzip")))
	}
	zips, err := filepath.Glob(filepath.Join(s.dir, "resourcesync/jobs/replica/*.zip"))
	must(t, err)
	for _, name := range zips {
		must(t, os.Truncate(name, 20_000))
	}
	for url, want := range want {
		if got := s.body(url); !bytes.Equal(got, want) {
			t.Errorf("%s: got %d octets, want %d", url, len(got), len(want))
		}
		s.checkGzip(url)
		checkRanges(s, url, want)
	}
	for _, url := range never {
		for i, coding := range []string{"identity", "gzip", "zstd"} {
			resp := s.get(url, "Accept-Encoding", coding)
			if read(t, resp); resp.StatusCode != 503 && (i == 0 || resp.StatusCode != 410) {
				t.Errorf("%s in %s, cut off: got %s", url, coding, resp.Status)
			}
		}
	}
	if told := strings.Join(s.problems, "\n"); strings.Count(told, "moved to") != len(never) || strings.Count(told, "not served") != len(never) {
		t.Errorf("problems: %q", s.problems)
	}
}
