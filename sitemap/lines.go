package sitemap

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxLine is the most octets of a line for Lines.
const maxLine = 64 << 10

// Lines reads separate entries of a <urlset>, one a line, in the form of
// [AppendEntry]. It returns the same as a [Reader], several times as fast: an
// XML parser is asked only for lines in another form. A line has at most 64
// KiB.
type Lines struct {
	in    *bufio.Reader
	line  int
	exact exact
	err   error
}

// NewLines returns Lines of r, with a buffer.
func NewLines(r io.Reader) *Lines { return &Lines{in: bufio.NewReaderSize(r, maxLine)} }

// Read returns the next entry, and [io.EOF] after the last. An error in a line
// is a [*ParseError]; every error is final.
func (l *Lines) Read() (Entry, error) {
	if l.err != nil {
		return Entry{}, l.err
	}
	e, err := l.next()
	l.err = err
	return e, err
}

func (l *Lines) next() (Entry, error) {
	text, err := l.in.ReadSlice('\n')
	l.line++
	switch {
	case err == bufio.ErrBufferFull:
		return Entry{}, &ParseError{l.line, errTooLarge}
	case err == io.EOF && len(text) > 0:
		return Entry{}, &ParseError{l.line, io.ErrUnexpectedEOF}
	case err != nil:
		return Entry{}, err
	}
	if e, ok := l.exact.entry(text); ok {
		return e, nil
	}
	return l.parse(text)
}

// lines takes entries from the input of a [Reader] past its XML decoder.
type lines struct {
	in     *meter
	events bool // cut: is the namespace of events
	taken  int  // line ends that the decoder has not seen
	exact  exact
}

// linesOf returns the lines below a root element, nil if its prefixes are other ones than
// those of [AppendHead].
func linesOf(in *meter, root *xml.StartElement) *lines {
	bound := map[string]string{}
	for _, a := range root.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" {
			bound[a.Name.Local] = a.Value
		}
	}
	if bound["xmlns"] != Namespace || bound["rs"] != RSNamespace {
		return nil
	}
	return &lines{in: in, events: bound["cut"] == EventNamespace}
}

// next takes the next entry, of at most max bytes. It is false, and nothing is taken, if the
// decoder has to read on.
func (l *lines) next(max int) (Entry, bool) {
	line := l.line()
	if string(line) == "\n" { // after an entry of the decoder
		l.take(line)
		line = l.line()
	}
	if len(line) == 0 || len(line) > max {
		return Entry{}, false
	}
	e, ok := l.exact.entry(line)
	if !ok || !l.events && (e.Event != "" || e.Seq != 0) {
		return Entry{}, false
	}
	l.take(line)
	return e, true
}

func (l *lines) take(line []byte) {
	l.in.Discard(len(line))
	l.taken++
}

// line returns the next line, if the buffer can have it whole.
func (l *lines) line() []byte {
	for n := 1; ; n = l.in.Buffered() + 1 {
		if _, err := l.in.Peek(n); err != nil {
			l.in.fail(err)
			return nil
		}
		text, _ := l.in.Peek(l.in.Buffered())
		if i := bytes.IndexByte(text[n-1:], '\n'); i >= 0 {
			return text[:n+i]
		}
	}
}

// exact reads lines in the very form of [AppendEntry].
type exact struct{ printed []byte }

// entry returns the entry of a line. It is false for a line in another form, which may be
// right all the same.
func (x *exact) entry(line []byte) (Entry, bool) {
	s := scanner{left: string(line)}
	e, ok := s.entry()
	if !ok {
		return e, false
	}
	// An entry that prints back the same was read right.
	x.printed = AppendEntry(x.printed[:0], URLSet, &e)
	return e, bytes.Equal(x.printed, line)
}

// parse reads a line with an XML parser.
func (l *Lines) parse(text []byte) (Entry, error) {
	head := AppendHead(nil, URLSet, Head{Capability: ChangeList})
	r := NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(text), bytes.NewReader(AppendFoot(nil, URLSet))))
	e, err := r.Read()
	if err == nil {
		if _, more := r.Read(); more != io.EOF {
			err = errors.New("more than an entry in a line")
		}
	}
	var p *ParseError
	switch {
	case errors.As(err, &p):
		return Entry{}, &ParseError{l.line, p.Err}
	case err == io.EOF:
		err = errors.New("line without an entry")
	}
	if err != nil {
		return Entry{}, &ParseError{l.line, err}
	}
	return e, nil
}

// A scanner takes a line apart. It need not be strict: the caller prints the
// result again and compares.
type scanner struct{ left string }

// take removes and returns the text up to end, and removes end.
func (s *scanner) take(end string) (string, bool) {
	text, rest, ok := strings.Cut(s.left, end)
	if ok {
		s.left = rest
	}
	return text, ok
}

// skip removes a prefix.
func (s *scanner) skip(prefix string) (ok bool) {
	s.left, ok = strings.CutPrefix(s.left, prefix)
	return ok
}

// entry returns the entry, unless it has rare parts: references to characters,
// changefreq and priority.
func (s *scanner) entry() (e Entry, ok bool) {
	e.Length = -1
	if strings.IndexByte(s.left, '&') >= 0 || !s.skip("<url><loc>") {
		return e, false
	}
	if e.Loc, ok = s.take("</loc>"); !ok || e.Loc == "" || strings.TrimSpace(e.Loc) != e.Loc || !allInXML(s.left) || !allInXML(e.Loc) {
		return e, false
	}
	if s.skip("<lastmod>") {
		text, _ := s.take("</lastmod>")
		var err error
		if e.LastMod, err = ParseTime(text); err != nil {
			return e, false
		}
	}
	if s.skip("<rs:md") && !s.attributes(e.set) {
		return e, false
	}
	for s.skip("<rs:ln") {
		var l Link
		if !s.attributes(l.set) || l.Rel == "" || l.Href == "" {
			return e, false
		}
		e.Links = append(e.Links, l)
	}
	return e, s.left == "</url>\n"
}

// attributes gives set the attributes up to the end of the element.
func (s *scanner) attributes(set func(name, value string) error) bool {
	for !s.skip("/>") {
		if !s.skip(" ") {
			return false
		}
		name, ok := s.take(`="`)
		value, ok2 := s.take(`"`)
		if !ok || !ok2 || value == "" || set(name, value) != nil {
			return false
		}
	}
	return true
}

// seq reads cut:seq.
func (e *Entry) seq(value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return fmt.Errorf("sequence number %q", value)
	}
	e.Seq = n
	return nil
}
