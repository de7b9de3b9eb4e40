// Package soif reads and writes SOIF, the Summary Object Interchange Format of
// Harvest for resource descriptions (RFC 2655, section 3).
//
//	@DOCUMENT { http://example.org/a
//	Title{5}:	Hello
//	Author-1{3}:	Ann
//	}
//
// An object has a template type, a URL, or "-" in its place, and attributes.
// The number in braces is the length of a value in bytes of any kind; so a
// value may hold line ends, braces and whole objects.
//
// The package writes one attribute a line as above. It reads all of the grammar, names of
// any visible characters but braces, since names in use break the grammar, and text as it
// is printed, with wrong numbers; [Reader.Mended] says what was mended.
//
// A name with a hyphen and a number at its end is one of several values of the
// name before it; see [Object.Values].
package soif

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Attribute is a name and a value of any bytes.
type Attribute struct {
	Name  string
	Value string
}

// An Object describes one resource. Names are compared without regard to case;
// they may repeat, and keep their order.
type Object struct {
	Type       string // of the template, such as DOCUMENT; never empty
	URL        string // of the resource; "" is written as "-"
	Attributes []Attribute
}

// Is reports whether the object has the template type, in any case.
func (o *Object) Is(typ string) bool { return strings.EqualFold(o.Type, typ) }

// Lookup returns the value of the first attribute of the name, and whether
// there is one.
func (o *Object) Lookup(name string) (value string, ok bool) {
	for i := range o.Attributes {
		if strings.EqualFold(o.Attributes[i].Name, name) {
			return o.Attributes[i].Value, true
		}
	}
	return "", false
}

// Value returns the value of the first attribute of the name, or "".
func (o *Object) Value(name string) string {
	value, _ := o.Lookup(name)
	return value
}

// Values returns all values of a name: first those of the name itself, then
// those of the name with a number, by their numbers.
func (o *Object) Values(name string) []string {
	type numbered struct {
		n     int
		value string
	}
	var found []numbered
	for _, a := range o.Attributes {
		if strings.EqualFold(a.Name, name) {
			found = append(found, numbered{0, a.Value})
		} else if base, n := Base(a.Name); n > 0 && strings.EqualFold(base, name) {
			found = append(found, numbered{n, a.Value})
		}
	}
	slices.SortStableFunc(found, func(a, b numbered) int { return a.n - b.n })
	values := make([]string, len(found))
	for i, f := range found {
		values[i] = f.value
	}
	return values
}

// Add appends an attribute.
func (o *Object) Add(name, value string) {
	o.Attributes = append(o.Attributes, Attribute{name, value})
}

// Base splits a name like Author-2 into Author and 2. The number has one to nine digits
// without leading zeros; else n is 0.
func Base(name string) (base string, n int) {
	i := strings.LastIndexByte(name, '-')
	digits := name[i+1:]
	if i < 1 || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" || strings.HasPrefix(digits, "0") {
		return name, 0
	}
	if n, _ = strconv.Atoi(digits); n == 0 {
		return name, 0
	}
	return name[:i], n
}

// visible tells whether c may be part of a type, a URL or a name: no control
// character and no blank.
func visible(c byte) bool { return c > ' ' && c != 0x7f }

// ofName tells whether c may be part of a type or a name.
func ofName(c byte) bool { return visible(c) && c != '{' && c != '}' }

// blanks may stand between attributes.
const blanks = " \t\r\n"

func blank(c byte) bool { return strings.IndexByte(blanks, c) >= 0 }

// Check returns the reason why the object cannot be written: a type, a URL or a
// name that would not read back the same.
func (o *Object) Check() error {
	switch {
	case !all(o.Type, ofName, 1) || o.Type[0] == '@':
		return fmt.Errorf("template type %.60q cannot be written", o.Type)
	case !all(o.URL, visible, 0) || o.URL == "-" || o.URL != "" && (o.URL[0] == '@' || o.URL[0] == '}'):
		return fmt.Errorf("URL %.80q cannot be written", o.URL)
	}
	for i := range o.Attributes {
		if !all(o.Attributes[i].Name, ofName, 1) {
			return fmt.Errorf("attribute name %.60q cannot be written", o.Attributes[i].Name)
		}
	}
	return nil
}

// all tells whether s has at least so many bytes, all of the kind, and is no longer than a
// Reader takes.
func all(s string, kind func(byte) bool, least int) bool {
	for i := range len(s) {
		if !kind(s[i]) {
			return false
		}
	}
	return len(s) >= least && len(s) <= maxWord
}

