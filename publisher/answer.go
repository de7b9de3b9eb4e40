package publisher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// Media types of documents.
const (
	typeXML  = "application/xml"
	typeZIP  = "application/zip"
	typeJSON = "application/json"
	typeHTML = "text/html; charset=utf-8"
)

// A resource is a document with a known state. Open opens its text, or Render writes it.
type resource struct {
	Type     string    // media type; "" for XML. A ZIP has no compressed form
	Policy   string    // Content-Security-Policy of a page
	Tag      string    // differs for each state of the resource
	Modified time.Time // zero if unknown
	Final    bool      // it never changes, except in another history
	Named    bool      // its path stands for this state alone: caches keep it for good
	Events   events    // change it; nil if all queues do
	Born     string    // differs for queues of one name

	// Open opens a text of files, or a short one.
	Open func() (*document, error)

	// Render is there instead of Open if the text is made anew each time. The state may be
	// a later one.
	Render func(w io.Writer) (docState, error)

	// Gzip opens the form in gzip, if a file has it; else it is nil.
	Gzip func() (*document, error)

	File  set.Opener   // opens a package; nil of other documents
	About *names.About // what a text about the Source or a set says; nil of other documents
}

// events belong to a queue. Methods are safe for concurrent use.
type events interface {
	Seq() job.Seq
	Wait(ctx context.Context, after job.Seq) error
}

// textDocument returns a document of one text, made when it is asked for.
func textDocument(tag string, make func() []byte) *resource {
	r := &resource{Tag: tag}
	r.Open = func() (*document, error) {
		d := r.document()
		d.Text(make())
		return d, nil
	}
	return r
}

// document returns an empty document of the state.
func (r *resource) document() *document {
	return &document{docState: docState{Tag: r.Tag, Modified: r.Modified}}
}

// asFinal makes the document one that nobody waits for to change.
func (r *resource) asFinal() *resource {
	r.Final = true
	return r
}

// State differs for each state of the resource at one path.
func (r *resource) State() string { return r.Born + "-" + r.Tag }

// A server answers requests. It is safe for concurrent use.
type server struct {
	Salt   string // beginning of entity tags
	Now    func() time.Time
	Report func(path, text string, args ...any) // called with errors hidden from the client

	forms *forms
	polls polls
}

// Values of Cache-Control.
const (
	cacheOpen   = "no-cache"
	cacheClosed = "public, max-age=31536000, immutable"
)

// notFound returns the answer if there is no document at a path.
func notFound(path string) error {
	return web.Errorf(http.StatusNotFound, "not found: %.200s; %s leads to all there is", path, wellknown.Path)
}

// noLongerKept is the answer if a document is no longer kept; the text says how to go on.
func noLongerKept(path, text string) error {
	return web.Errorf(http.StatusGone, "gone: %.200s; %s", path, text)
}

// Refusal returns the answer to a request after an error, nil for nil. An error
// that is not of the request is reported, and the client may try again.
func (s *server) Refusal(r *http.Request, err error) error {
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
func (s *server) Serve(w http.ResponseWriter, r *http.Request, find func() (*resource, error)) error {
	return s.Refusal(r, s.serve(w, r, find))
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, find func() (*resource, error)) error {
	res, err := find()
	if err != nil {
		return err
	}
	c := identity
	if res.Type != typeZIP {
		c = accepted(r.Header.Values("Accept-Encoding"))
	}
	same := func(res *resource) bool { return unchanged(r, s.entityTag(res, res.Tag, c), s.Stable(res.Modified)) }
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
	if res.Type != typeZIP {
		h.Add("Vary", "Accept-Encoding")
	}
	if res.Policy != "" {
		h.Set("Content-Security-Policy", res.Policy)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	h.Set("Cache-Control", cacheOpen)
	if res.Final && res.Named {
		h.Set("Cache-Control", cacheClosed)
	}
	if met {
		h.Set("ETag", s.entityTag(res, res.Tag, c))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	doc, err := s.Document(r.URL.Path, res, c)
	if err != nil {
		h.Del("Cache-Control")
		h.Del("Preference-Applied")
		return err
	}
	defer doc.Close()
	h.Set("Content-Type", cmp.Or(res.Type, typeXML))
	if tag := s.entityTag(res, doc.Tag, c); tag != "" {
		h.Set("ETag", tag)
	} else {
		r = whole(r)
	}
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r = whole(r)
	}
	if c != identity {
		w = &encoded{w, c}
	}
	return web.Serve(w, r, s.Stable(doc.Modified), doc)
}

// Document returns the resource at a path in a coding.
func (s *server) Document(path string, res *resource, c coding) (*document, error) {
	if c == identity && res.Open != nil {
		return res.Open()
	}
	if c == inGzip && res.Gzip != nil {
		return res.Gzip()
	}
	tag := res.Tag
	if tag != "" {
		tag = res.State()
	}
	doc, err := s.forms.get(path, c, tag, func(w io.Writer) (state docState, err error) {
		if res.Render != nil {
			state, err = res.Render(w)
		} else if doc, e := res.Open(); e != nil {
			return state, e
		} else {
			_, err = io.Copy(w, doc)
			state, err = doc.docState, errors.Join(err, doc.Close())
		}
		if state.Tag != "" {
			state.Tag = res.Born + "-" + state.Tag
		}
		return state, err
	})
	if err == nil {
		doc.Tag = strings.TrimPrefix(doc.Tag, res.Born+"-")
	}
	return doc, err
}

// entityTag returns the entity tag of a representation.
func (s *server) entityTag(r *resource, tag string, c coding) string {
	if tag == "" {
		return ""
	}
	return `"` + s.Salt + r.Born + "-" + tag + c.Suffix() + `"`
}

// Stable returns t if no later state can have the same second, else zero.
func (s *server) Stable(t time.Time) time.Time {
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
	coding coding
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

// preferredWait returns how long a client prefers to wait, in whole seconds; 0
// without a preference (RFC 7240, 2 and 4.3). The first one counts.
func preferredWait(h http.Header) time.Duration {
	for _, field := range h["Prefer"] {
		for item := range strings.SplitSeq(field, ",") {
			item, _, _ = strings.Cut(item, ";")
			name, value, _ := strings.Cut(item, "=")
			if !strings.EqualFold(textproto.TrimString(name), "wait") {
				continue
			}
			value = strings.Trim(textproto.TrimString(value), `"`)
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(n)*time.Second, maxWait)
		}
	}
	return 0
}

// A document is one representation: a sequence of parts, texts in memory and files. It
// implements [io.ReadSeeker], and opens a part when reading gets there.
type document struct {
	docState

	parts []part
	size  int64
	at    int64 // where the next Read begins
	past  int   // parts before that, at least
	start int64 // where these end
	cur   io.ReadCloser
	end   int64 // of the part that cur reads
}

// A part opens its bytes from an offset on.
type part struct {
	size int64
	open func(from int64) (io.ReadCloser, error)
}

func (d *document) add(size int64, open func(from int64) (io.ReadCloser, error)) {
	if size > 0 {
		d.parts = append(d.parts, part{size, open})
		d.size += size
	}
}

// Text adds bytes in memory.
func (d *document) Text(b []byte) {
	d.add(int64(len(b)), func(from int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b[from:])), nil
	})
}

