package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// published returns the URLs of one document of each kind, closed ones and
// packages among them, of a source whose last event was long ago.
func published(t *testing.T) (*source, []string) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{MaxEntries: 9, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	for round := range 5 {
		activity(s, q, round)
	}
	s.settle()
	now = now.Add(time.Minute)
	urls := []string{base + "/.well-known/resourcesync"}
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		urls = append(urls, m.list, s.doc(q, set, "resourcelist-000001.xml"), s.doc(q, set, "changelist.xml"))
		for _, e := range s.document(m.list).entries {
			urls = append(urls, e.Loc)
		}
		urls = append(urls, m.capability(sitemap.ChangeList).entries[0].Loc, m.capability(sitemap.ChangeDump).entries[0].Loc)
	}
	return s, urls
}

func TestConditionalRequestsAreAnswered304(t *testing.T) {
	s, urls := published(t)
	for _, url := range urls {
		for _, coding := range []string{"identity", "gzip"} {
			resp := s.get(url, "Accept-Encoding", coding)
			body := read(t, resp)
			tag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
			if tag == "" || strings.HasPrefix(tag, "W/") || len(body) == 0 {
				t.Errorf("%s: ETag %s, %d octets", url, tag, len(body))
			}
			for _, c := range []struct {
				name, value string
				want        int
			}{
				{"If-None-Match", tag, 304},
				{"If-None-Match", `"x", W/` + tag, 304},
				{"If-None-Match", "*", 304},
				{"If-None-Match", `"x"`, 200},
				{"If-Match", `"x"`, 412},
				{"If-Modified-Since", modified, 304},
				{"If-Modified-Since", "Sat, 01 Jan 2022 00:00:00 GMT", 200},
			} {
				if c.value == "" || c.name == "If-Modified-Since" && modified == "" {
					continue
				}
				resp := s.get(url, "Accept-Encoding", coding, c.name, c.value)
				got := read(t, resp)
				if want := "not this document: it is not in the state that If-Match or If-Unmodified-Since asks for\n"; c.want == 412 && string(got) != want {
					t.Errorf("%s: got %q, want %q", url, got, want)
				}
				if resp.StatusCode == 412 && (resp.Header.Get("Cache-Control") != "" || resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")) {
					t.Errorf("%s: %s: got %v", url, resp.Status, resp.Header)
				}
				if resp.StatusCode != c.want || c.want == 304 && len(got) > 0 || c.want == 200 && !bytes.Equal(got, body) {
					t.Errorf("%s %s: %s: got %s and %d octets, want %d", url, c.name, c.value, resp.Status, len(got), c.want)
				}
				if resp.Header.Get("ETag") != tag {
					t.Errorf("%s %s: ETag %s, not %s", url, c.name, resp.Header.Get("ETag"), tag)
				}
			}
		}
	}
}

func TestFormsOfADocument(t *testing.T) {
	s, urls := published(t)
	for _, url := range urls {
		plain := s.get(url)
		body := read(t, plain)
		zip := strings.HasSuffix(url, ".zip")
		wantType := "application/xml"
		if zip {
			wantType = "application/zip"
		}
		if got := plain.Header.Get("Content-Type"); got != wantType {
			t.Errorf("%s: Content-Type %q", url, got)
		}
		if got := plain.Header.Get("Vary"); (got == "Accept-Encoding") == zip {
			t.Errorf("%s: Vary %q", url, got)
		}
		if plain.Header.Get("Content-Encoding") != "" || plain.ContentLength != int64(len(body)) {
			t.Errorf("%s: Content-Encoding %q, length %d of %d", url, plain.Header.Get("Content-Encoding"), plain.ContentLength, len(body))
		}
		for _, accept := range []string{"gzip", "br, x-gzip;q=0.5", "GZIP ; q=1.0"} {
			packed := s.get(url, "Accept-Encoding", accept)
			octets := read(t, packed)
			if zip {
				if packed.Header.Get("Content-Encoding") != "" || !bytes.Equal(octets, body) {
					t.Errorf("%s: package compressed", url)
				}
				continue
			}
			if packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Content-Length") != fmt.Sprint(len(octets)) {
				t.Errorf("%s: Content-Encoding %q, length %s of %d", url, packed.Header.Get("Content-Encoding"), packed.Header.Get("Content-Length"), len(octets))
			}
			if packed.Header.Get("ETag") == plain.Header.Get("ETag") {
				t.Errorf("%s: both forms have one entity tag", url)
			}
			head := s.do(http.MethodHead, url, "Accept-Encoding", accept)
			if got := read(t, head); len(got) > 0 || head.Header.Get("Content-Length") != fmt.Sprint(len(octets)) || head.Header.Get("ETag") != packed.Header.Get("ETag") {
				t.Errorf("%s: HEAD %v", url, head.Header)
			}
			checkRanges(s, url, octets, "Accept-Encoding", accept)
		}
		for _, refuse := range []string{"", "gzip;q=0", "gzip; q=0.000", "*", "br"} {
			if got := s.get(url, "Accept-Encoding", refuse).Header.Get("Content-Encoding"); got != "" {
				t.Errorf("%s: Accept-Encoding %q gets %s", url, refuse, got)
			}
		}
		checkRanges(s, url, body)
	}
}