// Write writes the object to w, without a copy of its values. An object that could not be
// read again is refused, and nothing of it is written.
func (o *Object) Write(w io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	b.Write(AppendHead(nil, o.Type, o.URL))
	for i := range o.Attributes {
		a := &o.Attributes[i]
		b.Write(appendName(b.AvailableBuffer(), a.Name, len(a.Value)))
		b.WriteString(a.Value)
		b.WriteByte('\n')
	}
	b.Write(AppendEnd(nil))
	return b.Flush()
}

// Append appends the object to dst as Write writes it. Check must accept it.
func (o *Object) Append(dst []byte) []byte {
	dst = AppendHead(dst, o.Type, o.URL)
	for i := range o.Attributes {
		dst = AppendAttribute(dst, o.Attributes[i].Name, o.Attributes[i].Value)
	}
	return AppendEnd(dst)
}

// AppendHead appends the first line of an object; the caller goes on with
// [AppendAttribute] and [AppendEnd].
func AppendHead(dst []byte, typ, url string) []byte {
	dst = append(append(append(dst, '@'), typ...), " { "...)
	if url == "" {
		url = "-"
	}
	return append(append(dst, url...), '\n')
}

// AppendAttribute appends the line, or the lines, of an attribute.
func AppendAttribute(dst []byte, name, value string) []byte {
	return append(append(appendName(dst, name, len(value)), value...), '\n')
}

// appendName appends the part of an attribute before its value.
func appendName(dst []byte, name string, size int) []byte {
	dst = append(append(dst, name...), '{')
	dst = strconv.AppendInt(dst, int64(size), 10)
	return append(dst, "}:\t"...)
}

// AppendEnd appends the last line of an object.
func AppendEnd(dst []byte) []byte { return append(dst, "}\n"...) }

// DefaultLimit is the default limit of an object, in bytes.
const DefaultLimit = 16 << 20

const (
	maxWord    = 8 << 10 // bytes of a type, a URL or a name
	overhead   = 64      // of an attribute, besides its bytes
	bufferSize = 64 << 10
	maxMended  = 32 << 10 // bytes of a value whose size may be mended
	maxMends   = 20       // to be named
)

// ErrTooLarge is within the error for an object larger than its reader allows.
var ErrTooLarge = errors.New("object too large")

// A ParseError describes an error in SOIF, and its place.
type ParseError struct {
	Line      int    // from 1
	Attribute string // with the wrong value, name or size; "" outside of attributes
	Follows   string // the next bytes of the input, some of them
	Err       error
}

func (e *ParseError) Error() string {
	text := fmt.Sprintf("line %d: ", e.Line)
	if e.Attribute != "" {
		text += fmt.Sprintf("attribute %.60q: ", e.Attribute)
	}
	text += e.Err.Error()
	if e.Follows != "" {
		text += fmt.Sprintf(", there is %q", e.Follows)
	}
	return text
}

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }

// A Reader reads objects one after the other. It mends what people and printers do to SOIF,
// and notes each change:
//
//   - Sizes that do not fit, as in {x}. A size fits if the value is followed by the next
//     attribute or the end of the object, blanks before them or not. With any other size
//     the value ends before the first blank that is followed by these. Values of more
//     than 32 KiB are taken by their size.
//   - Blanks in place of the TAB.
//   - Byte order marks, and lines of text outside of objects. They are skipped.
type Reader struct {
	// Limit is the most memory of an object, in bytes: its values and names,
	// and 64 for each attribute. 0 is DefaultLimit.
	Limit int
	// Memory, if not nil, is asked before an object takes n more bytes of memory; its
	// error ends the reading.
	Memory func(n int) error

	in        *bufio.Reader
	line      int    // from 1
	err       error  // of the last Read
	used      int    // bytes of the object that is being read
	attribute string // that is being read, for errors; "" outside of attributes
	mended    []string
	mends     int
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, bufferSize), line: 1}
}

// Read returns the next object, or io.EOF after the last. It reads no further than the end
// of the object. A [*ParseError] ends the reading.
func (r *Reader) Read() (o Object, err error) {
	if r.err == nil {
		r.used, r.attribute = 0, ""
		o, r.err = r.object()
	}
	if r.err != nil {
		return Object{}, r.err
	}
	return o, nil
}

// Mended returns what was mended up to now, in words: the first 20 mistakes, and how many
// there were in all.
func (r *Reader) Mended() (first []string, all int) { return r.mended, r.mends }

