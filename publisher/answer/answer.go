// Package answer answers requests for changing documents. All documents have
// strong entity tags, and answer conditional requests and ranges (RFC 9110, 13
// and 14), compressed by gzip or Zstandard if the client accepts it. A conditional
// request can wait until the document changes (RFC 7240, 4.3: Prefer: wait=N), 60
// seconds at most. A document that grows at its end answers an If-Range with the
// tag of an earlier state, too, see Resource.Grown. Last-Modified is sent where it
// differs for all states: after its second is over, and only if nothing but events
// changes the document.
package answer

import (
	"cmp"
	"context"
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

	"cutie/queuefs/web"
	"cutie/wellknown"
)

// Media types of documents.
const (
	XML  = "application/xml"
	ZIP  = "application/zip"
	JSON = "application/json"
	HTML = "text/html; charset=utf-8"
)

// A Resource is a document with a known state; Compose makes its bytes.
type Resource struct {
	Type     string    // media type; "" for XML. A ZIP has no compressed form
	Policy   string    // Content-Security-Policy of a page
	Tag      string    // differs for each state of the resource
	Modified time.Time // zero if unknown
	Final    bool      // it never changes, except in another history
	Named    bool      // its path stands for this state alone: caches keep it for good
	Events   Events    // change it; nil if all queues do
	Born     string    // differs for queues of one name
	Compose  func(compose.Coding) (*compose.Document, error)
	File     compose.Opener // opens a package; nil of other documents

	// Grown returns how many bytes, from the first on, an earlier state with a tag
	// has in common with this one; below 0 if that is unknown. It is nil unless the
	// resource grows at its end. Then a Range needs a validator: without one the
	// client may have the beginning of another list.
	Grown func(tag string) int64
}

// Events belong to a queue. Methods are safe for concurrent use.
type Events interface {
	Seq() queuefs.Seq
	Wait(ctx context.Context, after queuefs.Seq) error
}

// Text returns a document of one text, made when it is asked for.
func Text(tag string, text func() []byte) *Resource {
	return &Resource{Tag: tag, Compose: func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: tag}
		d.Whole(text(), c)
		return d, nil
	}}
}

// AsFinal makes the document one that nobody waits for to change.
func (r *Resource) AsFinal() *Resource {
	r.Final = true
	return r
}

// State differs for each state of the resource at one path.
func (r *Resource) State() string { return r.Born + "-" + r.Tag }

// Salt returns a short digest of values, for entity tags.
func Salt(values ...any) string {
	const format = 1 // raise it when the same state gets other bytes
	sum := sha256.Sum256(fmt.Append(nil, append(values, format)...))
	return fmt.Sprintf("%x", sum[:6])
}

// A Server answers requests. It is safe for concurrent use.
type Server struct {
	Salt   string // beginning of entity tags
	Now    func() time.Time
	Report func(path, text string, args ...any) // called with errors hidden from the client

	polls polls
}

// Values of Cache-Control.
const (
	CacheOpen   = "no-cache"
	CacheClosed = "public, max-age=31536000, immutable"
)

// NotFound returns the answer if there is no document at a path.
func NotFound(path string) error {
	return web.Errorf(http.StatusNotFound, "not found: %.200s; %s leads to all there is", path, wellknown.Path)
}

// Gone is the answer if a document is no longer kept; the text says how to go on.
func Gone(path, text string) error {
	return web.Errorf(http.StatusGone, "gone: %.200s; %s", path, text)
}

// Refusal returns the answer to a request after an error, nil for nil. An error
// that is not of the request is reported, and the client may try again.
func (s *Server) Refusal(r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	var own *web.Error
	switch {
	case errors.As(err, &own), errors.Is(err, web.ErrRange):
		return err
	case errors.Is(err, web.ErrPrecondition):
		return fmt.Errorf("not this document: %w", err)
	}
	s.Report(strings.TrimPrefix(r.URL.Path, wellknown.Path+"/"), "not served: %v", err)
	if says := (interface{ HTTPStatus() int })(nil); errors.As(err, &says) {
		return err
	}
	return web.Errorf(http.StatusServiceUnavailable, "the document cannot be read now, try again later")
}

// Serve answers a request for the resource of find. After an error nothing is
// written.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, find func() (*Resource, error)) error {
	return s.Refusal(r, s.serve(w, r, find))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, find func() (*Resource, error)) error {
	res, err := find()
	if err != nil {
		return err
	}
	c := compose.Identity
	if res.Type != ZIP {
		c = compose.Accepted(r.Header.Values("Accept-Encoding"))
	}
	same := func(res *Resource) bool { return unchanged(r, s.entityTag(res, res.Tag, c), s.Stable(res.Modified)) }
	met := same(res)
	h := w.Header()
	if wait := preferredWait(r.Header); wait > 0 && !res.Final {
		if met {
			if res, err = s.await(r, res, find, wait, same); err != nil {
				return err
			}
			met = same(res)
		}
		h.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	if res.Type != ZIP {
		h.Add("Vary", "Accept-Encoding")
	}
	if res.Policy != "" {
		h.Set("Content-Security-Policy", res.Policy)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	h.Set("Cache-Control", CacheOpen)
	if res.Final && res.Named {
		h.Set("Cache-Control", CacheClosed)
	}
	if met {
		h.Set("ETag", s.entityTag(res, res.Tag, c))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	doc, err := res.Compose(c)
	if err != nil {
		h.Del("Cache-Control")
		h.Del("Preference-Applied")
		return err
	}
	defer doc.Close()
	h.Set("Content-Type", cmp.Or(res.Type, XML))
	if tag := s.entityTag(res, doc.Tag, c); tag != "" {
		h.Set("ETag", tag)
	} else {
		r = whole(r)
	}
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r = whole(r)
	}
	if res.Grown != nil {
		r = s.rest(r, res, s.entityTag(res, doc.Tag, c), c)
	}
	if c != compose.Identity {
		w = &encoded{w, c}
	}
	return web.Serve(w, r, s.Stable(doc.Modified), doc)
}

// entityTag returns the entity tag of a representation.
func (s *Server) entityTag(r *Resource, tag string, c compose.Coding) string {
	if tag == "" {
		return ""
	}
	return `"` + s.Salt + r.Born + "-" + tag + c.Suffix() + `"`
}

// Stable returns t if no later state can have the same second, else zero.
func (s *Server) Stable(t time.Time) time.Time {
	if s.Now().Sub(t) < 2*time.Second {
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