func checkRanges(s *source, url string, body []byte, header ...string) {
	s.Helper()
	n := len(body)
	tag := s.get(url, header...).Header.Get("ETag")
	for _, r := range [][2]int{{0, 0}, {1, n / 2}, {n / 3, n - 1}, {n - 1, n - 1}} {
		resp := s.get(url, append(header, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[1]), "If-Range", tag)...)
		if got := read(s, resp); resp.StatusCode != 206 || !bytes.Equal(got, body[r[0]:r[1]+1]) {
			s.Errorf("%s: range %v: %s, %d octets", url, r, resp.Status, len(got))
		}
	}
	resp := s.get(url, append(header, "Range", "bytes=1-2", "If-Range", `"other"`)...)
	if got := read(s, resp); resp.StatusCode != 200 || !bytes.Equal(got, body) {
		s.Errorf("%s: If-Range with another tag: %s", url, resp.Status)
	}
	for _, r := range []string{fmt.Sprintf("bytes=%d-", n), "bytes=-0"} {
		resp := s.get(url, append(header, "Range", r, "If-Range", tag)...)
		if got, want := resp.Header.Get("Content-Range"), fmt.Sprintf("bytes */%d", n); resp.StatusCode != 416 || got != want {
			s.Errorf("%s: range %s: %s, %s, want %s", url, r, resp.Status, got, want)
		}
	}
	for _, r := range []string{"items=0-1", "bytes=x"} {
		resp := s.get(url, append(header, "Range", r)...)
		if got := read(s, resp); resp.StatusCode != 200 || !bytes.Equal(got, body) {
			s.Errorf("%s: range %s: %s, %d octets", url, r, resp.Status, len(got))
		}
	}
}

// Each range of a document is looked for anew: what a few lines ask for must not
// take seconds.
func TestManyRangesAreOne(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.submitN(s.queue("jobs"), 20)
	url := s.doc(s.queue("jobs"), "replica", "resourcelist.xml")
	whole := s.body(url)
	for n, want := range map[int]int{2: 206, 16: 206, 17: 200, 2000: 200} {
		var ranges []string
		for i := range n {
			ranges = append(ranges, fmt.Sprintf("%d-%d", 2*i, 2*i))
		}
		resp := s.get(url, "Range", "bytes="+strings.Join(ranges, ","))
		if got := read(s, resp); resp.StatusCode != want || want == 200 && !bytes.Equal(got, whole) {
			t.Errorf("%d ranges: got %s and %d octets, want %d", n, resp.Status, len(got), want)
		}
	}
}

func TestEntityTagsChangeWithTheContent(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 50}, "jobs")
	q := s.queue("jobs")
	var urls []string
	for _, set := range []string{"pending", "replica"} {
		for _, name := range []string{"capabilitylist", "resourcelist", "resourcelist-000001", "changelist", "changelist-index", "changedump"} {
			urls = append(urls, s.doc(q, set, name+".xml"))
		}
	}
	seen := map[string]string{} // content by URL and tag
	was := map[string]string{}  // tag by URL and content
	look := func() {
		t.Helper()
		for _, url := range urls {
			resp := s.get(url)
			body, tag := string(read(t, resp)), resp.Header.Get("ETag")
			if old, ok := seen[url+tag]; ok && old != body {
				t.Errorf("%s: tag %s stands for two states", url, tag)
			}
			if old, ok := was[url+body]; ok && old != tag {
				t.Errorf("%s: one state has the tags %s and %s", url, old, tag)
			}
			seen[url+tag], was[url+body] = body, tag
		}
	}
	look()
	for round := range 12 {
		activity(s, q, round)
		look()
		if round%4 == 0 {
			s.settle()
			look()
		}
		if round == 6 {
			s.reopen()
			q = s.queue("jobs")
			look()
		}
	}
}

