package publisher

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/compose"
	"cutie/queuefs"
	"cutie/queuefs/octets"
	"cutie/wellknown"
)

// A resource is a document as it stands: its state is known, its octets are
// made when they are wanted.
type resource struct {
	zip      bool
	media    string    // "" for application/xml, or what a package is
	queue    Queue     // whose events change it; nil for all queues
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

// ServeHTTP serves everything published, at paths that begin with
// /.well-known/resourcesync, for GET and HEAD (Z39.99-2017, 6.3). If the base
// URI has a path, whoever calls it takes that off first.
//
// All documents have strong entity tags and know conditional requests and
// ranges (RFC 9110, 13 and 14); compressed forms are sent to those who accept
// gzip or Zstandard. A conditional request for a document that may change can
// wait until it does, see RFC 7240, 4.3: Prefer: wait=N, 60 seconds at most.
// Last-Modified is sent where it tells all states apart: not before its
// second is over, and not with documents that change without an event.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	err := p.serve(w, r)
	switch {
	case err == nil:
	case errors.Is(err, errNotFound):
		http.Error(w, fmt.Sprintf("not found: %.200s; %s leads to all there is", r.URL.EscapedPath(), wellknown.Path), http.StatusNotFound)
	case errors.Is(err, octets.ErrPrecondition):
		refuse(w, err)
	default:
		p.report(strings.TrimPrefix(r.URL.Path, wellknown.Path+"/"), "not served: %v", err)
		http.Error(w, "the document cannot be read now, try again later", http.StatusServiceUnavailable)
	}
}

// serve answers the request, or returns an error and has written nothing.
func (p *Publisher) serve(w http.ResponseWriter, r *http.Request) error {
	if p.closed.Load() {
		return queuefs.ErrClosed
	}
	res, err := p.find(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	c := compose.Identity
	if !res.zip {
		c = compose.Accepted(r.Header.Values("Accept-Encoding"))
	}
	same := func(res *resource) bool { return unchanged(r, p.entityTag(res, res.tag, c), p.settled(res.modified)) }
	met := same(res)
	h := w.Header()
	if wait := preferredWait(r.Header); wait > 0 && res.cache == cacheOpen {
		if met {
			if res, err = p.await(r, res, wait, same); err != nil {
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
	return octets.Serve(w, r, p.settled(doc.Modified), doc)
}

// refuse answers a request for another state of a document than it has, whose
// entity tag stays.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Del("Cache-Control")
	w.Header().Del("Last-Modified")
	http.Error(w, "not this document: "+err.Error(), http.StatusPreconditionFailed)
}

// find returns the resource at a path.
func (p *Publisher) find(path string) (*resource, error) {
	rest, ok := strings.CutPrefix(path, wellknown.Path)
	if !ok {
		return nil, errNotFound
	}
	if rest == "" {
		return p.description(), nil
	}
	segments := strings.Split(rest[1:], "/")
	for i, s := range segments {
		var err error
		if segments[i], err = url.PathUnescape(s); err != nil || rest[0] != '/' {
			return nil, errNotFound
		}
	}
	if len(segments) == 1 {
		if n, ok := parsePartName(segments[0]); ok {
			if r := p.descriptionPart(n); r != nil {
				return r, nil
			}
		}
		if r := p.aboutSource(segments[0]); r != nil {
			return r, nil
		}
		return nil, errNotFound
	}
	if len(segments) != 3 {
		return nil, errNotFound
	}
	set, ok := parseSet(segments[1])
	doc, ok2 := parseDocName(segments[2])
	told := segments[2] == aboutPage || segments[2] == aboutData
	q, err := p.svc.queue(segments[0])
	if !ok || !ok2 && !told || err != nil || q.ID() != segments[0] {
		return nil, errNotFound
	}
	f, err := p.follower(q)
	if err != nil {
		return nil, err
	}
	s := f.sets[set]
	var r *resource
	if told {
		r, err = s.about(segments[2])
	} else {
		r, err = s.find(doc)
	}
	if err == nil {
		r.queue, r.born = f.q, f.born
	}
	return r, err
}

// entityTag returns the tag of a representation.
func (p *Publisher) entityTag(r *resource, tag string, c compose.Coding) string {
	if tag == "" {
		return ""
	}
	return `"` + p.salt + r.born + "-" + tag + c.Suffix() + `"`
}

// salt returns a short digest of values, to begin an entity tag with.
func salt(values ...any) string {
	const format = 1 // to be raised when the same state gets other octets
	sum := sha256.Sum256(fmt.Append(nil, append(values, format)...))
	return fmt.Sprintf("%x", sum[:6])
}

// settled returns t if no later state can have the same second, else zero.
func (p *Publisher) settled(t time.Time) time.Time {
	if p.Now().Sub(t) < 2*time.Second {
		return time.Time{}
	}
	return t
}

// unchanged reports whether the conditions of a request are met by 304 (RFC
// 9110, 13.2.2). It is asked before anything is composed.
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

// maxRanges is how many ranges of a document one request gets. For each the
// document is read from the begin of one of its parts on, so thousands of them
// would take seconds (RFC 9110, 17.15).
const maxRanges = 16

// whole returns the request without its wish for a part: what has no entity
// tag cannot be put together from parts.
func whole(r *http.Request) *http.Request {
	if r.Header.Get("Range") == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	return r
}

// encoded marks a body as compressed. It does so at the last moment, because
// ServeContent would leave out Content-Length.
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
