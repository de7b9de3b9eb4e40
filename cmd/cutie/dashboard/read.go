package dashboard

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// A Document is a document of ResourceSync to be read by people.
type Document struct {
	URI     string
	Tree    string // URL above all documents
	Pages   string // URL above their pages
	Head    sitemap.Head
	Entries []sitemap.Entry // at most [DocumentEntries]
	Cut     bool            // the document has more
}

// DocumentEntries is how many entries the page of a document has.
const DocumentEntries = 500

type readPage struct {
	head
	URI     string
	Facts   []fact
	Links   []readLink
	Entries []readEntry
	Cut     bool
}

// A term is a word of the document with a plain label. Word is "" if the label is the word.
type term struct{ Label, Word string }

// A readLink is a link of a document; Label is short.
type readLink struct {
	Rel       term
	Ref, Text string
	Label     term
}

type readEntry struct {
	Ref, Text, Length, Type string
	What                    term
	Time, Exact             string // to the second, and as it is
	Links                   []readLink
}

// capabilities are the documents in words.
var capabilities = map[sitemap.Capability]string{
	sitemap.Description: "Source Description", sitemap.CapabilityList: "Capability List", sitemap.ResourceList: "Resource List",
	sitemap.ResourceDump: "Resource Dump", sitemap.ChangeList: "Change List", sitemap.ChangeDump: "Change Dump",
	sitemap.ResourceDumpManifest: "Manifest of a Resource Dump", sitemap.ChangeDumpManifest: "Manifest of a Change Dump",
	sitemap.ResourceListArchive: "Archive of Resource Lists", sitemap.ResourceDumpArchive: "Archive of Resource Dumps",
	sitemap.ChangeListArchive: "Archive of Change Lists", sitemap.ChangeDumpArchive: "Archive of Change Dumps",
	sitemap.ChangeNotification: "Messages about changes", sitemap.FrameworkNotification: "Messages about new documents",
}

// relations are the relations of links in words.
var relations = map[string]string{
	"alternate": "In another form", "canonical": "Its true address", "collection": "Part of", "contents": "Contents",
	"describedby": "Described in", "describes": "Describes", "duplicate": "The same elsewhere", "hub": "Hub for subscriptions",
	"index": "Index", "original": "Original", "profile": "Profile", "resourcesync": "Its Capability List",
	"self": "This document", "up": "Above", "via": "Came from",
}

// termOf is a word of a document with its label in words, if it has one.
func termOf(word, label string) term {
	if label == "" {
		return term{Label: clean(word)}
	}
	if strings.EqualFold(word, label) {
		return term{Label: label}
	}
	return term{label, clean(word)}
}

// Read returns the page of a document.
func Read(v Site, d *Document) []byte {
	title := termOf(string(d.Head.Capability), capabilities[d.Head.Capability]).Label
	way := []crumb{{"step", d.Pages, "Published"}}
	if parts := strings.Split(strings.TrimPrefix(d.URI, d.Tree+"/"), "/"); len(parts) == 3 {
		way = append(way, crumb{"step", v.page("state", parts[0]), parts[0]}, crumb{Class: "step", Text: parts[1]})
	}
	p := &readPage{head: v.head(title, append(way, crumb{Class: "step", Text: path.Base(d.URI)})...), URI: d.URI, Cut: d.Cut}
	for _, f := range []struct {
		name string
		at   time.Time
	}{{"as of", d.Head.At}, {"completed", d.Head.Completed}, {"changes from", d.Head.From}, {"until", d.Head.Until}} {
		if !f.at.IsZero() {
			p.Facts = append(p.Facts, fact{Name: f.name, Value: instant(f.at)})
		}
	}
	p.Links = d.links(d.Head.Links)
	gone := map[string]bool{} // by the last entry of a resource
	for i := range d.Entries {
		gone[d.Entries[i].Loc] = d.Entries[i].Change == sitemap.Deleted
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		r := readEntry{Ref: d.page(e.Loc), Text: d.short(e.Loc), What: inWordsOf(e), Type: clean(e.Type), Links: d.links(e.Links)}
		if gone[e.Loc] {
			r.Ref = ""
		}
		for _, at := range []time.Time{e.Changed(), e.At, e.From} {
			if !at.IsZero() {
				r.Time, r.Exact = at.UTC().Format(time.DateTime), instant(at)
				break
			}
		}
		if e.Length > 0 {
			r.Length = grouped(number(e.Length))
		}
		p.Entries = append(p.Entries, r)
	}
	return v.write("read", p)
}