func (r *Reader) mend(what string) {
	if r.mends++; len(r.mended) == maxMends {
		return
	}
	place := fmt.Sprintf("line %d: ", r.line)
	if r.attribute != "" {
		place += fmt.Sprintf("attribute %.60q: ", r.attribute)
	}
	r.mended = append(r.mended, place+what)
}

func (r *Reader) object() (o Object, err error) {
	if err := r.seek(); err != nil {
		return o, err
	}
	o.Type, err = r.word(ofName)
	if err == nil && (o.Type == "" || o.Type[0] == '@') {
		err = r.wrong("a template type is wanted behind @")
	}
	if err == nil {
		_, err = r.skip()
	}
	if err == nil {
		err = r.want('{', "{ is wanted behind the template type")
	}
	if err != nil {
		return o, r.cut(err)
	}
	first, err := r.skip()
	if err == nil && (first == '@' || first == '}' || !visible(first)) {
		err = r.wrong("a URL or - is wanted")
	}
	if err != nil {
		return o, r.cut(err)
	}
	if o.URL, err = r.word(visible); o.URL == "-" {
		o.URL = ""
	}
	r.used = len(o.Type) + len(o.URL)
	for err == nil {
		r.attribute = ""
		if first, err = r.skip(); err != nil {
			break
		}
		if first == '}' {
			r.in.Discard(1)
			return o, nil
		}
		var a Attribute
		if a, err = r.readAttribute(); err == nil {
			o.Attributes = append(o.Attributes, a)
		}
	}
	return o, r.cut(err)
}

// seek goes behind the "@" of the next object.
func (r *Reader) seek() error {
	for {
		c, err := r.skip()
		if err != nil {
			return err
		}
		if c == '@' {
			r.in.Discard(1)
			return nil
		}
		const mark = "\ufeff" // begins files of some editors, and parts of files put together of others
		if next, _ := r.in.Peek(len(mark)); string(next) == mark {
			r.mend("a byte order mark is skipped")
			r.in.Discard(len(mark))
			continue
		}
		r.mend("text outside of objects is skipped")
		for c != '\n' {
			if c, err = r.in.ReadByte(); err != nil {
				return err
			}
		}
		r.line++
	}
}

func (r *Reader) readAttribute() (a Attribute, err error) {
	if a.Name, err = r.word(ofName); err != nil {
		return a, err
	}
	if r.attribute = a.Name; a.Name == "" {
		return a, r.wrong("the name of an attribute or } is wanted")
	}
	if err := cmp.Or(r.count(len(a.Name)+overhead), r.grow(len(a.Name)+overhead)); err != nil {
		return a, err
	}
	if err := r.want('{', "{ and a size are wanted behind the name"); err != nil {
		return a, err
	}
	// Other characters stand where people had no number.
	text, err := r.word(func(c byte) bool { return c >= '0' && c <= '9' || strings.IndexByte("xXnN?", c) >= 0 })
	if err != nil {
		return a, err
	}
	if err := r.want('}', "the size is not a number that } ends"); err != nil {
		return a, err
	}
	if err := r.want(':', ": is wanted behind the size"); err != nil {
		return a, err
	}
	size, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		size = -1
	}
	a.Value, err = r.value(size)
	return a, err
}

// value reads the TAB and the value of an attribute. size is -1 if there is no number.
func (r *Reader) value(size int) (string, error) {
	tab, err := r.in.ReadByte()
	if err != nil {
		return "", err
	}
	if !blank(tab) {
		r.in.UnreadByte()
		return "", r.wrong("a TAB is wanted behind the colon")
	}
	if size > maxMended {
		return r.bytes(size)
	}
	begin := 0
	for size >= 0 {
		fits, err := r.fits(begin + size)
		if err != nil {
			return "", err
		}
		if fits {
			if size > 0 && (tab != '\t' || begin > 0) {
				r.mend("a blank in place of the TAB")
			}
			r.use(begin)
			return r.bytes(size)
		}
		if begin > 0 {
			break
		}
		// Several blanks may stand for the TAB.
		w, _ := r.window(1)
		if begin = len(w) - len(bytes.TrimLeft(w, blanks)); begin == 0 {
			break
		}
	}
	w, err := r.window(maxMended)
	if err != nil && err != io.EOF {
		return "", err
	}
	begin = len(w) - len(bytes.TrimLeft(w, blanks))
	end := endOfValue.FindIndex(w[begin:])
	switch {
	case end == nil && err == io.EOF:
		r.use(len(w))
		return "", err
	case end == nil:
		return "", r.wrong("the size does not fit, and the end of the value is not found")
	}
	was := "no number"
	if size >= 0 {
		was = strconv.Itoa(size)
	}
	r.mend(fmt.Sprintf("size is %s, now %d", was, end[0]))
	r.use(begin)
	return r.bytes(end[0])
}

