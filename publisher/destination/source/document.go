package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

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
	err := s.client.Get(ctx, Request{URI: uri}, func(a *Answer) error { return s.take(d, a) })
	if err != nil {
		return nil, err
	}
	return d, d.parse()
}

func (s *Source) take(d *Document, a *Answer) error {
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
	d.Tag = a.Header.Get("Etag")
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

// A version is a state of a growing document that was read.
type version struct {
	URI string `json:"uri"`
	Tag string `json:"tag,omitempty"`
}

// openList gets a list, unless it is at a version. With wait the server may answer as soon as it
// is another one. Without any change the document is nil.
func (s *Source) openList(ctx context.Context, uri string, at *version, wait time.Duration) (*Document, error) {
	r := Request{URI: uri, Header: http.Header{}}
	if at.URI == uri && at.Tag != "" {
		r.Header.Set("If-None-Match", at.Tag)
		r.Wait, r.Accept = wait, []int{http.StatusNotModified}
	}
	d := &Document{skip: s.Skip}
	err := s.client.Get(ctx, r, func(a *Answer) error {
		if a.Status == http.StatusNotModified {
			return nil
		}
		return s.take(d, a)
	})
	if err != nil || d.base == nil {
		return nil, err
	}
	*at = version{URI: uri, Tag: d.Tag}
	return d, d.parse()
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

// A Skip is something of a Source that could not be read, and was passed over.
type Skip struct {
	URI      string // of its document; "" for a whole one
	Err      error  // what, where, and why
	Optional bool   // a part that is not needed: it counts as absent, and all else of its entry is there
}

// skips reports whether a document that could not be had is passed over. What may pass is an
// error of the whole: the next reading has it.
func (s *Source) skips(ctx context.Context, err error) bool {
	if s.Skip == nil || ctx.Err() != nil || Passes(err) {
		return false
	}
	s.Skip(Skip{Err: err})
	return true
}

// Starts of entries, and what may have some in it that count for nothing.
var (
	startOfURL   = regexp.MustCompile(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?:[\w.-]+:)?url[\s/>]`)
	startOfIndex = regexp.MustCompile(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?:[\w.-]+:)?sitemap[\s/>]`)
)

// maxHead is how many octets a head may have for entries to be passed over.
const maxHead = 64 << 10

// start returns where the next entry of a text starts, -1 without one.
func (d *Document) start(text []byte) int {
	re := startOfURL
	if d.Root == sitemap.SitemapIndex {
		re = startOfIndex
	}
	for at := 0; ; {
		found := re.FindIndex(text[at:])
		if found == nil {
			return -1
		}
		if text[at+found[0]+1] != '!' {
			return at + found[0]
		}
		at += found[1]
	}
}

// pass passes over the entry that the reader failed at, and reads on behind it. It returns the
// line of the entry, 0 if it cannot.
func (d *Document) pass(err error) (line int) {
	var p *sitemap.ParseError
	head := d.start(d.text)
	if !errors.As(err, &p) || head < 0 || head > maxHead || d.read > sitemap.MaxEntries {
		return 0
	}
	at := head
	for range d.read - d.passed { // entries of this text that were read
		next := d.start(d.text[at+1:])
		if next < 0 {
			break
		}
		at += 1 + next
	}
	line = 1 + d.lines + bytes.Count(d.text[:at], []byte("\n"))
	next := d.start(d.text[at+1:])
	if next < 0 {
		d.reader = nil
		return line
	}
	rest := d.text[at+1+next:]
	d.lines += bytes.Count(d.text[head:at+1+next], []byte("\n"))
	d.text, d.passed = append(bytes.Clone(d.text[:head]), rest...), d.read
	d.reader = sitemap.NewReader(bytes.NewReader(d.text))
	d.reader.Plain, d.reader.Fault = true, d.fault
	if _, _, err := d.reader.ReadHead(); err != nil {
		return 0
	}
	return line
}

// Read returns the next entry, with absolute references; at the end the error is [io.EOF].
// Where the Source takes it, an entry that cannot be read is passed over.
func (d *Document) Read() (sitemap.Entry, error) {
	for d.reader != nil {
		e, err := d.reader.Read()
		if err == io.EOF {
			d.Dialect = d.reader.Dialect()
			d.reader, d.text = nil, nil // the next document may be read while this one is known
			return e, err
		}
		if err == nil {
			d.read++
			if e.Loc, err = resolve(d.base, e.Loc); err == nil {
				return e, nil
			}
			err = fmt.Errorf("%s: %w", d.URI, err)
			if d.skip == nil {
				return e, err
			}
		} else {
			line := 0
			if d.skip != nil {
				line = d.pass(err)
			}
			if line == 0 {
				return e, fmt.Errorf("%s: %w", d.URI, err)
			}
			var p *sitemap.ParseError
			errors.As(err, &p)
			err = fmt.Errorf("%s: entry at line %d: %w", d.URI, line, p.Err)
		}
		d.skipped++
		d.skip(Skip{URI: d.URI, Err: err})
	}
	return sitemap.Entry{}, io.EOF
}

// fault tells of the first optional part that cannot be read.
func (d *Document) fault(err error) {
	var p *sitemap.ParseError
	if d.faults++; d.faults == 1 && errors.As(err, &p) {
		d.skip(Skip{URI: d.URI, Err: fmt.Errorf("%s: line %d: %w", d.URI, p.Line+d.lines, p.Err), Optional: true})
	}
}