// inWordsOf says what an entry stands for.
func inWordsOf(e *sitemap.Entry) term {
	if e.Capability == "" {
		return term{Label: clean(string(e.Change))}
	}
	return termOf(string(e.Capability), capabilities[e.Capability])
}

func (d *Document) links(links []sitemap.Link) (all []readLink) {
	of := map[string]int{}
	for _, l := range links {
		of[l.Rel]++
	}
	for _, l := range links {
		r := readLink{Rel: termOf(l.Rel, relations[l.Rel]), Ref: d.page(l.Href), Text: d.short(l.Href)}
		if l.Rel == "hub" { // it takes subscriptions, and has no page
			r.Ref = ""
		}
		if r.Label = r.Rel; of[l.Rel] > 1 { // else they look the same
			r.Label = term{Label: path.Base(r.Text)}
		}
		all = append(all, r)
	}
	return all
}

// page returns the URL of the page of a document, or of anything else itself.
func (d *Document) page(ref string) string {
	if below, ok := strings.CutPrefix(ref, d.Tree); ok && (below == "" || below[0] == '/' && (strings.HasSuffix(below, ".xml") || !strings.Contains(path.Base(below), "."))) {
		return d.Pages + below
	}
	return ref
}

// short is a reference without the beginning of its document.
func (d *Document) short(ref string) string {
	if i := strings.LastIndexByte(d.URI, '/'); strings.HasPrefix(ref, d.URI[:i+1]) && len(ref) > i+1 {
		ref = ref[i+1:]
	} else if site, ok := strings.CutSuffix(d.Tree, "/.well-known/resourcesync"); ok {
		ref = strings.TrimPrefix(ref, site)
	}
	return clean(ref)
}

// maxDocument is how many octets of a document are read for a page.
const maxDocument = 2 << 20

// A document is an answer with its first octets.
type document struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (d *document) Header() http.Header { return d.header }

func (d *document) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

func (d *document) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	d.body.Write(p[:min(len(p), maxDocument-d.body.Len())])
	return len(p), nil
}

// read answers with a document of ResourceSync as a page, with links to go on. The octets
// of the document stay as they are, at their own URL.
func (b *Board) read(w http.ResponseWriter, r *http.Request) error {
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/read")
	path, err := url.PathUnescape(wellknown.Path + rest)
	if err != nil {
		return web.NotHere
	}
	inner := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawPath: wellknown.Path + rest}, Header: http.Header{},
		Host: r.Host, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor}).WithContext(r.Context())
	d := &document{header: http.Header{}}
	b.Published.ServeHTTP(d, inner)
	if d.status != http.StatusOK {
		return web.Errorf(d.status, "%.300s", strings.TrimSpace(d.body.String()))
	}
	v := b.site(r, "")
	page := &Document{URI: string(v.Base) + wellknown.Path + rest, Tree: string(v.Base) + wellknown.Path, Pages: v.Base.Ref("read"), Cut: d.body.Len() == maxDocument}
	reader := sitemap.NewReader(&d.body)
	if _, page.Head, err = reader.ReadHead(); err != nil {
		return web.Errorf(http.StatusNotFound, "%s is no document of ResourceSync", page.URI)
	}
	for {
		e, err := reader.Read()
		if errors.Is(err, io.EOF) || err != nil && page.Cut {
			break
		}
		if err != nil {
			return err
		}
		if len(page.Entries) == DocumentEntries {
			page.Cut = true
			break
		}
		if b.mayRead(r, page.Tree, e.Loc) {
			page.Entries = append(page.Entries, e)
		}
	}
	return answer(w, Read(v, page))
}

// mayRead reports whether the caller may see a reference: one to the documents of a queue
// needs the right to read it.
func (b *Board) mayRead(r *http.Request, tree, ref string) bool {
	below, ok := strings.CutPrefix(ref, tree+"/")
	if !ok {
		return true
	}
	segment, _, more := strings.Cut(below, "/")
	queue, err := url.PathUnescape(segment)
	return err == nil && (!more || access.CallerOf(r.Context()).May(web.Read, queue))
}
