package source

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
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
func (d *Document) kind(want sitemap.Capability) error {
	if d.Head.Capability == want {
		return nil
	}
	return fmt.Errorf("%s: %w: %s instead of %s", d.URI, ErrKind, d.Head.Capability, want)
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

// Entries yields the entries, with absolute references, up to the first error. Where the Source
// takes it, an entry that cannot be read is passed over.
func (d *Document) Entries() iter.Seq2[sitemap.Entry, error] { return entries(d.next) }

// entries yields what next returns, up to [io.EOF] or another error.
func entries(next func() (sitemap.Entry, error)) iter.Seq2[sitemap.Entry, error] {
	return func(yield func(sitemap.Entry, error) bool) {
		for {
			e, err := next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (d *Document) next() (sitemap.Entry, error) {
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

const (
	// MaxPackageFiles is how many files a package may have; the standard lists up to 50,000.
	MaxPackageFiles = 250_000

	maxManifest = 256 << 20 // octets
	perFile     = 80        // octets of the directory for each file that a package may have
)

const manifestName = "manifest.xml"

// ErrManifest says that a package has no manifest of the right kind.
var ErrManifest = errors.New("manifest.xml")

// ErrFiles says that a package has more files than it may have.
var ErrFiles = errors.New("files of a package")

// metered limits what is read of a package until it is open.
type metered struct {
	in     io.ReaderAt
	left   int64
	over   bool
	opened bool
}

// ReadAt is [io.ReaderAt].
func (m *metered) ReadAt(p []byte, off int64) (int, error) {
	if m.opened {
		return m.in.ReadAt(p, off)
	}
	if m.left -= int64(len(p)); m.left < 0 {
		m.over = true
		return 0, ErrFiles
	}
	return m.in.ReadAt(p, off)
}

// A Package of a dump is open (Z39.99-2017, 11.2 and 13.2): a ZIP with manifest.xml and the
// files it names. Its file stays with the caller.
//
// Names in a package are looked up and never used as paths. Of two files of one name the
// first counts.
type Package struct {
	Twice []string // names of more than one file

	files    map[string]*zip.File
	manifest *sitemap.Reader
	in       io.ReadCloser
}

// OpenPackage reads the directory of a package of size octets and the head of its manifest. Both may
// have so many files and entries; 0: MaxPackageFiles.
func OpenPackage(r io.ReaderAt, size int64, want sitemap.Capability, maxFiles int) (*Package, error) {
	maxFiles = cmp.Or(maxFiles, MaxPackageFiles)
	// All of the directory is in memory before its files can be counted.
	m := &metered{in: r, left: max(1<<20, int64(maxFiles)*perFile)}
	z, err := zip.NewReader(m, size)
	if m.over || err == nil && len(z.File) > maxFiles {
		return nil, fmt.Errorf("%w: more than %d", ErrFiles, maxFiles)
	}
	if err != nil {
		return nil, err
	}
	m.opened = true
	p := &Package{files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		if p.files[f.Name] != nil {
			p.Twice = append(p.Twice, f.Name)
			continue
		}
		p.files[f.Name] = f
	}
	file := p.files[manifestName]
	if file == nil {
		return nil, fmt.Errorf("no %w in the package", ErrManifest)
	}
	if p.in, err = file.Open(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	p.manifest = sitemap.NewReader(io.LimitReader(p.in, maxManifest))
	p.manifest.MaxEntries = maxFiles
	_, head, err := p.manifest.ReadHead()
	if err == nil && head.Capability != want {
		err = fmt.Errorf("it is a %s, not a %s", head.Capability, want)
	}
	if err != nil {
		p.in.Close()
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return p, nil
}

// Entries yields the entries of the manifest, with their URIs in the normal form, up to the first
// error.
func (p *Package) Entries() iter.Seq2[sitemap.Entry, error] { return entries(p.next) }

func (p *Package) next() (sitemap.Entry, error) {
	e, err := p.manifest.Read()
	if err == nil {
		e.Loc, err = wellknown.Normal(e.Loc)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return e, err
}

// File returns the file of an entry, nil if there is none.
func (p *Package) File(e *sitemap.Entry) *zip.File {
	name, ok := strings.CutPrefix(e.Path, "/")
	if !ok || name == manifestName {
		return nil
	}
	return p.files[name]
}

// Names returns the names of all files but the manifest.
func (p *Package) Names() (names []string) {
	for name := range p.files {
		if name != manifestName && !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// Close lets go of the manifest.
func (p *Package) Close() error { return p.in.Close() }
