package dashboard_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/publisher/about"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/sitemap"
)

const aboutBase = "http://source.test/cutie/.well-known/resourcesync"

// aboutSource is a Source with more queues than it names.
func aboutSource() *about.About {
	queues := 3
	a := &about.About{About: aboutBase, Home: "http://source.test/cutie/", Title: "What http://source.test/cutie/ publishes", Description: about.SourceText, Version: "1.0", Software: queuefs.Scheme,
		Hashes: []string{"sha-256"}, Retention: about.Retention{Period: 86400, Keep: 5400, KeepOctets: 1 << 30}, Limits: about.Limits{Entries: 9, Octets: 1e6, Package: 1 << 32},
		Follow: about.ChooseSet("/.well-known/resourcesync", "resourcesync"), Queues: &queues}
	for _, q := range []queuefs.QueueInfo{{ID: "jobs", Name: `<b> & "jobs"`}, {ID: "a^20b"}} {
		for s := range names.Set(names.Sets) {
			docs := aboutBase + "/" + names.Escape(q.ID) + "/" + s.String() + "/"
			a.Sets = append(a.Sets, about.Document{URI: docs + "capabilitylist.xml", Text: about.Title(s, q), About: docs + about.PageName})
		}
	}
	return a
}

// aboutSet is a set with everything there can be.
func aboutSet() *about.About {
	a := aboutSource()
	a.Queues, a.Sets = nil, nil
	a.About, a.Title, a.Description = aboutBase+"/jobs/replica/capabilitylist.xml", `Replica of the queue <b> & "jobs"`, about.SetText(names.Replica)
	a.Mirrors, a.Via = []string{"https://mirror.test/a", "https://mirror.test/b"}, "https://first.test"
	a.Follow = about.FollowSet(sitemap.V10, true, true, true, true)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	a.OfSet = &about.OfSet{Set: "replica", Resources: 13, Octets: 12345,
		Queue: about.Queue{ID: "jobs", Name: `<b> & "jobs"`, Description: "made for it's <script>", State: "http://source.test/cutie/state/jobs",
			Info: "http://source.test/cutie/queues/jobs/queue-info.txt", Created: at, LastEvent: at.Add(time.Hour), Events: 21, Pending: 1, Consumed: 2, Deleted: 3},
		Changes: about.Changes{From: at, OpenFrom: at.Add(time.Minute), Open: 4, Closed: 5, Packages: 6},
		Dump:    &about.Dump{At: at.Add(time.Second), Made: at.Add(time.Minute), Packages: 7}}
	for _, d := range []struct {
		name names.Kind
		of   sitemap.Capability
	}{{names.OpenList, ""}, {names.ResourceList, sitemap.ResourceList}, {names.ChangeIndex, sitemap.ChangeList}, {names.ChangeDump, sitemap.ChangeDump}} {
		a.Documents = append(a.Documents, about.Document{URI: aboutBase + "/jobs/replica/" + d.name.Of().String(), Capability: string(d.of), Text: about.Text(d.of)})
	}
	return a
}

// textOf returns the text of a page.
func textOf(t *testing.T, page []byte) string {
	t.Helper()
	var b strings.Builder
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		tok, err := d.Token()
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			if tok.Name.Space != "http://www.w3.org/1999/xhtml" || tok.Name.Local == "script" {
				t.Errorf("element %v", tok.Name)
			}
		case nil:
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return b.String()
		}
	}
}

func TestPagesAboutASourceAndItsSets(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    *about.About
		text []string
	}{
		{"source.html", aboutSource(), []string{"1 more queues stand in the Source Description"}},
		{"set.html", aboutSet(), []string{"made for it's <script>", "1 pending, 2 consumed, 3 deleted", "lastmod", "2026-03-01T13:00:00.123456Z",
			"of 2026-03-01T12:00:01.123456Z, 7 packages", "12345"}},
	} {
		page := dashboard.About.Print(tt.a)
		text, seen := textOf(t, page), parsePage(t, page)
		for _, want := range append(tt.text, tt.a.Title, tt.a.Description, tt.a.Version, "24h", "1h30m", "sha-256", "as long as it is kept", "somebody asks for it") {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", tt.name, want)
			}
		}
		refs := []string{tt.a.About, "about.json"}
		refs = append(refs, tt.a.Mirrors...)
		if tt.a.OfSet != nil {
			refs = append(refs, tt.a.Via, tt.a.Queue.State, tt.a.Queue.Info, "../../about.html")
		}
		for _, d := range append(slices.Clone(tt.a.Documents), tt.a.Sets...) {
			if refs = append(refs, d.URI); d.About != "" {
				refs = append(refs, d.About)
			}
			if !strings.Contains(text, d.Text) {
				t.Errorf("%s does not say %q", tt.name, d.Text)
			}
		}
		for _, ref := range refs {
			if !slices.Contains(seen.anchors, ref) {
				t.Errorf("%s does not link to %s: %q", tt.name, ref, seen.anchors)
			}
		}
		for _, step := range tt.a.Follow {
			if !strings.Contains(text, step) {
				t.Errorf("%s does not say %q", tt.name, step)
			}
		}
		if seen.links["resourcesync"] != tt.a.About || seen.links["alternate"] != "about.json" {
			t.Errorf("%s: the head links to %v", tt.name, seen.links)
		}
		sum := sha256.Sum256([]byte(seen.style))
		policy := dashboard.About.Policy
		if seen.style != state.PageStyle || !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s does not look like other pages: policy %q", tt.name, policy)
		}
		compareGolden(t, "about-"+tt.name, page)
	}
}

// TestPagesAboutAreValidXHTML needs the DTD, which is not fetched.
func TestPagesAboutAreValidXHTML(t *testing.T) {
	dtd := ""
	for _, name := range []string{"/usr/share/xml/xhtml/schema/dtd/1.0/xhtml1-strict.dtd", "/usr/share/xml/w3c-sgml-lib/schema/dtd/REC-xhtml1-20020801/xhtml1-strict.dtd"} {
		if _, err := os.Stat(name); err == nil {
			dtd = name
		}
	}
	if _, err := exec.LookPath("xmllint"); err != nil || dtd == "" {
		t.Skip("xmllint or the DTD of XHTML 1.0 is not installed")
	}
	for _, a := range []*about.About{aboutSource(), aboutSet()} {
		name := filepath.Join(t.TempDir(), "about.html")
		if err := os.WriteFile(name, dashboard.About.Print(a), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("xmllint", "--noout", "--nonet", "--dtdvalid", dtd, name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", a.About, err, out)
		}
	}
}