// endOfValue begins at the end of a value without a size that fits: behind it the object
// ends, or there are a name, a size and a colon.
var endOfValue = regexp.MustCompile(`(?:^|[ \t\r\n])[ \t\r\n]*(?:\}(?:[ \t\r\n@]|$)|[^\x00-\x20\x7f{}]+\{[0-9xXnN?]*\}:)`)

// fits reports whether what is behind n bytes can follow a value: the end of the object, or
// the name and brace of an attribute, blanks before them or not. It waits for no more input
// than it has to.
func (r *Reader) fits(n int) (bool, error) {
	for more := n + 1; more <= bufferSize; {
		w, err := r.window(more)
		if n < len(w) {
			rest := bytes.TrimLeft(w[n:], blanks)
			end := 0
			for end < len(rest) && ofName(rest[end]) {
				end++
			}
			if end < len(rest) {
				return rest[end] == '}' && end == 0 || rest[end] == '{' && end > 0, nil
			}
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		more = len(w) + 1
	}
	return true, nil // many blanks, or a long name: what follows decides
}

// count adds n bytes to the size of the object.
func (r *Reader) count(n int) error {
	limit := r.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	if n > limit-r.used {
		return r.place(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
	}
	r.used += n
	return nil
}

// grow asks for n more bytes of memory, or gives some back.
func (r *Reader) grow(n int) error {
	if r.Memory == nil || n == 0 {
		return nil
	}
	return r.Memory(n)
}

// bytes reads a value of n bytes. It takes no more than twice the memory of the input that
// is there.
func (r *Reader) bytes(n int) (string, error) {
	if err := r.count(n); err != nil {
		return "", err
	}
	var b strings.Builder
	for b.Len() < n {
		w, err := r.window(1)
		if len(w) == 0 {
			return "", err
		}
		part := w[:min(len(w), n-b.Len())]
		if err := r.grow(2 * len(part)); err != nil {
			return "", err
		}
		b.Write(part)
		r.use(len(part))
	}
	return b.String(), r.grow(-n)
}

// want uses one byte; it must be c.
func (r *Reader) want(c byte, otherwise string) error {
	next, err := r.in.ReadByte()
	if err == nil && next != c {
		r.in.UnreadByte()
		err = r.wrong(otherwise)
	}
	return err
}

// word uses the bytes of a kind.
func (r *Reader) word(kind func(byte) bool) (string, error) {
	var b []byte
	for {
		c, err := r.in.ReadByte()
		switch {
		case err != nil:
			return "", err
		case !kind(c):
			return string(b), r.in.UnreadByte()
		case len(b) == maxWord:
			return "", r.place(fmt.Errorf("%w: a word of more than %d bytes", ErrTooLarge, maxWord))
		}
		b = append(b, c)
	}
}

// skip passes over blanks and returns what is behind them, without using it.
func (r *Reader) skip() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !blank(c) {
			return c, r.in.UnreadByte()
		}
		if c == '\n' {
			r.line++
		}
	}
}

// window returns the input that is there, unused: at least n bytes, or those up to an
// error, such as io.EOF.
func (r *Reader) window(n int) ([]byte, error) {
	_, err := r.in.Peek(n)
	w, _ := r.in.Peek(r.in.Buffered())
	return w, err
}

// use passes over n bytes that are there.
func (r *Reader) use(n int) {
	w, _ := r.in.Peek(n)
	r.line += bytes.Count(w, []byte("\n"))
	r.in.Discard(n)
}

// cut turns the end of the input into the error of an object cut short.
func (r *Reader) cut(err error) error {
	if err == io.EOF {
		return r.place(io.ErrUnexpectedEOF)
	}
	return err
}

func (r *Reader) wrong(what string) error { return r.place(errors.New(what)) }

// place says where err was found.
func (r *Reader) place(err error) error {
	follows, _ := r.in.Peek(min(24, r.in.Buffered()))
	return &ParseError{Line: r.line, Attribute: r.attribute, Follows: string(follows), Err: err}
}
