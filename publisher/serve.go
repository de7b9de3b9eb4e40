package publisher

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/compose"
	"cutie/queuefs"
	"cutie/queuefs/octets"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// A resource is a document whose state is known; its bytes are made by compose.
type resource struct {
	zip      bool
	media    string    // "" for application/xml, or for a package
	queue    Queue     // its events change it; nil for all queues
	born     string    // tells queues of one name apart
	tag      string    // differs for each state of the resource
	modified time.Time // zero if unknown
	cache    string
	compose  func(compose.Coding) (*compose.Document, error)
}

// Values of Cache-Control.
const (
	cacheOpen   = "no-cache"
	cacheClosed = "public, max-age=31536000, immutable"
)

const (
	documentType = "application/xml"
	packageType  = "application/zip"
)

var errNotFound = errors.New("no such document")

// Routes returns the routes of everything published, below
// /.well-known/resourcesync, for GET and HEAD (Z39.99-2017, 6.3). If the base URI
// has a path, the caller takes that off first.
//
// All documents have strong entity tags, and answer conditional requests and
// ranges (RFC 9110, 13 and 14). Clients that accept gzip or Zstandard get
// compressed forms. A conditional request for a document that may change can
// wait for the change, 60 seconds at most (RFC 7240, 4.3: Prefer: wait=N).
// Last-Modified is sent where it differs for all states: after its second is
// over, and for documents that change by events only.
func (p *Publisher) Routes() []web.Route {
	get := func(path string, need web.Need, find func(*http.Request) (*resource, error)) web.Route {
		serve := func(w http.ResponseWriter, r *http.Request) error {
			return p.respond(w, r, func() (*resource, error) { return find(r) })
		}
		return web.Route{Method: http.MethodGet, Path: wellknown.Path + path, Need: need, Waits: web.IfAsked, Serve: serve}
	}
	nothing := func(*http.Request) (*resource, error) { return nil, errNotFound }
	return []web.Route{
		get("", web.Anywhere(web.Read), func(*http.Request) (*resource, error) { return p.description(), nil }),
		get("/{part}", web.Anywhere(web.Read), p.findPart),
		get("/{queue}/{set}/{document}", web.Here(web.Read), p.find),
		get("/{queue}/{rest:.*}", web.Here(web.Read), nothing),
		get("/{rest:.*}", web.Otherwise, nothing),
	}
}

// ServeHTTP answers by the routes of the Publisher alone, with errors in plain
// text.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.router.ServeHTTP(w, r)
}

// respond answers a request, with an error in words for everyone.
func (p *Publisher) respond(w http.ResponseWriter, r *http.Request, find func() (*resource, error)) error {
	err := p.serve(w, r, find)
	switch {
	case err == nil, errors.Is(err, octets.ErrRange):
		return err
	case errors.Is(err, errNotFound):
		return web.Errorf(http.StatusNotFound, "not found: %.200s; %s leads to all there is", r.URL.EscapedPath(), wellknown.Path)
	case errors.Is(err, octets.ErrPrecondition):
		return notThis(err)
	}
	p.report(strings.TrimPrefix(r.URL.Path, wellknown.Path+"/"), "not served: %v", err)
	return errLater
}

// notThis is the answer to a request for another state of a document.
func notThis(err error) error {
	return web.Errorf(http.StatusPreconditionFailed, "not this document: %v", err)
}

var errLater = web.Errorf(http.StatusServiceUnavailable, "the document cannot be read now, try again later")

