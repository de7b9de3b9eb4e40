package publisher_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// A mirror is a Destination that knows the specification and nothing else.
type mirror struct {
	*source
	list  string            // Capability List of the set
	files map[string]string // contents by URI
	since time.Time         // all changes up to then are in
	lost  int               // changed resources that were gone when asked for
}

func newMirror(s *source, queue, set string) *mirror {
	s.Helper()
	m := &mirror{source: s, files: map[string]string{}}
	for _, e := range s.document(strings.TrimSuffix(s.opts.BaseURI, "/") + "/.well-known/resourcesync").entries {
		if strings.Contains(e.Loc, "/"+queue+"/"+set+"/") {
			m.list = e.Loc
		}
	}
	if m.list == "" {
		s.Fatalf("the Source Description does not name the set %s of %s", set, queue)
	}
	return m
}

// capability returns the document that the Capability List names. It names no Change
// Dump without packages.
func (m *mirror) capability(c sitemap.Capability) document {
	m.Helper()
	for _, e := range m.document(m.list).entries {
		if e.Capability == c {
			return m.document(e.Loc)
		}
	}
	if c != sitemap.ChangeDump {
		m.Fatalf("no %s in %s", c, m.list)
	}
	return document{}
}

// baseline takes what the Resource List has.
func (m *mirror) baseline() {
	m.Helper()
	m.files = map[string]string{}
	d := m.capability(sitemap.ResourceList)
	m.since = d.head.At
	lists := []document{d}
	if d.root == sitemap.SitemapIndex {
		lists = nil
		for _, e := range d.entries {
			lists = append(lists, m.document(e.Loc))
		}
	}
	for _, d := range lists {
		for _, e := range d.entries {
			m.fetch(&e)
		}
	}
}

// incremental applies the Change Lists. seen is called after each entry.
func (m *mirror) incremental(seen func(e *sitemap.Entry)) {
	m.Helper()
	index := m.capability(sitemap.ChangeList)
	parts, from := index.entries, index.head.From
	if m.since.Before(from) { // the archive names older lists
		parts = m.lists()
		from = parts[0].From
	}
	if m.since.Before(from) {
		m.Fatalf("changes since %v are not published, only since %v", m.since, from)
	}
	for _, part := range parts {
		if !part.Until.IsZero() && part.Until.Before(m.since) {
			continue
		}
		d := m.document(part.Loc)
		if m.opts.Dialect < sitemap.V09 && (!d.head.From.Equal(part.From) || !d.head.Until.Equal(part.Until)) {
			m.Errorf("%s: from %v until %v, in the index from %v until %v", part.Loc, d.head.From, d.head.Until, part.From, part.Until)
		}
		for _, e := range d.entries {
			if e.Changed().After(m.since) {
				m.apply(&e, "")
				if seen != nil {
					seen(&e)
				}
			}
		}
		if n := len(d.entries); n > 0 && d.entries[n-1].Changed().After(m.since) {
			m.since = d.entries[n-1].Changed()
		}
	}
}

// dumps applies the packages of the Change Dump.
func (m *mirror) dumps() (packages int) {
	m.Helper()
	d := m.capability(sitemap.ChangeDump)
	all, from := d.entries, d.head.From
	if m.since.Before(from) {
		if all = m.packages(); len(all) > 0 {
			from = all[0].From
		}
	}
	if m.since.Before(from) {
		m.Fatalf("changes since %v are not packed, only since %v", m.since, from)
	}
	for _, e := range all {
		if e.Until.Before(m.since) {
			continue
		}
		data := m.body(e.Loc)
		check(m, &e, string(data))
		manifest, z := openPackage(m, data)
		if !manifest.head.From.Equal(e.From) || !manifest.head.Until.Equal(e.Until) {
			m.Errorf("%s: manifest from %v until %v, entry from %v until %v", e.Loc, manifest.head.From, manifest.head.Until, e.From, e.Until)
		}
		for _, c := range manifest.entries {
			if c.Changed().After(m.since) {
				contents := ""
				if c.Path != "" {
					contents = z[strings.TrimPrefix(c.Path, "/")]
				}
				m.apply(&c, contents)
			}
		}
		m.since = e.Until
		packages++
	}
	return packages
}

