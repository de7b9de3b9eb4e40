package publisher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestARangeIsOfOneState asks for the end of an open Change List, as a client that goes on
// after a broken connection does: with the tag of the state that it has it gets the rest, and
// with any other validator the whole list of now.
func TestARangeIsOfOneState(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: d, MaxEntries: 20}, "jobs")
		q := s.queue("jobs")
		url := s.doc(q, "pending", "changelist.xml")
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			s.submitN(q, 3)
			resp := s.get(url, "Accept-Encoding", coding)
			had, tag := read(t, resp), resp.Header.Get("ETag")
			rest := func(validator string) (*http.Response, []byte) {
				resp := s.get(url, "Accept-Encoding", coding, "Range", fmt.Sprintf("bytes=%d-", len(had)/2), "If-Range", validator)
				return resp, read(t, resp)
			}
			if resp, got := rest(tag); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(got, had[len(had)/2:]) {
				t.Errorf("%v, %s: %s with the tag, %d octets", d, coding, resp.Status, len(got))
			}
			s.submitN(q, 2)
			now := read(t, s.get(url, "Accept-Encoding", coding))
			for _, validator := range []string{tag, `"x"`, "Sun, 01 Mar 2026 12:00:00 GMT"} {
				if resp, got := rest(validator); resp.StatusCode != http.StatusOK || !bytes.Equal(got, now) {
					t.Errorf("%v, %s: %s with %s, %d octets of %d", d, coding, resp.Status, validator, len(got), len(now))
				}
			}
			s.submitN(q, 18) // another list
			now = read(t, s.get(url, "Accept-Encoding", coding))
			if resp, got := rest(tag); resp.StatusCode != http.StatusOK || !bytes.Equal(got, now) {
				t.Errorf("%v, %s: %s of another list", d, coding, resp.Status)
			}
		}
	}
}

// unzstd returns what frames of Zstandard, one behind the other, hold.
func unzstd(t testing.TB, octets []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	must(t, err)
	defer d.Close()
	text, err := d.DecodeAll(octets, nil)
	must(t, err)
	return text
}

func TestZstandardFormIsTheDocument(t *testing.T) {
	t.Parallel()
	s, urls := published(t)
	s.submitN(s.queue("jobs"), 3000) // lists of several parts
	for _, url := range urls {
		resp := s.get(url, "Accept-Encoding", "gzip;q=0.9, zstd")
		octets := read(t, resp)
		if resp.Header.Get("Content-Type") == "application/zip" {
			if got := resp.Header.Get("Content-Encoding"); got != "" {
				t.Errorf("%s: package with Content-Encoding %s", url, got)
			}
			continue
		}
		if got := resp.Header.Get("Content-Encoding"); got != "zstd" {
			t.Errorf("%s: Content-Encoding %q", url, got)
		}
		if got, want := unzstd(t, octets), s.body(url); !bytes.Equal(got, want) {
			t.Errorf("%s: zstd form has %d octets, want %d", url, len(got), len(want))
		}
		checkRanges(s, url, octets, "Accept-Encoding", "zstd")
	}
}

func TestCodingIsNegotiated(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	url := s.doc(s.queue("jobs"), "replica", "changelist.xml")
	for accept, want := range map[string]string{
		"zstd":                      "zstd",
		"gzip, deflate, br, zstd":   "gzip",
		"zstd, gzip":                "gzip",
		"zstd;q=0.5, gzip;q=0.4":    "zstd",
		"zstd;q=0.4, gzip ; q=0.5":  "gzip",
		"zstd;q=0, x-gzip":          "gzip",
		"ZSTD;Q=0.001":              "zstd",
		"zstd;q=0.000, gzip;q=0":    "",
		"zstd;q=2, gzip;q=-1":       "",
		"zstd;q=x, gzip;level=9":    "",
		"identity, *;q=1, zstandar": "",
		"":                          "",
	} {
		if got := s.get(url, "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: got %q, want %q", accept, got, want)
		}
	}
}

// TestHeadTellsEverything compares the header of HEAD with that of GET, which
// net/http would complete with what is not in the other.
func TestHeadTellsEverything(t *testing.T) {
	s, urls := published(t)
	for _, url := range urls {
		tags := map[string]bool{}
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			get, head := s.get(url, "Accept-Encoding", coding), s.do(http.MethodHead, url, "Accept-Encoding", coding)
			body := read(t, get)
			if got := read(t, head); len(got) > 0 || head.StatusCode != 200 || head.ContentLength != int64(len(body)) {
				t.Errorf("HEAD %s in %s: %s, %d octets, length %d of %d", url, coding, head.Status, len(got), head.ContentLength, len(body))
			}
			for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Accept-Ranges", "Etag", "Last-Modified", "Cache-Control", "Vary"} {
				if got, want := head.Header.Get(name), get.Header.Get(name); got != want {
					t.Errorf("HEAD %s in %s: %s is %q, want %q", url, coding, name, got, want)
				}
			}
			for _, name := range []string{"Content-Type", "Content-Length", "Accept-Ranges", "Etag", "Cache-Control"} {
				if head.Header.Get(name) == "" {
					t.Errorf("HEAD %s in %s: no %s", url, coding, name)
				}
			}
			tags[head.Header.Get("Etag")] = true
		}
		if want := map[bool]int{true: 1, false: 3}[bytes.HasSuffix([]byte(url), []byte(".zip"))]; len(tags) != want {
			t.Errorf("%s: %d entity tags in three codings, want %d", url, len(tags), want)
		}
	}
}