func TestLastModifiedWaitsUntilItsSecondIsOver(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 200_000_000, time.UTC)
	s := newSource(t, publisher.Options{Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1)
	url := s.doc(q, "pending", "changelist.xml")
	if got := s.get(url).Header.Get("Last-Modified"); got != "" {
		t.Errorf("Last-Modified %q within the second", got)
	}
	since := "Sun, 01 Mar 2026 12:00:00 GMT"
	if got := s.get(url, "If-Modified-Since", since).StatusCode; got != 200 {
		t.Errorf("within the second: %d", got)
	}
	now = now.Add(5 * time.Second)
	if got := s.get(url).Header.Get("Last-Modified"); got != since {
		t.Errorf("Last-Modified %q", got)
	}
	if got := s.get(url, "If-Modified-Since", since).StatusCode; got != 304 {
		t.Errorf("later: %d", got)
	}
}

func TestOnlyNamesThatAreWrittenAreFound(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9}, "jobs", "a^20b")
	for round := range 3 {
		activity(s, s.queue("jobs"), round)
	}
	s.settle()
	for path, want := range map[string]int{
		"":                                                           200,
		"/":                                                          404,
		"x":                                                          404,
		"/jobs":                                                      404,
		"/jobs/pending":                                              404,
		"/jobs/pending/":                                             404,
		"/jobs/pending/changelist.xml":                               200,
		"/jobs/pending/changelist.xml/":                              404,
		"/jobs/pending/CHANGELIST.xml":                               404,
		"/jobs/pending/changelist":                                   404,
		"/jobs/Pending/changelist.xml":                               404,
		"/jobs/consumed/changelist.xml":                              404,
		"/jobs%2Fpending%2Fchangelist.xml":                           404,
		"/jobs/pending%2Fchangelist.xml":                             404,
		"/j%6Fbs/pending/changelist.xml":                             200,
		"/jobs/pending/resourcelist-000001.xml":                      200,
		"/jobs/pending/resourcelist-1.xml":                           404,
		"/jobs/pending/resourcelist-000000.xml":                      404,
		"/jobs/pending/resourcelist-000002.xml":                      404,
		"/jobs/pending/resourcelist-+00001.xml":                      404,
		"/jobs/pending/changelist-000000000001.xml":                  200,
		"/jobs/pending/changelist-000000000002.xml":                  404,
		"/jobs/pending/changelist-1.xml":                             404,
		"/jobs/pending/changelist-000000000001.entries":              404,
		"/jobs/pending/changelist-000000000001.gz":                   404,
		"/jobs/pending/changedump-000000000001.zip":                  200,
		"/jobs/pending/changedump-000000000002.zip":                  404,
		"/jobs/pending/lists":                                        404,
		"/jobs/pending/..%2F..%2Fcursor":                             404,
		"/../resourcesync/jobs/pending/changelist.xml":               404,
		"/a%5E20b/pending/changelist.xml":                            200,
		"/a%20b/pending/changelist.xml":                              404,
		"/none/pending/changelist.xml":                               404,
		"/%00/pending/changelist.xml":                                404,
		"/" + strings.Repeat("x", 10000) + "/pending/changelist.xml": 404,
		"/description-000001.xml":                                    200,
		"/description-000002.xml":                                    404,
		"/description-1.xml":                                         404,
	} {
		resp := s.get(base + "/.well-known/resourcesync" + path)
		if resp.StatusCode != want {
			t.Errorf("%.80s: %s, want %d", path, resp.Status, want)
		}
		if want == 404 && resp.Header.Get("Cache-Control") != "" {
			t.Errorf("%.80s: Cache-Control %q", path, resp.Header.Get("Cache-Control"))
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		resp := s.do(method, base+"/.well-known/resourcesync")
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s, Allow %q", method, resp.Status, resp.Header.Get("Allow"))
		}
	}
}

