package dashboard

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/topics"
	"cutie/publisher/names"
	"cutie/queuefs/state"
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
		way = append(way, crumb{"step", v.page("state", parts[0]), parts[0]}, step(parts[1]))
	}
	p := &readPage{head: v.head(title, append(way, step(path.Base(d.URI)))...), URI: d.URI, Cut: d.Cut}
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
			r.Length = figure(e.Length)
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

// About prints the pages about a Source and its sets. They ask for nothing and run
// nothing.
var About = names.AboutPage{
	Print:  func(a *names.About) []byte { return appendPage(nil, "about", newAboutPage(a)) },
	Policy: "default-src 'none'; style-src " + state.StyleHash + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

// An aboutPage is a page of XHTML 1.0 Strict, well-formed as HTML too.
type aboutPage struct {
	*names.About
	Facts      []fact
	Page, Data string
}

// A fact is one row: a value, or references.
type fact struct {
	Name, Value string
	Refs        []string
}

func newAboutPage(a *names.About) *aboutPage {
	p := &aboutPage{About: a, Page: names.AboutPageName, Data: names.AboutDataName}
	p.add("ResourceSync version", a.Version)
	if a.AboutSet == nil {
		p.refer("Source Description", a.About)
		p.add("queues", strconv.Itoa(*a.Queues))
	} else {
		p.addSet(a.About, a.AboutSet)
	}
	p.add("digests", strings.Join(a.Hashes, ", "))
	p.refer("mirrors", a.Mirrors...)
	if a.Via != "" {
		p.refer("originally from", a.Via)
	}
	after := func(name string, seconds int64, never string) {
		if seconds == 0 {
			p.add(name, never)
		} else {
			p.add(name, inWords(time.Duration(seconds)*time.Second))
		}
	}
	after("a Change List is closed at the latest after", a.Retention.Period, "it is full")
	after("a Resource Dump is made after", a.Retention.DumpPeriod, "somebody asks for it")
	after("a closed list is in the index for", a.Retention.Current, "as long as it is kept")
	after("what is no longer current is kept for", a.Retention.Keep, "ever")
	if a.Retention.KeepOctets > 0 {
		p.add("and up to", figure(a.Retention.KeepOctets)+" octets a set")
	}
	p.add("limits of a document", figure(a.Limits.Entries)+" entries, "+figure(a.Limits.Octets)+" octets")
	p.add("limit of a package", figure(a.Limits.Package)+" octets of files")
	p.add("software", a.Software)
	return p
}

// addSet adds the facts that only a set has.
func (p *aboutPage) addSet(list string, s *names.AboutSet) {
	p.refer("Capability List", list)
	p.refer("queue", s.Queue.State)
	if s.Queue.Description != "" {
		p.add("about the queue", s.Queue.Description)
	}
	p.refer("properties of the queue", s.Queue.Info)
	p.add("jobs", fmt.Sprintf("%d pending, %d consumed, %d deleted", s.Queue.Pending, s.Queue.Consumed, s.Queue.Deleted))
	p.add("resources", number(s.Resources))
	p.add("created", instant(s.Queue.Created))
	p.add("last event", instant(s.Queue.LastEvent))
	p.add("events", strconv.FormatUint(s.Queue.Events, 10))
	p.add("changes are listed since", instant(s.Changes.From))
	p.add("the open list begins", instant(s.Changes.OpenFrom))
	p.add("changes in the open list", strconv.Itoa(s.Changes.Open))
	p.add("closed lists", strconv.Itoa(s.Changes.Closed))
	p.add("packages of changes", strconv.Itoa(s.Changes.Packages))
	if s.Dump != nil {
		packages := " packages"
		if s.Dump.Packages == 1 {
			packages = " package"
		}
		p.add("Resource Dump", "of "+instant(s.Dump.At)+", "+strconv.Itoa(s.Dump.Packages)+packages)
	}
	p.add("octets published", figure(s.Octets))
}

func (p *aboutPage) add(name, value string) {
	p.Facts = append(p.Facts, fact{Name: name, Value: value})
}

func (p *aboutPage) refer(name string, refs ...string) {
	if len(refs) > 0 {
		p.Facts = append(p.Facts, fact{Name: name, Refs: refs})
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func instant(t time.Time) string { return t.Format(time.RFC3339Nano) }

// inWords prints a duration of whole seconds without parts of 0.
func inWords(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ManualDir is the first segment of the URLs of the manual.
const ManualDir = "manual"

type manualPage struct {
	head
	First   []link // answers to the first questions of operators
	Topics  []manualTopic
	Methods string // URL of the methods of the protocol
	Text    []block
}

type manualTopic struct {
	link
	Summary string
}

// A block is a part of a text: a heading, a paragraph, or lines to be left as they are.
type block struct {
	ID, Heading string
	Paragraph   template.HTML
	Lines       template.HTML
}

// Manual returns the page with the topics of the manual.
func Manual(v Site) []byte {
	p := &manualPage{head: v.head("Manual", step("Manual")), Methods: v.page("help")}
	for _, t := range topics.All() {
		p.Topics = append(p.Topics, manualTopic{link{v.Base.Ref(ManualDir, t.Name), t.Name}, t.Summary})
	}
	for _, at := range [][2]string{{"What to do when", "operating#what-to-do-when"}, {"Is all well?", "operating#is-all-well"}, {"Is a mirror true?", "mirrors"}, {"Write a worker", "workers"}} {
		p.First = append(p.First, link{v.Base.Ref(ManualDir) + "/" + at[1], at[0]})
	}
	return v.write("manual", p)
}

// Topic returns the page of a topic.
func Topic(v Site, t *topics.Topic) []byte {
	p := &manualPage{head: v.head(sentence(t.Summary), crumb{"step", v.Base.Ref(ManualDir), "Manual"}, step(t.Name)),
		Text: blocks(t.Text, v.Base)}
	return v.write("topic", p)
}

// blocks cuts a text for terminals into parts at blank lines. Indented parts stay as they
// are, and a short line without an end of a sentence is a heading.
func blocks(text string, base state.Base) (all []block) {
	for part := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.HasPrefix(part, " "):
			lines := linked(dedented(part), base)
			if n := len(all); n > 0 && all[n-1].Lines != "" {
				all[n-1].Lines += "\n\n" + lines
			} else {
				all = append(all, block{Lines: lines})
			}
		case !strings.Contains(part, "\n") && len(part) < 60 && !strings.ContainsAny(part[len(part)-1:], ".:!)"):
			all = append(all, block{ID: anchor(part), Heading: part})
		default:
			all = append(all, block{ID: anchor(opening(part)), Paragraph: linked(part, base)})
		}
	}
	return all
}

// dedented takes the blanks that all lines of a part begin with away.
func dedented(part string) string {
	lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
	least := len(part)
	for _, l := range lines {
		least = min(least, len(l)-len(strings.TrimLeft(l, " ")))
	}
	for i := range lines {
		lines[i] = lines[i][least:]
	}
	return strings.Join(lines, "\n")
}

// opening returns the short sentence that a paragraph begins with, up to a bracket in it; ""
// without one. Links lead to a paragraph by it.
func opening(part string) string {
	first, _, more := strings.Cut(part, ". ")
	if !more || strings.Contains(first, "\n") {
		return ""
	}
	first, _, _ = strings.Cut(first, " (")
	if len(first) > 30 {
		return ""
	}
	return first
}

// anchor is the name of a heading or a paragraph in URLs.
func anchor(heading string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(heading), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }), "-")
}

// helpOf finds the topics and examples named in a text, over the end of a line too.
var helpOf = regexp.MustCompile(`cutie help\s+([a-z]+)\b(\.[a-z]+)?`)

// linked returns a text with links to the topics and examples named in it.
func linked(text string, base state.Base) template.HTML {
	var b strings.Builder
	last := 0
	for _, m := range helpOf.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[1]]
		if _, is := topics.Worker(name); !is {
			name = text[m[2]:m[3]]
			if _, is := topics.Find(name); !is {
				continue
			}
		}
		b.WriteString(template.HTMLEscapeString(text[last:m[0]]))
		last = m[2] + len(name)
		b.WriteString(`<a href="` + template.HTMLEscapeString(base.Ref(ManualDir, name)) + `">` + template.HTMLEscapeString(text[m[0]:last]) + `</a>`)
	}
	b.WriteString(template.HTMLEscapeString(text[last:]))
	return template.HTML(b.String())
}
