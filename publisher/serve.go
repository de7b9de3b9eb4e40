package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/content"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// Routes returns the routes of everything published, below
// /.well-known/resourcesync, for GET and HEAD (Z39.99-2017, 6.3). If the base URI
// has a path, the caller takes that off first. An [Export] is asked for at
// /publish/export.
func (p *Publisher) Routes() []web.Route {
	get := func(path string, need web.Need) web.Route {
		return web.Route{Method: http.MethodGet, Path: wellknown.Path + path, Need: need, Waits: web.IfAsked, Serve: p.get}
	}
	return []web.Route{
		get("/{queue}/{set}/{document}", web.Here(web.Read)),
		get("", web.Anywhere(web.Read)),
		get("/{part}", web.Anywhere(web.Read)),
		get("/{queue}/{rest:.*}", web.Here(web.Read)),
		get("/{rest:.*}", web.Otherwise),
		{Method: http.MethodPost, Path: exportPath, Need: web.Everywhere(web.Admin), Serve: p.serveExport},
	}
}

// get answers a request for a document.
func (p *Publisher) get(w http.ResponseWriter, r *http.Request) error {
	open := uses{p: p}
	defer open.release()
	return p.server.Serve(w, r, func() (*resource, error) { return p.requested(r, &open) })
}

// requested returns the document at the path of a request.
func (p *Publisher) requested(r *http.Request, open *uses) (res *resource, err error) {
	document, part := r.PathValue("document"), r.PathValue("part")
	switch {
	case p.src.Closed():
		return nil, ledger.ErrClosed
	case document != "":
		res, err = p.find(r.PathValue("queue"), r.PathValue("set"), document, open)
	case part != "":
		res = p.findPart(part)
	case r.URL.Path == wellknown.Path:
		res = p.description()
	}
	if err == nil && res == nil {
		err = cmp.Or(p.goneFor(r, open), notFound(r.URL.EscapedPath()))
	}
	return res, err
}

// ServeHTTP answers by the routes of the Publisher alone, with errors in plain
// text.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.router.ServeHTTP(w, r)
}

// Refusal returns the answer to a request after an error, as for a document of the
// Publisher.
func (p *Publisher) Refusal(r *http.Request, err error) error { return p.server.Refusal(r, err) }

// uses are the queues a request has open until its answer is written.
type uses struct {
	p   *Publisher
	all []*follower
}

func (u *uses) use(q Queue) (*follower, error) {
	f, err := u.p.use(q)
	switch {
	case err != nil:
	case slices.Contains(u.all, f): // found again after a wait
		f.release()
	default:
		u.all = append(u.all, f)
	}
	return f, err
}

func (u *uses) release() {
	for _, f := range u.all {
		f.release()
	}
}

// findPart returns a part of the Source Description, or a text about the Source;
// nil if there is none.
func (p *Publisher) findPart(name string) *resource {
	if n, ok := names.ParsePart(name); ok {
		return p.descriptionPart(n)
	}
	if p.hasAbout(name) {
		return p.aboutDocument(p.aboutSource(name), name)
	}
	return nil
}

// find returns a document of a set of the queue with an identifier, nil if there is none.
func (p *Publisher) find(id, set, name string, open *uses) (*resource, error) {
	kind, ok := names.ParseSet(set)
	doc, isDoc := names.ParseDoc(name)
	isAbout := p.hasAbout(name)
	q, err := p.svc.queue(id)
	if !ok || !isDoc && !isAbout || err != nil || q.ID() != id {
		return nil, nil
	}
	f, err := open.use(q)
	if err != nil {
		return nil, err
	}
	docs := documents{f.sets[kind], p}
	var res *resource
	if isAbout {
		var a *names.About
		if a, err = docs.about(); err == nil {
			res = p.aboutDocument(a, name)
		}
	} else {
		res, err = docs.find(doc)
	}
	if res != nil {
		res.Events, res.Born = f.Queue, f.Born
	}
	return res, err
}

// hasAbout reports whether the documents about the Source and the sets have one of
// this name.
func (p *Publisher) hasAbout(name string) bool {
	return name == names.AboutDataName || name == names.AboutPageName && p.src.Page.Print != nil
}

// goneFor returns the answer to a request for a document that was there once; nil
// if none is known.
func (p *Publisher) goneFor(r *http.Request, open *uses) error {
	id := r.PathValue("queue")
	kind, isSet := names.ParseSet(r.PathValue("set"))
	doc, isDoc := names.ParseDoc(r.PathValue("document"))
	if !isSet || !isDoc && !p.hasAbout(r.PathValue("document")) {
		return nil
	}
	q, err := p.svc.queue(id)
	if errors.Is(err, ledger.ErrNoQueue) {
		if at, ok := p.removed(id); ok {
			return noLongerKept(r.URL.EscapedPath(), "the queue was removed at "+at.Format(time.RFC3339))
		}
	}
	if errors.Is(err, content.ErrUnread) {
		return err // its directory is lost: nothing is gone
	}
	if err != nil {
		return nil
	}
	f, err := open.use(q)
	if err != nil || q.ID() != id || !isDoc || !f.sets[kind].Gone(doc) {
		return nil
	}
	return noLongerKept(r.URL.EscapedPath(), documents{f.sets[kind], p}.again())
}

