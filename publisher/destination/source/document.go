package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/destination/fetch"
	"cutie/sitemap"
	"cutie/wellknown"
)

// maxDocument is a limit of a document, somewhat above the one of the standard.
const maxDocument = sitemap.MaxOctets + 1<<20

// A Document is a list, or an index of lists.
type Document struct {
	URI     string // after redirects
	Root    sitemap.Root
	Head    sitemap.Head
	Tag     string // entity tag; "" without one
	Octets  int64  // as they came
	Dialect sitemap.Dialect

	base   *url.URL
	text   []byte
	coded  bool // text is not what a range of the document counts in
	reader *sitemap.Reader

	skip    func(Skip) // nil: what cannot be read is an error
	read    int        // entries
	passed  int        // of these, those before what text has now
	lines   int        // that text no longer has
	skipped int        // entries
	faults  int        // of optional parts
}

// lengths returns the sum of all lengths in the text. To read it as XML for an estimate
// would cost as much as all else.
func (d *Document) lengths() (sum int64) {
	for text := d.text; ; {
		_, rest, found := bytes.Cut(text, []byte(`length="`))
		if !found {
			return sum
		}
		text = rest
		value, _, _ := bytes.Cut(text[:min(len(text), 20)], []byte(`"`))
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n > 0 && n < 1<<50 {
			sum += n
		}
	}
}

// Link returns the URI of the first link with a relation, "" without one.
func (d *Document) Link(rel string) string {
	ref := d.Head.Link(rel)
	if ref == "" {
		return ""
	}
	s, err := resolve(d.base, ref)
	if err != nil {
		return ""
	}
	return s
}

// resolve returns an absolute reference in its normal form: one name for one resource.
func resolve(base *url.URL, ref string) (string, error) {
	if !strings.HasPrefix(ref, "http://") && !strings.HasPrefix(ref, "https://") {
		u, err := base.Parse(ref)
		if err != nil {
			return "", err
		}
		ref = u.String()
	}
	return wellknown.Normal(ref)
}

// Document gets a document. It is read whole before any of its entries: a broken connection
// costs another request only.
func (s *Source) Document(ctx context.Context, uri string) (*Document, error) {
	d := &Document{skip: s.Skip}
	err := s.client.Get(ctx, fetch.Request{URI: uri}, func(a *fetch.Answer) error { return s.take(d, a) })
	if err != nil {
		return nil, err
	}
	return d, d.parse()
}

func (s *Source) take(d *Document, a *fetch.Answer) error {
	body, err := a.Decode()
	if err != nil {
		return fmt.Errorf("%s: %w", a.URL, err)
	}
	defer body.Close()
	in, err := sitemap.Unpack(body, maxDocument)
	if err != nil {
		return fmt.Errorf("%s: %w", a.URL, err)
	}
	// Documents of a list are alike. Growing to many megabytes each would leave several times
	// as much to the garbage collector.
	b := bytes.NewBuffer(make([]byte, 0, min(s.size.Load()+s.size.Load()/16, maxDocument)+bytes.MinRead))
	if _, err := b.ReadFrom(in); err != nil {
		return fmt.Errorf("%s: %w", a.URL, err)
	}
	text := b.Bytes()
	s.size.Store(int64(len(text)))
	d.URI, d.base, d.text, d.Octets = a.URL.String(), a.URL, text, int64(len(text))
	d.Tag, d.coded = a.Header.Get("Etag"), a.Coded()
	return nil
}

func (d *Document) parse() error {
	d.reader = sitemap.NewReader(bytes.NewReader(d.text))
	d.reader.Plain = true
	if d.skip != nil {
		d.reader.Fault = d.fault
	}
	var err error
	if d.Root, d.Head, err = d.reader.ReadHead(); err != nil {
		return fmt.Errorf("%s: %w", d.URI, err)
	}
	d.Dialect = d.reader.Dialect()
	return nil
}

// A tail is a growing document, and the end of the part that was read. The next request
// asks for the rest only, if the server keeps one entity tag while the document grows.
type tail struct {
	URI  string `json:"uri"`
	Tag  string `json:"tag,omitempty"`
	Head string `json:"head,omitempty"` // text before the first entry
	Read int64  `json:"read,omitempty"` // octets up to the end of the last entry
}

var (
	startOfEntry = []byte("<url>")
	endOfEntry   = []byte("</url>")
)

// openTail gets a list, or what was added to it since at. With wait the server may
// answer as soon as there is more. Without any change the document is nil; part says
// that it has the new entries only.
func (s *Source) openTail(ctx context.Context, uri string, at *tail, wait time.Duration) (d *Document, part bool, err error) {
	r := fetch.Request{URI: uri, Header: http.Header{}, Wait: wait}
	known := at.URI == uri && at.Tag != ""
	if known {
		r.Header.Set("If-None-Match", at.Tag)
		r.Wait = wait
		r.Accept = []int{http.StatusNotModified}
		if at.Read > 0 {
			// Ranges count octets of the plain document.
			r.Plain = true
			r.Accept = append(r.Accept, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable)
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", at.Read))
			r.Header.Set("If-Range", at.Tag)
		}
	}
	d = &Document{skip: s.Skip}
	status := 0
	err = s.client.Get(ctx, r, func(a *fetch.Answer) error {
		status = a.Status
		switch {
		case status == http.StatusPartialContent && a.Coded():
			status = http.StatusRequestedRangeNotSatisfiable
		case status == http.StatusOK, status == http.StatusPartialContent:
			return s.take(d, a)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, false, err
	case status == http.StatusNotModified:
		return nil, false, nil
	case status == http.StatusRequestedRangeNotSatisfiable:
		*at = tail{}
		return s.openTail(ctx, uri, at, 0)
	case status == http.StatusPartialContent:
		added := d.text
		d.text = append([]byte(at.Head), added...)
		if err := d.parse(); err != nil {
			return nil, false, err
		}
		if i := bytes.LastIndex(added, endOfEntry); i >= 0 {
			at.Read += int64(i + len(endOfEntry))
		}
		at.Tag = d.Tag
		return d, true, nil
	}
	if err := d.parse(); err != nil {
		return nil, false, err
	}
	*at = tail{URI: uri, Tag: d.Tag}
	if i := bytes.Index(d.text, startOfEntry); i >= 0 && i < 64<<10 && !d.coded {
		at.Head = string(d.text[:i])
		at.Read = int64(bytes.LastIndex(d.text, endOfEntry) + len(endOfEntry))
	}
	return d, false, nil
}

// ErrKind says that a document is not of the kind that its name, or the document naming it,
// promises.
var ErrKind = errors.New("is another document")

// kind checks the capability of a document.
func (d *Document) kind(want ...sitemap.Capability) error {
	for _, c := range want {
		if d.Head.Capability == c {
			return nil
		}
	}
	return fmt.Errorf("%s: %w: %s instead of %s", d.URI, ErrKind, d.Head.Capability, want[0])
}

func isGone(err error) bool { return fetch.IsGone(err) }