func TestDocumentsOverARealConnection(t *testing.T) {
	s, urls := published(t)
	server := httptest.NewServer(s)
	defer server.Close()
	for _, url := range urls {
		resp, err := server.Client().Get(server.URL + strings.TrimPrefix(url, base)) // asks for gzip by itself
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(t, err)
		if want := s.body(url); !bytes.Equal(got, want) {
			t.Errorf("%s: %d octets, want %d", url, len(got), len(want))
		}
	}
}

func TestSourceDescriptionOfManyQueues(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 5})
	root := base + "/.well-known/resourcesync"
	if d := s.document(root); len(d.entries) != 0 || d.head.Capability != sitemap.Description {
		t.Errorf("without queues: %+v", d)
	}
	var want []string
	for i := range 7 {
		q := s.queue(fmt.Sprintf("q%d", i))
		want = append(want, s.doc(q, "pending", "capabilitylist.xml"), s.doc(q, "replica", "capabilitylist.xml"))
		d := s.document(root)
		var got []string
		lists := []document{d}
		if len(want) > 5 {
			lists = nil
			if d.root != sitemap.SitemapIndex {
				t.Errorf("%d sets in a %s", len(want), d.root)
			}
			for _, e := range d.entries {
				lists = append(lists, s.document(e.Loc))
			}
		}
		for _, l := range lists {
			for _, e := range l.entries {
				got = append(got, e.Loc)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("named are %q, want %q", got, want)
		}
	}
}

func TestBaseURI(t *testing.T) {
	for _, bad := range []string{"", "/", "localhost:8080", "ftp://x/", "http://", "http://u:p@x/", "http://x/?q", "http://x/#f", "http://x/" + strings.Repeat("y", 2000)} {
		s := newSource(t, publisher.Options{})
		if _, err := publisher.New(s.svc, publisher.Options{BaseURI: bad}); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
	for _, good := range []string{"http://x", "http://x/", "https://x:8443/a/b%20c/", "http://x/" + strings.Repeat("long/", 190)} {
		s := newSource(t, publisher.Options{BaseURI: good, MaxEntries: 2000}, "j^5eobs")
		q := s.queue("j^5eobs")
		s.submitN(q, 10)
		m := newMirror(s, "j%5E5eobs", "replica")
		m.baseline()
		m.since = q.Info().Created
		m.files = map[string]string{}
		m.incremental(nil)
		want := strings.TrimSuffix(good, "/") + "/queues/j%5E5eobs/pending/j000000000001"
		if m.files[want] == "" {
			t.Errorf("%.60s: no %.200s", good, want)
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	for _, o := range []publisher.Options{
		{MaxEntries: 1}, {MaxEntries: 50_001}, {MaxEntries: -1}, {MaxBytes: 1000}, {MaxBytes: 50_000_001}, {MaxBytes: -1},
		{MaxPackage: -1}, {Period: -time.Second}, {Retention: publisher.Retention{Current: -1}}, {Retention: publisher.Retention{Keep: -1}}, {Retention: publisher.Retention{KeepOctets: -1}}, {DumpPeriod: -1}, {Dialect: sitemap.Jan2013},
	} {
		o.BaseURI = base
		if p, err := publisher.New(s.svc, o); err == nil {
			t.Errorf("taken: %+v", o)
			must(t, p.Close())
		}
	}
}

func TestPeriodClosesAList(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSource(t, publisher.Options{Period: time.Hour, Now: func() time.Time { return now }}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 1)
	must(t, s.pub.Publish(context.Background())) // the first list
	index := func() []sitemap.Entry {
		return newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries
	}
	tick := func(d time.Duration) {
		now = now.Add(d)
		must(t, s.pub.Tick(context.Background()))
	}
	tick(3 * time.Hour) // there is nothing to close
	if got := len(index()); got != 2 {
		t.Fatalf("%d lists of no event", got)
	}
	s.submitN(q, 2)
	tick(59 * time.Minute)
	if got := len(index()); got != 2 {
		t.Fatalf("%d lists before the hour", got)
	}
	tick(2 * time.Minute)
	lists := index()
	if len(lists) != 3 || !lists[1].Until.Equal(lists[2].From) || !lists[1].Until.Equal(q.State().LastEvent) {
		t.Fatalf("after the hour: %+v", lists)
	}
}