// find returns a document of the set, nil if there is none.
func (s documents) find(doc names.Doc) (r *resource, err error) {
	if doc.Sum != "" && s.digested(doc).Sum != doc.Sum {
		return nil, nil // of another history
	}
	defer func() {
		if r != nil {
			r.Named = doc.Sum != ""
		}
	}()
	seq := job.Seq(doc.N)
	switch doc.Kind {
	case names.CapabilityList:
		r = s.capabilities()
	case names.ResourceList:
		r = s.resourceList(false)
	case names.Sitemap:
		r = s.resourceList(true)
	case names.ResourcePage, names.SitemapPage:
		if l, ok := s.listing(doc.N, doc.Kind == names.SitemapPage); ok {
			r = l.resource()
		}
	case names.OpenList:
		r, err = s.openList()
	case names.ChangeIndex:
		r, err = s.changeIndex()
	case names.ClosedList:
		r = s.closedList(seq)
	case names.ChangeDump:
		r, err = s.changeDump()
	case names.ChangePackage, names.ChangeManifest:
		if sp, ok := s.Package(seq); ok {
			r = s.packaged(doc, sp.Package(), sp.Until)
		}
	case names.ResourceDump, names.FormerDump:
		r = s.resourceDump(seq)
	case names.DumpPart:
		r = s.dumpPart(doc)
	case names.ResourcePackage, names.ResourceManifest:
		if p, ok := s.Portion(doc); ok {
			r = s.packaged(doc, p.Piece(), set.Later(p.At, p.Completed))
		}
	case names.FormerList:
		r = s.formerList(seq)
	case names.FormerPage:
		r = s.formerPage(doc)
	case names.FormerChanges:
		r = s.formerChanges(seq)
	default:
		r = s.archive(doc)
	}
	return r, err
}

// digested returns the name of a document that never changes with the digest it has
// now; without one if there is no such document.
func (s documents) digested(doc names.Doc) names.Doc {
	doc.Sum = ""
	switch seq := job.Seq(doc.N); doc.Kind {
	case names.ClosedList:
		if sp, ok := s.List(seq); ok {
			return s.listDoc(&sp)
		}
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		if sp, ok := s.Package(seq); ok {
			return sp.Doc(doc.Kind)
		}
	case names.ResourcePackage, names.ResourceManifest, names.FormerPage:
		if p, ok := s.Portion(doc); ok {
			return p.Doc(doc.Kind)
		}
	case names.DumpPart:
		if d := s.Dump(job.Seq(doc.Version)); d != nil {
			return s.dumpDoc(d, doc)
		}
	case names.FormerDump, names.FormerList:
		if d := s.Dump(seq); d != nil {
			return s.dumpDoc(d, doc)
		}
	}
	return doc
}

// again says where who comes too late begins anew.
func (s documents) again() string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("begin anew with %s at %s", s.URI(names.ResourceList), at(s.LastChange()))
	if d := s.Dump(0); d != nil {
		text += fmt.Sprintf(", or with %s at %s", s.URI(names.ResourceDump), at(d.At))
	}
	return text
}

// openList returns changelist.xml.
func (s documents) openList() (*resource, error) {
	s.p.reading()
	l, err := s.CurrentList()
	if err != nil {
		return nil, err
	}
	sp := set.Span{First: l.First, From: l.From, Until: s.p.oldUntil(l.Until), Length: l.Length}
	r := s.changeList(sp, fmt.Sprintf("o%d-%d-%d-%d-%d", l.First, micro(l.From), micro(sp.Until), l.Length, micro(l.Changed)))
	r.Modified = l.Changed // zero while it is empty: a period may end at any time
	return r, nil
}

// micro returns the microseconds of a time, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// closedList returns a closed list, nil if there is none.
func (s documents) closedList(first job.Seq) *resource {
	sp, ok := s.List(first)
	if !ok {
		return nil
	}
	r := s.changeList(sp, fmt.Sprintf("l%d-%s", sp.First, s.listDoc(&sp).Sum))
	r.Modified = sp.Until
	return r.asFinal()
}

// listDoc returns the name of a closed list. The digest of the entries is not in it: they
// follow from the events and the form.
func (s documents) listDoc(sp *set.Span) names.Doc {
	return names.ClosedList.Of(uint64(sp.First)).As(names.Salt(s.Stamp(), names.Form,
		sp.Last, micro(sp.From), micro(sp.Until), sp.Length, set.Unknown))
}

func (s documents) changeList(sp set.Span, tag string) *resource {
	r := &resource{Tag: tag}
	r.Open = func() (*document, error) {
		d := r.document()
		d.Text(s.ListHead(&sp))
		err := addContent(d, func() (set.Content, error) { return s.EntriesOf(sp.First, sp.Length) }, sp.Length)
		d.Text(sitemap.AppendFoot(nil, sitemap.URLSet))
		return d, err
	}
	if sp.Packed > 0 {
		r.Gzip = func() (*document, error) {
			d := r.document()
			return d, addContent(d, func() (set.Content, error) { return s.OpenPiece(sp.List()) }, sp.Packed)
		}
	}
	return r
}

// addContent adds a content to a document. It is opened now, and again when it is read:
// after an error nothing is answered.
func addContent(d *document, open set.Opener, length int64) error {
	if length == 0 {
		return nil
	}
	file, err := open()
	if err != nil {
		return err
	}
	d.Content(open, length)
	return file.Close()
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s documents) changeIndex() (*resource, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	from, until := st.From, s.p.oldUntil(st.Until)
	if len(st.Lists) > 0 {
		from = st.Lists[0].From
	}
	links := s.Up(s.archiveLink(names.ChangeIndex)...)
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.First, len(st.Lists), len(links), until.UnixMicro())
	head := sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: links}
	return s.p.list(tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for _, sp := range st.Lists {
			if !yield(sitemap.Entry{Loc: s.refer(s.listDoc(&sp)), From: sp.From, Until: sp.Until, Length: -1}) {
				return
			}
		}
		yield(sitemap.Entry{Loc: s.URI(names.OpenList), From: st.From, Until: until, Length: -1})
	}), nil
}

// oldUntil returns t in version 0.9, where open documents have an until too.
func (p *Publisher) oldUntil(t time.Time) time.Time {
	if p.src.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}