// gunzip returns what a document in gzip holds, read as many clients do: they
// know one member only, and drop silently what follows it.
func gunzip(t testing.TB, octets []byte) []byte {
	t.Helper()
	in := bytes.NewReader(octets)
	z, err := gzip.NewReader(in)
	must(t, err)
	z.Multistream(false)
	text, err := io.ReadAll(z) // checks CRC-32 and length at the end
	must(t, err)
	if in.Len() > 0 {
		t.Errorf("%d of %d octets stand behind the first member", in.Len(), len(octets))
	}
	return text
}

// checkGzip compares the gzip form of a document with the document.
func (s *source) checkGzip(url string) {
	s.Helper()
	resp := s.get(url, "Accept-Encoding", "gzip")
	octets := read(s, resp)
	if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
		s.Errorf("%s: %s, Content-Encoding %q", url, resp.Status, got)
		return
	}
	if got, want := gunzip(s, octets), s.body(url); !bytes.Equal(got, want) {
		s.Errorf("%s: gzip form has %d octets, want %d", url, len(got), len(want))
	}
}

func TestGzipFormIsOneMember(t *testing.T) {
	t.Parallel()
	s, urls := published(t)
	for _, dir := range []string{"", "/jobs/pending", "/jobs/replica"} {
		for _, name := range []string{"/about.html", "/about.json"} {
			urls = append(urls, base+"/.well-known/resourcesync"+dir+name)
		}
	}
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) { // checks each on the way
			urls = append(urls, url)
		}
	}
	for _, url := range urls {
		if filepath.Ext(url) != ".zip" {
			s.checkGzip(url)
		}
	}
}

// A cache may keep an immutable document for a year, so its URI must never stand for
// other octets: not in another version of ResourceSync, not with other limits, and
// not when everything was made anew.
func TestAnImmutableURIStandsForTheSameOctets(t *testing.T) {
	t.Parallel()
	seen := map[string][]byte{}
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
	}
	look := func(what string) {
		t.Helper()
		must(t, s.pub.Publish(context.Background()))
		n := 0
		for _, set := range []string{"pending", "replica"} {
			for url, d := range everything(s, set) {
				if !strings.Contains(s.get(url).Header.Get("Cache-Control"), "immutable") {
					continue
				}
				if n++; seen[url] == nil {
					seen[url] = d.octets
				} else if !bytes.Equal(seen[url], d.octets) {
					t.Errorf("%s: %s has other octets", what, url)
				}
			}
		}
		if n < 8 {
			t.Errorf("%s: only %d immutable documents", what, n)
		}
	}
	look("at first")
	for _, o := range []publisher.Options{{MaxEntries: 12, Dialect: sitemap.V10}, {MaxEntries: 12, Dialect: sitemap.V09}, {MaxEntries: 12, MaxPackage: 20}, {MaxEntries: 30}, {MaxEntries: 12}} {
		o.BaseURI = base
		s.opts = o
		s.rebuild()
		look(o.Dialect.String())
	}
}

var digest = regexp.MustCompile(`-[0-9a-f]{8}(-manifest)?(\.\w+)$`)

// aliasOf returns a name without its digest.
func aliasOf(name string) string { return digest.ReplaceAllString(name, "$1$2") }

// A name without the digest is an alias that is asked for again each time.
func TestNamesWithoutDigestAreNotImmutable(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
	}
	must(t, s.pub.Publish(context.Background()))
	n := 0
	for url, d := range everything(s, "replica") {
		alias := aliasOf(url)
		if alias == url {
			continue
		}
		n++
		resp := s.get(alias)
		if got := read(t, resp); resp.StatusCode != 200 || !bytes.Equal(got, d.octets) || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %s, %q, %d octets of %d", alias, resp.Status, resp.Header.Get("Cache-Control"), len(got), len(d.octets))
		}
		// Of another history.
		other := digest.ReplaceAllString(url, "-00000000$1$2")
		if resp := s.get(other); resp.StatusCode != 410 {
			t.Errorf("%s: %s", other, resp.Status)
		}
	}
	if n < 8 {
		t.Errorf("only %d names with a digest", n)
	}
}

