package sitemap

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// DefaultMaxElement is the most octets of an entry, or of the whole head, if
// [Reader.MaxElement] is zero.
const DefaultMaxElement = 1 << 20

// A Reader reads one document of any dialect, entry by entry. Set the limits
// before the first call.
//
// The structure must be right: a known root, one rs:md with a capability before
// the first entry, loc in every entry, one rs:md at most. A Reader tolerates
// some habits of real documents: attributes in the rs namespace, times without
// a zone, digests that are not hexadecimal, empty attributes (as if not given),
// and unknown elements and attributes (skipped). Documents are in UTF-8, US-ASCII or
// UTF-16. An ordinary Sitemap has no
// rs:md and is refused, unless Plain is set.
//
// Entries of a <urlset> that stand in lines of their own, in the form of [AppendEntry], are
// read several times as fast as others.
//
// An error in the document is a [*ParseError]; other errors are from the
// underlying reader. Every error is final.
type Reader struct {
	MaxEntries int // 0: the constant MaxEntries
	MaxElement int // octets of one entry, and of the head; 0: DefaultMaxElement

	// Plain lets an ordinary Sitemap, or an index of them, be read as a Resource List
	// without a time.
	Plain bool

	// Fault gets the error of each optional part that cannot be read, which then counts as
	// absent: all but root, capability, from and until of the head, and loc. nil: such an
	// error is one of the document.
	Fault func(error)

	in       *meter
	dec      *xml.Decoder
	root     Root
	head     Head
	dialect  Dialect
	headRead bool
	first    *xml.StartElement // first entry, at the end of the head
	ended    bool              // the root element is closed
	entries  int
	dated    bool // a datetime was seen
	lines    *lines
	err      error
}

// NewReader returns a Reader of r, with a buffer.
func NewReader(r io.Reader) *Reader {
	in := &meter{Reader: bufio.NewReaderSize(r, 16<<10)}
	dec := xml.NewDecoder(in)
	dec.CharsetReader = charset
	return &Reader{in: in, dec: dec}
}

// ReadHead returns root and head of the document. It may be called at any
// time, and again.
func (r *Reader) ReadHead() (Root, Head, error) {
	if !r.headRead && r.err == nil {
		r.err = r.readHead()
		r.headRead = r.err == nil
	}
	if !r.headRead {
		return 0, Head{}, r.err
	}
	return r.root, r.head, nil
}

// Read returns the next entry, and [io.EOF] after the end of the document.
func (r *Reader) Read() (Entry, error) {
	if _, _, err := r.ReadHead(); err != nil {
		return Entry{}, err
	}
	if r.err != nil {
		return Entry{}, r.err
	}
	e, err := r.next()
	if err != nil {
		r.err = err
		return Entry{}, err
	}
	r.refine(&e)
	return e, nil
}

// Dialect returns the apparent version of the document, judged by the part read
// so far. Where 1.0 and 1.1 do not differ the answer is V11.
func (r *Reader) Dialect() Dialect { return r.dialect }

// refine tells 1.0 from 1.1: only the latter has datetime, and in the former
// lastmod stands in its place.
func (r *Reader) refine(e *Entry) {
	switch {
	case !e.DateTime.IsZero():
		r.dated = true
		if r.dialect == V10 {
			r.dialect = V11
		}
	case r.dialect == V11 && !r.dated && e.Change != "" && !e.LastMod.IsZero():
		r.dialect = V10
	}
}

