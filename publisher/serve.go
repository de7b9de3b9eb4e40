package publisher

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// Routes returns the routes of everything published, below
// /.well-known/resourcesync, for GET and HEAD (Z39.99-2017, 6.3). If the base URI
// has a path, the caller takes that off first. Requests are answered as package
// answer says. An [Export] is asked for at /publish/export.
func (p *Publisher) Routes() []web.Route {
	get := func(path string, need web.Need, find func(*http.Request, *uses) (*resource, error)) web.Route {
		serve := func(w http.ResponseWriter, r *http.Request) error {
			open := uses{p: p}
			defer open.release()
			return p.server.Serve(w, r, func() (*resource, error) {
				if p.src.Closed() {
					return nil, queuefs.ErrClosed
				}
				res, err := find(r, &open)
				if err == nil && res == nil {
					err = cmp.Or(p.goneFor(r, &open), notFound(r.URL.EscapedPath()))
				}
				return res, err
			})
		}
		return web.Route{Method: http.MethodGet, Path: wellknown.Path + path, Need: need, Waits: web.IfAsked, Serve: serve}
	}
	nothing := func(*http.Request, *uses) (*resource, error) { return nil, nil }
	return []web.Route{
		get("/{queue}/{set}/{document}", web.Here(web.Read), func(r *http.Request, open *uses) (*resource, error) {
			return p.find(r.PathValue("queue"), r.PathValue("set"), r.PathValue("document"), open)
		}),
		get("", web.Anywhere(web.Read), func(*http.Request, *uses) (*resource, error) { return p.description(), nil }),
		get("/{part}", web.Anywhere(web.Read), func(r *http.Request, open *uses) (*resource, error) {
			return p.findPart(r.PathValue("part"), open), nil
		}),
		get("/{queue}/{rest:.*}", web.Here(web.Read), nothing),
		get("/{rest:.*}", web.Otherwise, nothing),
		{Method: http.MethodPost, Path: exportPath, Need: web.Everywhere(web.Admin), Serve: p.serveExport},
	}
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
	p    *Publisher
	all  []*follower
	edit func(*names.About) // of texts about the Source and sets before they are printed; may be nil
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
func (p *Publisher) findPart(name string, open *uses) *resource {
	if n, ok := names.ParsePart(name); ok {
		return p.descriptionPart(n)
	}
	if p.hasAbout(name) {
		return p.aboutDocument(p.aboutSource(name), name, open.edit)
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
			res = p.aboutDocument(a, name, open.edit)
		}
	} else {
		res, err = docs.find(doc)
	}
	if res != nil {
		res.Events, res.Born = f.Queue, f.Born
	}
	return res, err
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
	if errors.Is(err, queuefs.ErrNoQueue) {
		if at, ok := p.removed(id); ok {
			return noLongerKept(r.URL.EscapedPath(), "the queue was removed at "+at.Format(time.RFC3339))
		}
	}
	if errors.Is(err, queuefs.ErrUnread) {
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