func TestEveryImmutableNameHasADigest(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
		must(t, s.pub.Publish(context.Background()))
	}
	kinds := map[string]bool{}
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) {
			named := digest.MatchString(url)
			if got := strings.Contains(s.get(url).Header.Get("Cache-Control"), "immutable"); got != named {
				t.Errorf("%s: immutable %v", url, got)
			}
			if named {
				kinds[strings.SplitAfter(url[strings.LastIndex(url, "/")+1:], "-")[0]+url[len(url)-4:]] = true
			}
		}
	}
	want := []string{"changedump-.xml", "changedump-.zip", "changelist-.xml", "resourcedump-.xml", "resourcedump-.zip", "resourcelist-.xml"}
	for _, k := range want {
		if !kinds[k] {
			t.Errorf("no %s among %v", k, kinds)
		}
	}
}

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

// TestASourceSpeaksOneDialect publishes in the older versions: every document
// is of the version, and a mirror that follows gets the true state.
func TestASourceSpeaksOneDialect(t *testing.T) {
	t.Parallel()
	for _, d := range []sitemap.Dialect{sitemap.V10, sitemap.V09} {
		t.Run(d.String(), func(t *testing.T) {
			now := time.Now()
			s := newSource(t, publisher.Options{Dialect: d, MaxEntries: 7, Retention: publisher.Retention{Current: time.Hour}, Now: func() time.Time { return now }}, "jobs")
			s.now = func() time.Time { return now }
			s.reopen()
			q := s.queue("jobs")
			follower := map[string]*mirror{}
			for _, set := range []string{"pending", "replica"} {
				follower[set] = newMirror(s, "jobs", set)
				follower[set].baseline()
			}
			for round := range 4 {
				now = now.Add(40 * time.Minute)
				activity(s, q, round)
				s.settleFully()
				if round == 2 {
					s.crash()
					q = s.queue("jobs")
				}
				for _, m := range follower {
					m.source = s
					m.incremental(nil)
					m.compare(q)
				}
			}
			kinds := map[sitemap.Capability]bool{}
			for set, m := range follower {
				for url, doc := range everything(s, set) {
					if strings.HasSuffix(url, ".zip") {
						continue
					}
					kinds[doc.head.Capability] = true
					text := string(doc.octets)
					if strings.Contains(text, "datetime=") {
						t.Errorf("%s has datetime", url)
					}
					if d != sitemap.V09 {
						continue
					}
					for _, word := range []string{" at=", "completed=", `rel="index"`, `rel="contents"`, `"description"`} {
						if strings.Contains(text, word) {
							t.Errorf("%s has %s", url, word)
						}
					}
					if strings.Contains(text, `from="`) && doc.head.Capability == sitemap.ChangeList && doc.head.Until.IsZero() {
						t.Errorf("%s has no until", url)
					}
				}
				if d == sitemap.V09 {
					continue // entries of dumps do not say of what time they are
				}
				m.dump()
				m.compare(q)
			}
			if len(kinds) < 8 {
				t.Errorf("only documents of %v", kinds)
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
			// Another version begins anew.
			s.close()
			s.opts.Dialect, s.opts.Anew = sitemap.V11, true
			s.open()
			must(t, s.pub.Publish(context.Background()))
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			activity(s, s.queue("jobs"), 1)
			m.incremental(nil)
			m.compare(s.queue("jobs"))
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

func TestAChangeDumpWithoutPackagesIsNotOffered(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	activity(s, s.queue("jobs"), 0)
	offered := func() bool {
		for _, e := range s.document(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).entries {
			if e.Capability == sitemap.ChangeDump {
				return true
			}
		}
		return false
	}
	s.settle()
	tag := s.get(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).Header.Get("ETag")
	if offered() {
		t.Error("offered without a package")
	}
	must(t, s.pub.Publish(context.Background()))
	if !offered() || s.get(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).Header.Get("ETag") == tag {
		t.Error("not offered with a package")
	}
}

// A closed list and a manifest are read years later: the job file of a pending job has moved
// by then.
func TestEntriesAreDescribedByWhatStays(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	activity(s, s.queue("jobs"), 0)
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		n := 0
		for url, d := range everything(s, set) {
			if strings.HasSuffix(url, ".zip") {
				continue
			}
			for _, e := range d.entries {
				link := e.Link(sitemap.RelDescribedBy)
				if !strings.Contains(e.Loc, "/queues/jobs/payload/") || e.Change == sitemap.Deleted && link == "" {
					continue
				}
				n++
				if want := base + "/state/jobs/" + e.Loc[strings.LastIndexByte(e.Loc, '/')+1:]; link != want {
					t.Errorf("%s: %s is described by %s, want %s", url, e.Loc, link, want)
				}
			}
		}
		if n < 5 {
			t.Errorf("%s: only %d payloads", set, n)
		}
	}
}
