package publisher_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs/home"
	"cutie/queuefs/state"
	"cutie/sitemap"
)

// page checks that a page is XML and returns its text, and what it links to.
func page(t testing.TB, octets []byte) (text string, links []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(octets)))
	var b strings.Builder
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return b.String(), links
		}
		must(t, err)
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			if tok.Name.Space != "http://www.w3.org/1999/xhtml" || tok.Name.Local == "script" {
				t.Errorf("element %v", tok.Name)
			}
			for _, a := range tok.Attr {
				if a.Name.Local == "href" {
					links = append(links, a.Value)
				}
			}
		}
	}
}

// abouts returns what describes a document of a Source: the page and the data.
func abouts(s *source, links []sitemap.Link) (html, data string) {
	s.Helper()
	for _, l := range links {
		switch {
		case l.Rel != sitemap.RelDescribedBy:
		case l.Type == "text/html":
			html = l.Href
		case l.Type == "application/json":
			data = l.Href
		}
	}
	if html == "" || data == "" {
		s.Fatalf("no description in %+v", links)
	}
	return html, data
}

func TestTheSourceAndItsSetsAreDescribed(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9, Period: 24 * time.Hour, Retention: publisher.Retention{Keep: 90 * time.Minute, KeepOctets: 1 << 30}, Dialect: sitemap.V10,
		Mirrors: []string{"https://mirror.test/a"}, Via: "https://first.test/"}, "jobs", "a^20b")
	q := s.queue("jobs")
	_, err := s.svc.SetQueue(context.Background(), "jobs", func(i *home.QueueInfo) error {
		i.Name, i.Description = `<b> & "jobs"`, "made for\x01 it's <script>"
		return nil
	})
	must(t, err)
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))

	root := s.document(base + "/.well-known/resourcesync")
	html, data := abouts(s, root.head.Links)
	var src struct {
		About, ResourceSyncVersion string
		Queues                     int
		Sets                       []struct{ URI, Text, Describedby string }
	}
	must(t, json.Unmarshal(s.body(data), &src))
	if src.About != base+"/.well-known/resourcesync" || src.Queues != 2 || len(src.Sets) != 4 || src.ResourceSyncVersion != "1.0" {
		t.Errorf("got %+v", src)
	}
	text, links := page(t, s.body(html))
	for i, e := range root.entries {
		h, d := abouts(s, e.Links)
		if src.Sets[i].URI != e.Loc || src.Sets[i].Describedby != d || !strings.Contains(fmt.Sprint(links), h) || !strings.Contains(text, src.Sets[i].Text) {
			t.Errorf("%s is %+v; the page links to %q", e.Loc, src.Sets[i], links)
		}
		if ch, cd := abouts(s, s.document(e.Loc).head.Links); ch != h || cd != d {
			t.Errorf("%s says that it is described by %s and %s, not %s and %s", e.Loc, ch, cd, h, d)
		}
		_, links := page(t, s.body(h))
		if !strings.Contains(fmt.Sprint(links), e.Loc) {
			t.Errorf("%s does not link to %s", h, e.Loc)
		}
	}

	// The set is told as it is.
	list := newMirror(s, "jobs", "replica").list
	html, data = abouts(s, s.document(list).head.Links)
	type set struct {
		About, Set, Title, Via string
		Hashes, Mirrors        []string
		Resources              int
		Queue                  struct {
			Identifier, Name, Description, State string
			Created, LastEvent                   time.Time
			Events, Pending, Consumed, Deleted   int
		}
		Changes struct {
			From, OpenFrom                     time.Time
			OpenEntries, ClosedLists, Packages int
		}
		ResourceDump *struct{ Packages int }
		Retention    struct{ ListPeriod, Keep, KeepOctets int }
		Limits       struct{ Entries int }
		Documents    []struct{ URI, Capability, Text string }
	}
	var got set
	must(t, json.Unmarshal(s.body(data), &got))
	st := q.State()
	if got.About != list || got.Set != "replica" || got.Queue.Identifier != "jobs" || got.Queue.Name != `<b> & "jobs"` || got.Queue.Description != "made for\ufffd it's <script>" ||
		got.Queue.Events != int(st.Seq) || got.Queue.Pending != int(st.Pending) || got.Queue.Consumed != int(st.Consumed) || got.Queue.Deleted != int(st.Deleted) ||
		!got.Queue.LastEvent.Equal(st.LastEvent) || !got.Queue.Created.Equal(st.Info.Created) || got.Queue.State != base+"/state/jobs" ||
		got.Resources != 2*int(st.Pending+st.Consumed+st.Deleted)+1 {
		t.Errorf("got %+v of %+v", got, st)
	}
	if fmt.Sprintf("%v %v %s", got.Hashes, got.Mirrors, got.Via) != "[sha-256] [https://mirror.test/a] https://first.test" ||
		got.Retention.ListPeriod != 86400 || got.Retention.Keep != 5400 || got.Retention.KeepOctets != 1<<30 || got.Limits.Entries != 9 {
		t.Errorf("got %+v", got)
	}
	index := s.document(s.doc(q, "replica", "changelist-index.xml"))
	if got.Changes.ClosedLists != len(index.entries)-1 || !got.Changes.From.Equal(index.head.From) || got.Changes.Packages == 0 || got.ResourceDump == nil ||
		got.Changes.OpenEntries != len(s.document(s.doc(q, "replica", "changelist.xml")).entries) {
		t.Errorf("got %+v of %+v", got.Changes, index)
	}
	text, links = page(t, s.body(html))
	for _, e := range s.document(list).entries {
		if !strings.Contains(fmt.Sprint(got.Documents), e.Loc+" "+string(e.Capability)) || !strings.Contains(fmt.Sprint(links), e.Loc) {
			t.Errorf("%s is not in %+v or %q", e.Loc, got.Documents, links)
		}
	}
	for _, d := range got.Documents {
		s.document(d.URI)
	}
	for _, want := range []string{got.Title, got.Queue.Description, fmt.Sprintf("%d pending, %d consumed, %d deleted", st.Pending, st.Consumed, st.Deleted),
		"24h", "1h30m", "lastmod", "sha-256", st.LastEvent.Format(time.RFC3339Nano)} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestDescriptionsAreServedAsWhatTheyAre(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	for _, dir := range []string{"", "/jobs/pending", "/jobs/replica"} {
		for name, media := range map[string]string{"about.html": "text/html; charset=utf-8", "about.json": "application/json"} {
			url := base + "/.well-known/resourcesync" + dir + "/" + name
			resp := s.get(url)
			body := read(t, resp)
			tag := resp.Header.Get("ETag")
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != media || tag == "" || resp.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %s %v", url, resp.Status, resp.Header)
			}
			if media != "application/json" {
				_, style, _ := strings.Cut(string(body), `<style type="text/css">`)
				style, _, _ = strings.Cut(style, "</style>")
				if style != state.PageStyle {
					t.Errorf("%s does not look like other pages", url)
				}
				if _, links := page(t, body); dir != "" && !slices.Contains(links, "../../about.html") {
					t.Errorf("%s does not link to the page of the Source: %q", url, links)
				}
				sum := sha256.Sum256([]byte(style))
				if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.HasPrefix(policy, "default-src 'none'") {
					t.Errorf("%s: policy %q", url, policy)
				}
			}
			if resp := s.get(url, "If-None-Match", tag); resp.StatusCode != 304 {
				t.Errorf("%s: %s", url, resp.Status)
			}
			s.submitN(s.queue("jobs"), 1)
			if resp := s.get(url, "If-None-Match", tag); (resp.StatusCode == 304) != (dir == "") {
				t.Errorf("%s after a change: %s", url, resp.Status)
			}
		}
	}
	for _, path := range []string{"/about.xml", "/about", "/jobs/about.html", "/none/pending/about.html", "/jobs/pending/about.html/", "/jobs/pending/about.htm"} {
		if resp := s.get(base + "/.well-known/resourcesync" + path); resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// TestPagesAreValidXHTML needs the DTD, which is not fetched.
func TestPagesAreValidXHTML(t *testing.T) {
	dtd := ""
	for _, name := range []string{"/usr/share/xml/xhtml/schema/dtd/1.0/xhtml1-strict.dtd", "/usr/share/xml/w3c-sgml-lib/schema/dtd/REC-xhtml1-20020801/xhtml1-strict.dtd"} {
		if _, err := os.Stat(name); err == nil {
			dtd = name
		}
	}
	if _, err := exec.LookPath("xmllint"); err != nil || dtd == "" {
		t.Skip("xmllint or the DTD of XHTML 1.0 is not installed")
	}
	s := newSource(t, publisher.Options{MaxEntries: 9, Mirrors: []string{"https://m.test", "https://n.test"}}, "jobs", "a^20b")
	for round := range 3 {
		activity(s, s.queue("jobs"), round)
	}
	must(t, s.pub.Publish(context.Background()))
	for _, dir := range []string{"", "/jobs/pending", "/jobs/replica", "/a%5E20b/pending"} {
		name := filepath.Join(t.TempDir(), "about.html")
		must(t, os.WriteFile(name, s.body(base+"/.well-known/resourcesync"+dir+"/about.html"), 0o666))
		if out, err := exec.Command("xmllint", "--noout", "--nonet", "--dtdvalid", dtd, name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", dir, err, out)
		}
	}
}

func TestASourceWithoutPagesHasNoLinksToThem(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.opts.Page = names.AboutPage{}
	must(t, s.pub.Close())
	var err error
	s.pub, err = publisher.New(s.svc, s.opts)
	must(t, err)
	s.svc.Follow(s.pub)
	for _, dir := range []string{"", "/jobs/pending", "/jobs/replica"} {
		if resp := s.get(base + "/.well-known/resourcesync" + dir + "/about.html"); resp.StatusCode != 404 {
			t.Errorf("%s: %s", dir, resp.Status)
		}
		s.body(base + "/.well-known/resourcesync" + dir + "/about.json")
	}
	for _, url := range []string{base + "/.well-known/resourcesync", s.pub.CapabilityList("jobs", names.Pending)} {
		if text := string(s.body(url)); strings.Contains(text, "about.html") || !strings.Contains(text, "about.json") {
			t.Errorf("%s: %s", url, text)
		}
	}
}