// Content adds the first size bytes of a content, opened when they are read.
func (d *document) Content(open set.Opener, size int64) {
	d.add(size, func(from int64) (io.ReadCloser, error) {
		c, err := open()
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(c, from, size-from), c}, nil
	})
}

type section struct {
	*io.SectionReader
	content set.Content
}

func (s *section) Close() error { return s.content.Close() }

func (d *document) Read(p []byte) (int, error) {
	for {
		if d.cur == nil {
			if err := d.next(); err != nil {
				return 0, err
			}
		}
		n, err := d.cur.Read(p)
		d.at += int64(n)
		if err == io.EOF {
			if err = d.Close(); d.at < d.end {
				err = io.ErrUnexpectedEOF
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens the part with the next byte.
func (d *document) next() (err error) {
	for ; d.past < len(d.parts); d.past++ {
		p := d.parts[d.past]
		if d.end = d.start + p.size; d.at < d.end {
			d.cur, err = p.open(d.at - d.start)
			return err
		}
		d.start = d.end
	}
	return io.EOF
}

// Seek implements [io.Seeker].
func (d *document) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += d.at
	case io.SeekEnd:
		offset += d.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the document")
	}
	d.Close()
	d.at, d.past, d.start = offset, 0, 0
	return offset, nil
}

// Close closes the part being read.
func (d *document) Close() error {
	if d.cur == nil {
		return nil
	}
	cur := d.cur
	d.cur = nil
	return cur.Close()
}

// A coding is a content coding (RFC 9110, 8.4.1).
type coding uint8

const (
	identity coding = iota
	inGzip
	inZstd // RFC 8878
)

// String returns the name of the coding in headers.
func (c coding) String() string { return [...]string{"identity", "gzip", "zstd"}[c] }

// Suffix ends entity tags of the form. It must change if the same text gets
// other bytes.
func (c coding) Suffix() string { return [...]string{"", "-gzip", "-zst"}[c] }

// accepted returns the coding a client likes best of those it names (RFC 9110,
// 12.5.3). Of equals it is inGzip, because some clients read the first frame of
// Zstandard only. A wildcard is no wish.
func accepted(values []string) coding {
	best, most := identity, 0.0
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(item, ";")
			c := parseCoding(textproto.TrimString(name))
			if c == identity {
				continue
			}
			if q := weight(params); q > most || q == most && q > 0 && c < best {
				best, most = c, q
			}
		}
	}
	return best
}

func parseCoding(name string) coding {
	switch {
	case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
		return inGzip
	case strings.EqualFold(name, "zstd"):
		return inZstd
	}
	return identity
}

// weight reads the parameter q: 1 without one, 0 if it is malformed.
func weight(params string) float64 {
	params = textproto.TrimString(params)
	if params == "" {
		return 1
	}
	name, value, _ := strings.Cut(params, "=")
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !strings.EqualFold(name, "q") || q < 0 || q > 1 {
		return 0
	}
	return q
}

// A docState is that of a document.
type docState struct {
	Tag      string    // entity tag; "" if it has none
	Modified time.Time // zero if unknown
}