// serve answers the request. After an error nothing is written.
func (p *Publisher) serve(w http.ResponseWriter, r *http.Request, find func() (*resource, error)) error {
	if p.closed.Load() {
		return queuefs.ErrClosed
	}
	res, err := find()
	if err != nil {
		return err
	}
	c := compose.Identity
	if !res.zip {
		c = compose.Accepted(r.Header.Values("Accept-Encoding"))
	}
	same := func(res *resource) bool { return unchanged(r, p.entityTag(res, res.tag, c), p.stable(res.modified)) }
	met := same(res)
	h := w.Header()
	if wait := preferredWait(r.Header); wait > 0 && res.cache == cacheOpen {
		if met {
			if res, err = p.await(r, res, find, wait, same); err != nil {
				return err
			}
			met = same(res)
		}
		h.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	contentType := packageType
	if !res.zip {
		contentType = cmp.Or(res.media, documentType)
		h.Add("Vary", "Accept-Encoding")
	}
	if res.media == pageType {
		h.Set("Content-Security-Policy", aboutPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	h.Set("Cache-Control", res.cache)
	if met {
		h.Set("ETag", p.entityTag(res, res.tag, c))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	doc, err := res.compose(c)
	if err != nil {
		h.Del("Cache-Control")
		h.Del("Preference-Applied")
		return err
	}
	defer doc.Close()
	h.Set("Content-Type", contentType)
	if tag := p.entityTag(res, doc.Tag, c); tag != "" {
		h.Set("ETag", tag)
	} else {
		r = whole(r)
	}
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r = whole(r)
	}
	if c != compose.Identity {
		w = &encoded{w, c}
	}
	return octets.Serve(w, r, p.stable(doc.Modified), doc)
}

// findPart returns a part of the Source Description, or a text about the Source.
func (p *Publisher) findPart(r *http.Request) (*resource, error) {
	name := r.PathValue("part")
	if n, ok := parsePartName(name); ok {
		if res := p.descriptionPart(n); res != nil {
			return res, nil
		}
	}
	if res := p.aboutSource(name); res != nil {
		return res, nil
	}
	return nil, errNotFound
}

// find returns a document of a set.
func (p *Publisher) find(r *http.Request) (*resource, error) {
	name := r.PathValue("document")
	set, ok := parseSet(r.PathValue("set"))
	doc, ok2 := parseDocName(name)
	about := name == aboutPage || name == aboutData
	q, err := p.svc.queue(r.PathValue("queue"))
	if !ok || !ok2 && !about || err != nil || q.ID() != r.PathValue("queue") {
		return nil, errNotFound
	}
	f, err := p.follower(q)
	if err != nil {
		return nil, err
	}
	s := f.sets[set]
	var res *resource
	if about {
		res, err = s.about(name)
	} else {
		res, err = s.find(doc)
	}
	if err == nil {
		res.queue, res.born = f.q, f.born
	}
	return res, err
}

// entityTag returns the entity tag of a representation.
func (p *Publisher) entityTag(r *resource, tag string, c compose.Coding) string {
	if tag == "" {
		return ""
	}
	return `"` + p.salt + r.born + "-" + tag + c.Suffix() + `"`
}

// salt returns a short digest of values, the beginning of entity tags.
func salt(values ...any) string {
	const format = 1 // raise it when the same state gets other bytes
	sum := sha256.Sum256(fmt.Append(nil, append(values, format)...))
	return fmt.Sprintf("%x", sum[:6])
}

// stable returns t if no later state can have the same second, else zero.
func (p *Publisher) stable(t time.Time) time.Time {
	if p.Now().Sub(t) < 2*time.Second {
		return time.Time{}
	}
	return t
}

// unchanged reports whether 304 meets the conditions of a request (RFC 9110,
// 13.2.2), before anything is composed.
func unchanged(r *http.Request, tag string, modified time.Time) bool {
	if len(r.Header["If-Match"]) > 0 || r.Header.Get("If-Unmodified-Since") != "" {
		return false // they come first
	}
	if tags := r.Header.Values("If-None-Match"); len(tags) > 0 {
		for _, t := range strings.Split(strings.Join(tags, ","), ",") {
			if t = textproto.TrimString(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !modified.IsZero() && !modified.Truncate(time.Second).After(since)
}

// maxRanges bounds the ranges of one request. Each is read from the beginning of
// a part on, so thousands would take seconds (RFC 9110, 17.15).
const maxRanges = 16

// whole returns the request without its Range. A document without an entity tag
// cannot be put together from parts.
func whole(r *http.Request) *http.Request {
	if r.Header.Get("Range") == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	return r
}

// encoded marks a body as compressed, at the last moment: ServeContent would
// otherwise leave out Content-Length.
type encoded struct {
	http.ResponseWriter
	coding compose.Coding
}

func (e *encoded) WriteHeader(status int) {
	if status == http.StatusOK || status == http.StatusPartialContent {
		e.Header().Set("Content-Encoding", e.coding.String())
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *encoded) ReadFrom(r io.Reader) (int64, error) { return io.Copy(e.ResponseWriter, r) }

// Unwrap lets [http.ResponseController] through.
func (e *encoded) Unwrap() http.ResponseWriter { return e.ResponseWriter }