func openPackage(m *mirror, data []byte) (document, map[string]string) {
	m.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must(m, err)
	if z.File[0].Name != "manifest.xml" {
		m.Errorf("the first file of a package is %s", z.File[0].Name)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		must(m, err)
		text, err := io.ReadAll(r)
		must(m, err)
		files[f.Name] = string(text)
	}
	return parse(m, []byte(files["manifest.xml"])), files
}

// apply does what a change says; without contents the resource is fetched.
func (m *mirror) apply(e *sitemap.Entry, contents string) {
	m.Helper()
	switch {
	case e.Change == sitemap.Deleted:
		delete(m.files, e.Loc)
	case e.Path != "":
		check(m, e, contents)
		m.files[e.Loc] = contents
	default:
		m.fetch(e)
	}
}

// fetch gets a resource. One that is gone, or is no longer what the entry
// says, has a change coming.
func (m *mirror) fetch(e *sitemap.Entry) {
	m.Helper()
	resp := m.get(e.Loc)
	contents := string(read(m, resp))
	if resp.StatusCode != http.StatusOK || digests(contents) != hashes(e) {
		m.lost++
		delete(m.files, e.Loc)
		return
	}
	check(m, e, contents)
	m.files[e.Loc] = contents
}

func check(m *mirror, e *sitemap.Entry, contents string) {
	m.Helper()
	if got := hashes(e); got != digests(contents) && got != strings.Fields(digests(contents))[0] {
		m.Errorf("%s: entry has %s, resource %s", e.Loc, got, digests(contents))
	}
	if e.Length != int64(len(contents)) || e.Type == "" {
		m.Errorf("%s: length %d type %q, resource has %d", e.Loc, e.Length, e.Type, len(contents))
	}
}

func hashes(e *sitemap.Entry) string {
	var out []string
	for _, h := range e.Hashes {
		out = append(out, h.Alg+":"+h.Value)
	}
	return strings.Join(out, " ")
}

func digests(contents string) string {
	sha := sha256.Sum256([]byte(contents))
	return "sha-256:" + hex.EncodeToString(sha[:])
}

// compare checks that the mirror has what the queue has.
func (m *mirror) compare(q *queuefs.Queue) {
	m.Helper()
	want := map[string]string{}
	root := strings.TrimSuffix(m.opts.BaseURI, "/") + "/queues/" + q.ID() + "/"
	jobs, err := q.List(queuefs.ListOptions{Limit: 1 << 20})
	must(m, err)
	replica := strings.HasSuffix(m.list, "/replica/capabilitylist.xml")
	for _, j := range jobs {
		if replica || j.Status == queuefs.Pending {
			p, err := q.Payload(j.ID)
			must(m, err)
			data, err := io.ReadAll(p)
			must(m, err)
			p.Close()
			want[root+"payload/"+j.ID.String()] = string(data)
		}
		if replica {
			text, _, err := q.JobFile(j.ID, j.Status)
			must(m, err)
			want[root+j.Status.String()+"/"+j.ID.String()] = string(text)
			for _, r := range j.Results {
				_, in, err := q.Result(j.ID, r.Name)
				must(m, err)
				data, err := io.ReadAll(in)
				must(m, err)
				in.Close()
				want[root+"result/"+j.ID.String()+"/"+r.Name] = string(data)
			}
		}
	}
	got := maps.Clone(m.files)
	delete(got, root+"queue-info.txt")
	if !maps.Equal(got, want) {
		m.Errorf("mirror of %s differs:\n%s", path.Base(path.Dir(m.list)), difference(got, want))
	}
}

func difference(got, want map[string]string) string {
	var out []string
	for k, v := range want {
		if g, ok := got[k]; !ok {
			out = append(out, "missing "+k)
		} else if g != v {
			out = append(out, fmt.Sprintf("%s has %.40q, not %.40q", k, g, v))
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			out = append(out, "too much "+k)
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 20)], "\n")
}