func (r *Reader) readHead() error {
	r.in.left = orDefault(r.MaxElement, DefaultMaxElement)
	r.in.Reader = utf8Of(r.in.Reader)
	for {
		tok, err := r.token()
		if err != nil {
			return err
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name {
		case xml.Name{Space: Namespace, Local: rootNames[URLSet]}:
			r.root, r.lines = URLSet, linesOf(r.in, &start)
		case xml.Name{Space: Namespace, Local: rootNames[SitemapIndex]}:
			r.root = SitemapIndex
		default:
			return r.wrong("root is <%s> in namespace %q", start.Name.Local, start.Name.Space)
		}
		break
	}
	var h oldHead
	for {
		start, err := r.child()
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF || r.isEntry(start) {
			if h.namespace == "" && !r.Plain {
				return r.wrong("no root rs:md: not a ResourceSync document")
			}
			if h.namespace == "" {
				h.Capability, h.namespace = ResourceList, RSNamespace
			}
			r.first = start
			r.head, r.dialect = h.normal()
			return nil
		}
		switch {
		case isRS(start.Name, "md"):
			if h.namespace != "" {
				return r.wrong("second root rs:md")
			}
			h.namespace = start.Name.Space
			err = h.parse(start, r.optional)
		case isRS(start.Name, "ln"):
			h.Links, err = r.link(h.Links, start)
		case start.Name.Space == Namespace:
			return r.wrong("<%s> in <%s>", start.Name.Local, r.root)
		}
		if err != nil {
			return r.parseError(err)
		}
		if err := r.skip(); err != nil {
			return err
		}
	}
}

// next returns the next entry. A document may end without any.
func (r *Reader) next() (Entry, error) {
	for {
		start := r.first
		r.first = nil
		if start == nil && r.lines != nil && !r.ended {
			if e, ok := r.lines.next(orDefault(r.MaxElement, DefaultMaxElement)); ok {
				return e, r.count()
			}
		}
		if start == nil {
			// The first entry counts with the head; from here each element is
			// measured for itself.
			r.in.left = orDefault(r.MaxElement, DefaultMaxElement)
			var err error
			if start, err = r.child(); err != nil {
				return Entry{}, err
			}
		}
		switch {
		case r.isEntry(start):
			if err := r.count(); err != nil {
				return Entry{}, err
			}
			return r.entry()
		case isRS(start.Name, "md"), isRS(start.Name, "ln"):
			if err := r.optional(fmt.Errorf("root rs:%s after the first entry", start.Name.Local)); err != nil {
				return Entry{}, r.parseError(err)
			}
		case start.Name.Space == Namespace:
			return Entry{}, r.wrong("<%s> in <%s>", start.Name.Local, r.root)
		}
		if err := r.skip(); err != nil {
			return Entry{}, err
		}
	}
}

// count counts an entry.
func (r *Reader) count() error {
	if r.entries++; r.entries > orDefault(r.MaxEntries, MaxEntries) {
		return r.wrong("more than %d entries", r.entries-1)
	}
	return nil
}

// entry reads the rest of an entry, after its start element.
func (r *Reader) entry() (Entry, error) {
	e := Entry{Length: -1}
	described := false
	for {
		start, err := r.inner()
		if err != nil {
			return e, err
		}
		if start == nil {
			break
		}
		switch {
		case start.Name.Space == Namespace:
			err = r.entryElement(&e, start.Name.Local)
		case isRS(start.Name, "md"):
			if described {
				err = r.optional(errors.New("second rs:md in an entry"))
			} else {
				err = e.parse(start, r.optional)
			}
			if err != nil {
				return e, r.parseError(err)
			}
			described = true
			err = r.skip()
		case isRS(start.Name, "ln"):
			if e.Links, err = r.link(e.Links, start); err != nil {
				return e, r.parseError(err)
			}
			err = r.skip()
		default:
			err = r.skip()
		}
		if err != nil {
			return e, err
		}
	}
	if e.Loc == "" {
		return e, r.wrong("entry without loc")
	}
	return e, nil
}

// entryElement reads an element of sitemaps.org, after its start.
func (r *Reader) entryElement(e *Entry, name string) error {
	s, err := r.text()
	if err != nil {
		return err
	}
	switch name {
	case "loc":
		if e.Loc != "" {
			return r.wrong("second loc in an entry")
		}
		e.Loc = s
	case "lastmod":
		if e.LastMod, err = parseTimeAttr(s); err != nil {
			err = r.optional(err)
		}
		if err != nil {
			return r.parseError(err)
		}
	case "changefreq":
		e.ChangeFreq = s
	case "priority":
		e.Priority = s
	}
	return nil
}

// link adds a link to others.
func (r *Reader) link(all []Link, start *xml.StartElement) ([]Link, error) {
	var l Link
	if err := l.parse(start, r.optional); err != nil {
		return all, r.optional(err)
	}
	return append(all, l), nil
}

// optional returns the error of an optional part, nil if it counts as absent.
func (r *Reader) optional(err error) error {
	if r.Fault == nil {
		return err
	}
	r.Fault(r.parseError(err))
	return nil
}

func (r *Reader) isEntry(start *xml.StartElement) bool {
	return start != nil && start.Name == xml.Name{Space: Namespace, Local: entryNames[r.root]}
}

func isRS(n xml.Name, local string) bool {
	return n.Local == local && (n.Space == RSNamespace || n.Space == namespace2013)
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

func (r *Reader) wrong(format string, args ...any) error {
	return r.parseError(fmt.Errorf(format, args...))
}

func (r *Reader) parseError(err error) error {
	line, _ := r.dec.InputPos()
	if r.lines != nil {
		line += r.lines.taken
	}
	return &ParseError{Line: line, Err: err}
}

var errTooLarge = errors.New("element is too large")

// meter is the input of the XML decoder. It gives out the rest of one element
// and no more, so no element can fill the memory.
type meter struct {
	*bufio.Reader // the decoder uses only ReadByte, overridden here
	left          int
	err           error // of the underlying reader; after what is in the buffer
}

// fail notes an error of the buffer, which forgets it.
func (m *meter) fail(err error) {
	if err != io.EOF && err != bufio.ErrBufferFull {
		m.err = err
	}
}

func (m *meter) ReadByte() (byte, error) {
	if m.left <= 0 {
		return 0, errTooLarge
	}
	if m.left--; m.err != nil && m.Buffered() == 0 {
		return 0, m.err
	}
	c, err := m.Reader.ReadByte()
	if err != nil {
		m.fail(err)
	}
	return c, err
}

// token returns the next token; the end of the input is an error.
func (r *Reader) token() (xml.Token, error) {
	tok, err := r.dec.Token()
	if err == nil {
		return tok, nil
	}
	return nil, r.inputError(err)
}

// skip reads to the end of the current element.
func (r *Reader) skip() error {
	if err := r.dec.Skip(); err != nil {
		return r.inputError(err)
	}
	return nil
}

func (r *Reader) inputError(err error) error {
	if r.in.err != nil {
		return r.in.err
	}
	var syntax *xml.SyntaxError
	switch {
	case err == io.EOF, errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
		err = io.ErrUnexpectedEOF
	case syntax != nil:
		err = errors.New(syntax.Msg)
	}
	return r.parseError(err)
}

// child returns the start of the root's next child. The error is [io.EOF] after
// the end of the document; only comments may follow it.
func (r *Reader) child() (*xml.StartElement, error) {
	if r.ended {
		return nil, io.EOF
	}
	start, err := r.inner()
	if start != nil || err != nil {
		return start, err
	}
	r.ended = true
	for {
		tok, err := r.dec.Token()
		if err == io.EOF && r.in.err == nil {
			return nil, io.EOF
		}
		if err != nil {
			return nil, r.inputError(err)
		}
		if start, ok := tok.(xml.StartElement); ok {
			return nil, r.wrong("second root <%s>", start.Name.Local)
		}
	}
}

// inner returns the start of the next element inside the current one, nil at
// its end.
func (r *Reader) inner() (*xml.StartElement, error) {
	for {
		tok, err := r.token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			return &tok, nil
		case xml.EndElement:
			return nil, nil
		}
	}
}

// text returns the trimmed content of the current element.
func (r *Reader) text() (string, error) {
	var b strings.Builder
	for {
		tok, err := r.token()
		if err != nil {
			return "", err
		}
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			return "", r.wrong("<%s> where text belongs", tok.Name.Local)
		case xml.EndElement:
			return strings.TrimSpace(b.String()), nil
		}
	}
}

// A ParseError describes an error in a document, and its place.
type ParseError struct {
	Line int // from 1; where the offending element or text ends
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }
