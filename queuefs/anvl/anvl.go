// Package anvl reads and writes ANVL, "A Name-Value Language"
// (draft-kunze-anvl-02), the format of the property files and job files of a
// Cutie home (Cutie 6).
//
// A record is a sequence of elements, one a line, ended by an empty line:
//
//	name: Queue01
//	# a comment
//	description: a long value may be
//	    folded
//
// The package writes the narrowest form of the format and reads a wide one.
//
// Written are lines "name: value" ended by LF, never folded; an element
// without a value is "name:". An octet that would not survive is written as
// %XX in upper case: in values "%", the C0 controls except TAB, DEL, and a blank
// or TAB at either end; in names besides these every blank and TAB, the colon,
// and a "#" or byte order mark at the start. The empty name is "%_". Octets
// that are not UTF-8 are written as %XX too, so every Go string reads back as
// it was.
//
// Read are lines ended by LF, CR or CRLF, after an optional byte order mark. A
// line that begins with a blank or TAB continues the element before it and is
// joined to it by one blank; a line of blanks alone continues it with nothing
// and ends no record. A line that begins with "#" is a comment, also inside a
// folded value. Blanks and TABs around names and values are dropped before the
// escapes are decoded. The escapes are %XX in either case, "%%" for "%", "%_"
// for nothing, and the two-letter codes of File::ANVL such as "%sc" for a
// semicolon; any other "%" stands for itself. Names keep their spelling and are
// compared without regard to case. Elements repeat freely and keep their order.
// A line without a colon, with an empty name, or with nothing to continue is a
// [*ParseError].
//
// Left out are the block escape "%{ %}" and the expansion of short ERC records.
package anvl

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Element is one name with one value, both decoded.
type Element struct {
	Name  string
	Value string // empty if the element has no value
}

// A Record is a sequence of elements in the order of their lines. Names may
// repeat; they are compared without regard to case.
type Record []Element

// Lookup returns the value of the first element of the given name, and whether
// there is one.
func (r Record) Lookup(name string) (value string, ok bool) {
	if i := r.index(name); i >= 0 {
		return r[i].Value, true
	}
	return "", false
}

// Value returns the value of the first element of the given name, or "" if
// there is none.
func (r Record) Value(name string) string {
	value, _ := r.Lookup(name)
	return value
}

// Values returns the values of all elements of the given name in their order,
// nil if there are none.
func (r Record) Values(name string) []string {
	var values []string
	for _, e := range r {
		if strings.EqualFold(e.Name, name) {
			values = append(values, e.Value)
		}
	}
	return values
}

// Set gives the first element of the given name a new value and drops its
// repeats. The name keeps its spelling in the record. Without such an element
// it is the same as [Record.Add].
func (r *Record) Set(name, value string) {
	i := r.index(name)
	if i < 0 {
		r.Add(name, value)
		return
	}
	(*r)[i].Value = value
	rest := (*r)[i+1:]
	rest.Del(name)
	*r = (*r)[:i+1+len(rest)]
}

// Add appends an element.
func (r *Record) Add(name, value string) {
	*r = append(*r, Element{Name: name, Value: value})
}

// Del removes every element of the given name.
func (r *Record) Del(name string) {
	kept := (*r)[:0]
	for _, e := range *r {
		if !strings.EqualFold(e.Name, name) {
			kept = append(kept, e)
		}
	}
	clear((*r)[len(kept):])
	*r = kept
}

func (r Record) index(name string) int {
	for i, e := range r {
		if strings.EqualFold(e.Name, name) {
			return i
		}
	}
	return -1
}

const byteOrderMark = "\ufeff"

// AppendElement appends the line of one element to dst, its line end included,
// and returns the extended slice. It does not allocate if dst has room.
func AppendElement(dst []byte, name, value string) []byte {
	dst = append(appendName(dst, name), ':')
	if value != "" {
		dst = appendValue(append(dst, ' '), value)
	}
	return append(dst, '\n')
}

// AppendRecord appends the lines of all elements of r to dst and returns the
// extended slice. It does not append the empty line that ends a record.
func AppendRecord(dst []byte, r Record) []byte {
	for _, e := range r {
		dst = AppendElement(dst, e.Name, e.Value)
	}
	return dst
}

func appendName(dst []byte, name string) []byte {
	switch {
	case name == "":
		return append(dst, "%_"...)
	case name[0] == '#', strings.HasPrefix(name, byteOrderMark):
		// The rest of a byte order mark is not UTF-8, so appendText escapes it.
		dst, name = appendOctet(dst, name[0]), name[1:]
	}
	return appendText(dst, name, inName)
}

func appendValue(dst []byte, value string) []byte {
	if isBlank(value[0]) {
		dst, value = appendOctet(dst, value[0]), value[1:]
	}
	last := len(value) - 1
	if last < 0 || !isBlank(value[last]) {
		return appendText(dst, value, inValue)
	}
	dst = appendText(dst, value[:last], inValue)
	return appendOctet(dst, value[last])
}

// appendText appends s, and escapes the octets not allowed there.
func appendText(dst []byte, s string, where place) []byte {
	start := 0 // of the octets not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		if barred[c]&where == 0 {
			i++
			continue
		}
		if _, size := utf8.DecodeRuneInString(s[i:]); size > 1 {
			i += size
			continue
		}
		dst = appendOctet(append(dst, s[start:i]...), c)
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

type place uint8

const (
	inName place = 1 << iota
	inValue
)

// barred says where an octet may not stand. Octets beyond ASCII may stand as
// part of a character.
var barred = func() (t [256]place) {
	for c := range t {
		if c < ' ' && c != '\t' || c >= 0x7f || c == '%' {
			t[c] = inName | inValue
		}
	}
	t[' '], t['\t'], t[':'] = inName, inName, inName
	return t
}()

func appendOctet(dst []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, '%', hex[c>>4], hex[c&15])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// DefaultLimit is the default limit of a [Reader]: 1 MiB.
const DefaultLimit = 1 << 20

// ErrTooLarge is the error within a [*ParseError] for a record beyond the limit
// of its [Reader].
var ErrTooLarge = errors.New("record too large")

// The texts are from the ANVL parser of EZID.
var (
	errNoColon    = errors.New("no colon in line")
	errEmptyLabel = errors.New("empty label")
	errNoPrevious = errors.New("no previous label for continuation line")
)

// A ParseError names a line with an error.
type ParseError struct {
	Line int // of the input, from 1
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns e.Err.
func (e *ParseError) Unwrap() error { return e.Err }

// ParseRecord reads the first record of b; in a property file or job file
// nothing else counts. The rest is not read. If b holds no record, because it
// is empty or all comments, the record is nil.
func ParseRecord(b []byte) (Record, error) {
	// One string for the whole input; the elements are parts of it.
	rest := strings.TrimPrefix(string(b), byteOrderMark)
	p := parser{lines: 1 + strings.Count(rest, "\n")}
	for rest != "" {
		var line string
		line, rest = cutLine(rest)
		if done, err := p.feed(line); err != nil {
			return nil, err
		} else if done {
			break
		}
	}
	return p.take(), nil
}

// cutLine splits s, which is not empty, after its first line. The line comes
// without its end.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	i := strings.IndexByte(line, '\r')
	switch {
	case i < 0:
		return line, rest
	case i == len(line)-1 && len(line) < len(s):
		return line[:i], rest
	}
	return s[:i], s[i+1:]
}

// A Reader reads a stream of records.
type Reader struct {
	// Limit is the most octets of lines in a record, without their ends but
	// with comments; hence a line may not be longer either. Beyond it the error
	// is [ErrTooLarge]. Zero means [DefaultLimit]. It may not change after the
	// first Read.
	Limit int

	r       io.Reader
	scanner *bufio.Scanner
	parser  parser
	err     error
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, parser: parser{lines: usualElements}} }

// Read returns the next record; it has at least one element. After the last one
// the error is [io.EOF]. Any error is final: it is a [*ParseError] for a fault
// in the input, else the error of the underlying reader.
func (r *Reader) Read() (Record, error) {
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.read()
	r.err = err
	return rec, err
}

func (r *Reader) read() (Record, error) {
	if r.scanner == nil {
		if r.Limit == 0 {
			r.Limit = DefaultLimit
		}
		r.scanner = bufio.NewScanner(r.r)
		// Room for the line end and the octet a scanner wants to be free.
		r.scanner.Buffer(nil, r.Limit+3)
		r.scanner.Split(splitLine)
	}
	size := 0
	for r.scanner.Scan() {
		line := r.scanner.Text()
		if r.parser.line == 0 {
			line = strings.TrimPrefix(line, byteOrderMark)
		}
		if size += len(line); size > r.Limit {
			return nil, &ParseError{Line: r.parser.line + 1, Err: ErrTooLarge}
		}
		done, err := r.parser.feed(line)
		if err != nil {
			// A line cut short by the underlying reader proves nothing.
			return nil, cmp.Or(r.scanner.Err(), err)
		}
		if done {
			return r.parser.take(), nil
		}
		if line == "" {
			size = 0
		}
	}
	switch err := r.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &ParseError{Line: r.parser.line + 1, Err: ErrTooLarge}
	case err != nil:
		return nil, err
	}
	if rec := r.parser.take(); rec != nil {
		return rec, nil
	}
	return nil, io.EOF
}

// splitLine is a [bufio.SplitFunc] for lines ended by LF, CR or CRLF.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && (!atEOF || len(data) == 0):
		return 0, nil, nil
	case i < 0:
		return len(data), data, nil
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	case i+1 == len(data) && !atEOF: // an LF may follow
		return 0, nil, nil
	}
	return i + 1, data[:i], nil
}

// usualElements is about as many as job files have at most; others grow.
const usualElements = 20

// A parser gathers a record line by line.
type parser struct {
	line   int // number of the last line fed
	lines  int // about as many will be fed
	record Record
	folded []byte // value of the last element, if it has continuation lines
}

// feed takes the next line, without its end. It reports whether the line ended
// a record; the caller then takes the record.
func (p *parser) feed(line string) (done bool, err error) {
	p.line++
	switch {
	case line == "":
		return len(p.record) > 0, nil
	case line[0] == '#':
		return false, nil
	case isBlank(line[0]):
		err = p.fold(trim(line))
	default:
		err = p.element(line)
	}
	if err != nil {
		return false, &ParseError{Line: p.line, Err: err}
	}
	return false, nil
}

func (p *parser) element(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return errNoColon
	}
	name = trimRight(name)
	if name == "" {
		return errEmptyLabel
	}
	p.unfold()
	if p.record == nil {
		p.record = make(Record, 0, min(p.lines, usualElements))
	}
	p.record.Add(unescape(name), unescape(trim(value)))
	return nil
}

func trim(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	return trimRight(s)
}

func trimRight(s string) string {
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// fold continues the last element with text. The value grows in a buffer, since
// a string grown by thousands of lines would take time squared. An escape holds
// no blank, so each line can be decoded alone.
func (p *parser) fold(text string) error {
	if text == "" {
		return nil
	}
	if len(p.record) == 0 {
		return errNoPrevious
	}
	if len(p.folded) == 0 {
		p.folded = append(p.folded, p.record[len(p.record)-1].Value...)
	}
	if len(p.folded) > 0 {
		p.folded = append(p.folded, ' ')
	}
	p.folded = append(p.folded, unescape(text)...)
	return nil
}

func (p *parser) unfold() {
	if len(p.folded) > 0 {
		p.record[len(p.record)-1].Value = string(p.folded)
		p.folded = p.folded[:0]
	}
}

// take returns the record gathered so far and begins a new one.
func (p *parser) take() Record {
	p.unfold()
	rec := p.record
	p.record = nil
	return rec
}

// unescape decodes the escapes of a name or value. A "%" without a valid escape
// stands for itself: property files in use hold "id%4 = 0" and the like.
func unescape(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.IndexByte(s, '%') {
		b.WriteString(s[:i])
		text, size := unescapeOne(s[i:])
		b.WriteString(text)
		s = s[i+size:]
	}
	b.WriteString(s)
	return b.String()
}

// unescapeOne decodes the escape at the start of s, a "%". It returns its
// meaning and its length in octets.
func unescapeOne(s string) (text string, size int) {
	if len(s) >= 2 && s[1] == '%' {
		return "%", 2
	}
	if len(s) >= 2 && s[1] == '_' {
		return "", 2
	}
	if len(s) < 3 {
		return "%", 1
	}
	if hi, lo := hexDigit(s[1]), hexDigit(s[2]); hi >= 0 && lo >= 0 {
		return string([]byte{byte(hi<<4 | lo)}), 3
	}
	if text, ok := letterCodes[s[1:3]]; ok {
		return text, 3
	}
	return "%", 1
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return int(c - 'A' + 10)
	}
	return -1
}

// letterCodes are the two-letter escapes of ERC records. Each holds a letter
// beyond f, so none can be taken for an octet in hexadecimal.
var letterCodes = map[string]string{
	"sp": " ", "ex": "!", "dq": `"`, "ns": "#", "do": "$", "pe": "%", "am": "&",
	"sq": "'", "op": "(", "cp": ")", "as": "*", "pl": "+", "co": ",", "sl": "/",
	"cn": ":", "sc": ";", "lt": "<", "eq": "=", "gt": ">", "qu": "?", "at": "@",
	"ox": "[", "ls": `\`, "cx": "]", "vb": "|", "nu": "\x00",
}

// A Document is a property file open for change. Everything unchanged prints
// back octet by octet: comments, order, spelling, folding, line ends, and all
// after the first record. Only the first record is read and changed.
//
// The zero Document is an empty file.
type Document struct {
	mark  string // the byte order mark, or ""
	lines []entry
	end   int // lines[:end] are the first record and all before it
}

// An entry is an element with its continuation lines and the comments among
// them, or any other single line.
type entry struct {
	raw     string // the octets, line ends included
	element bool
	Element
}

// ParseDocument reads a property file. It fails where [ParseRecord] does.
func ParseDocument(b []byte) (*Document, error) {
	rest := string(b)
	d := new(Document)
	if strings.HasPrefix(rest, byteOrderMark) {
		d.mark, rest = byteOrderMark, rest[len(byteOrderMark):]
	}
	var (
		p     parser
		last  = -1 // index of the last element
		start = "" // the input from the last element on
		done  bool
		err   error
	)
	for rest != "" && !done {
		from := rest
		var line string
		line, rest = cutLine(rest)
		elements := len(p.record)
		if done, err = p.feed(line); err != nil {
			return nil, err
		}
		if !done {
			d.end = len(d.lines) + 1
		}
		switch {
		case len(p.record) > elements:
			last, start = len(d.lines), from
		case last >= 0 && line != "" && isBlank(line[0]):
			// The element takes in the comments before its continuation.
			d.lines = d.lines[:last+1]
			d.lines[last].raw = start[:len(start)-len(rest)]
			d.end = last + 1
			continue
		}
		d.lines = append(d.lines, entry{
			raw:     from[:len(from)-len(rest)],
			element: last == len(d.lines),
		})
	}
	if rest != "" {
		d.lines = append(d.lines, entry{raw: rest})
	}
	record := p.take()
	for i := range d.lines {
		if d.lines[i].element {
			d.lines[i].Element, record = record[0], record[1:]
		}
	}
	return d, nil
}

// Record returns a copy of the first record, nil if there is none.
func (d *Document) Record() Record {
	var r Record
	for _, e := range d.lines {
		if e.element {
			r = append(r, e.Element)
		}
	}
	return r
}

// Lookup returns the value of the first element of the given name, and whether
// there is one.
func (d *Document) Lookup(name string) (value string, ok bool) {
	return d.Record().Lookup(name)
}

// Set gives the first element of the given name a new value and drops its
// repeats. The name keeps its spelling in the file, and comments within a
// folded value stay, after the element. If the value is the same already,
// nothing is touched. Without such an element it is the same as [Document.Add].
func (d *Document) Set(name, value string) {
	i := slices.IndexFunc(d.lines, func(e entry) bool { return e.named(name) })
	if i < 0 {
		d.Add(name, value)
		return
	}
	if e := &d.lines[i]; e.Value != value {
		e.Value = value
		e.raw = string(AppendElement(nil, e.Name, value)) + comments(e.raw)
	}
	d.drop(name, i+1)
}

// Remove drops the elements of the given name. Comments within a folded value stay.
func (d *Document) Remove(name string) { d.drop(name, 0) }

// drop is Remove from a line on.
func (d *Document) drop(name string, from int) {
	for i := len(d.lines) - 1; i >= from; i-- {
		e := &d.lines[i]
		if !e.named(name) {
			continue
		}
		if e.element, e.raw = false, comments(e.raw); e.raw == "" {
			d.lines = slices.Delete(d.lines, i, i+1)
			d.end--
		}
	}
}

func (e *entry) named(name string) bool { return e.element && strings.EqualFold(e.Name, name) }

// Add appends an element to the first record.
func (d *Document) Add(name, value string) {
	if !slices.ContainsFunc(d.lines, func(e entry) bool { return e.element }) {
		d.end = len(d.lines) // there are only comments and empty lines
	}
	d.lines = slices.Insert(d.lines, d.end, entry{
		raw:     string(AppendElement(nil, name, value)),
		element: true,
		Element: Element{Name: name, Value: value},
	})
	d.end++
}

// Bytes returns the file as it now is.
func (d *Document) Bytes() []byte {
	b := []byte(d.mark)
	for i, e := range d.lines {
		if i > 0 && !separate(d.lines[i-1].raw, e.raw) {
			b = append(b, '\n')
		}
		b = append(b, e.raw...)
	}
	return b
}

// separate reports whether the end of raw and the beginning of next stay two
// lines when written one behind the other. Lines that were not neighbours when
// read may lack an end, or make one end out of a CR and the LF of an empty line.
func separate(raw, next string) bool {
	switch raw[len(raw)-1] {
	case '\n':
		return true
	case '\r':
		return next[0] != '\n'
	}
	return false
}

// comments returns the comment lines within an element.
func comments(raw string) string {
	var kept strings.Builder
	for raw != "" {
		from := raw
		var line string
		line, raw = cutLine(raw)
		if strings.HasPrefix(line, "#") {
			kept.WriteString(from[:len(from)-len(raw)])
		}
	}
	return kept.String()
}
