package soif

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

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
	text := placed(e.Line, e.Attribute, e.Err.Error())
	if e.Follows != "" {
		text += fmt.Sprintf(", there is %q", e.Follows)
	}
	return text
}

// Unwrap returns Err.
func (e *ParseError) Unwrap() error { return e.Err }

func placed(line int, attribute, text string) string {
	if attribute != "" {
		return fmt.Sprintf("line %d: attribute %.60q: %s", line, attribute, text)
	}
	return fmt.Sprintf("line %d: %s", line, text)
}

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
	err       error  // ends the reading: from then on nothing is used of the input
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
func (r *Reader) Read() (Object, error) {
	var o Object
	if r.used, r.attribute = 0, ""; r.seek() {
		o = r.object()
		if r.err == io.EOF {
			r.fail(io.ErrUnexpectedEOF)
		}
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
	if r.mends++; len(r.mended) < maxMends {
		r.mended = append(r.mended, placed(r.line, r.attribute, what))
	}
}

// seek goes behind the "@" of the next object. It returns false if there is none.
func (r *Reader) seek() bool {
	const mark = "\ufeff" // begins files of some editors, and parts of files put together of others
	for r.err == nil {
		c := r.skip()
		if c == '@' {
			r.in.Discard(1)
			return r.err == nil
		}
		if next, _ := r.in.Peek(len(mark)); string(next) == mark {
			r.mend("a byte order mark is skipped")
			r.in.Discard(len(mark))
		} else if r.err == nil {
			r.mend("text outside of objects is skipped")
			for c != '\n' && r.err == nil {
				c, r.err = r.in.ReadByte()
			}
			r.line++
		}
	}
	return false
}

// object reads what is behind the "@".
func (r *Reader) object() (o Object) {
	o.Type = r.word(ofName)
	r.require(o.Type != "" && o.Type[0] != '@', "a template type is wanted behind @")
	r.skip()
	r.want('{', "{ is wanted behind the template type")
	first := r.skip()
	r.require(visible(first) && first != '@' && first != '}', "a URL or - is wanted")
	if o.URL = r.word(visible); o.URL == "-" {
		o.URL = ""
	}
	r.used = len(o.Type) + len(o.URL)
	for r.err == nil {
		r.attribute = ""
		if r.skip() == '}' {
			r.in.Discard(1)
			return o
		}
		o.Attributes = append(o.Attributes, r.readAttribute())
	}
	return o
}

func (r *Reader) readAttribute() (a Attribute) {
	a.Name = r.word(ofName)
	r.attribute = a.Name
	r.require(a.Name != "", "the name of an attribute or } is wanted")
	r.count(len(a.Name) + overhead)
	r.grow(len(a.Name) + overhead)
	r.want('{', "{ and a size are wanted behind the name")
	// Other characters stand where people had no number.
	text := r.word(func(c byte) bool { return c >= '0' && c <= '9' || strings.IndexByte("xXnN?", c) >= 0 })
	r.want('}', "the size is not a number that } ends")
	r.want(':', ": is wanted behind the size")
	size, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		size = -1
	}
	a.Value = r.value(size)
	return a
}

// endOfValue begins at the end of a value without a size that fits: behind it the object
// ends, or there are a name, a size and a colon.
var endOfValue = regexp.MustCompile(
	`(?:^|[ \t\r\n])[ \t\r\n]*(?:\}(?:[ \t\r\n@]|$)|[^\x00-\x20\x7f{}]+\{[0-9xXnN?]*\}:)`)

// value reads the TAB and the value of an attribute. size is -1 if there is no number.
func (r *Reader) value(size int) string {
	tab := r.next()
	if r.require(blank(tab), "a TAB is wanted behind the colon"); r.err != nil {
		return ""
	}
	r.use(1)
	if size > maxMended {
		return r.bytes(size)
	}
	if size >= 0 && r.fits(size) {
		if size > 0 && tab != '\t' {
			r.mend("a blank in place of the TAB")
		}
		return r.bytes(size)
	}
	if r.err != nil {
		return ""
	}
	w, err := r.window(maxMended)
	if err != nil && err != io.EOF {
		r.err = err
		return ""
	}
	begin := len(w) - len(bytes.TrimLeft(w, blanks))
	end := endOfValue.FindIndex(w[begin:])
	switch {
	case end == nil && err == io.EOF:
		r.use(len(w))
		r.err = err
		return ""
	case end == nil:
		r.require(false, "the size does not fit, and the end of the value is not found")
		return ""
	case end[0] == size:
		r.mend("a blank in place of the TAB")
	case size < 0:
		r.mend(fmt.Sprintf("size is no number, now %d", end[0]))
	default:
		r.mend(fmt.Sprintf("size is %d, now %d", size, end[0]))
	}
	r.use(begin)
	return r.bytes(end[0])
}

// fits reports whether what is behind n bytes can follow a value: the end of the object, or
// the name and brace of an attribute, blanks before them or not. It waits for no more input
// than it has to.
func (r *Reader) fits(n int) bool {
	for more := n + 1; more <= bufferSize; {
		w, err := r.window(more)
		if n < len(w) {
			rest := bytes.TrimLeft(w[n:], blanks)
			end := 0
			for end < len(rest) && ofName(rest[end]) {
				end++
			}
			if end < len(rest) {
				return rest[end] == '}' && end == 0 || rest[end] == '{' && end > 0
			}
		}
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			return false
		}
		more = len(w) + 1
	}
	return true // many blanks, or a long name: what follows decides
}

// bytes reads a value of n bytes. It takes no more than twice the memory of the input that
// is there.
func (r *Reader) bytes(n int) string {
	r.count(n)
	var b strings.Builder
	for r.err == nil && b.Len() < n {
		w, err := r.window(1)
		if len(w) == 0 {
			r.err = err
			return ""
		}
		part := w[:min(len(w), n-b.Len())]
		if r.grow(2 * len(part)); r.err == nil {
			b.Write(part)
			r.use(len(part))
		}
	}
	r.grow(-n)
	return b.String()
}

// count adds n bytes to the size of the object.
func (r *Reader) count(n int) {
	limit := r.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	if n > limit-r.used {
		r.fail(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
	}
	r.used += n
}

// grow asks for n more bytes of memory, or gives some back.
func (r *Reader) grow(n int) {
	if r.err == nil && r.Memory != nil && n != 0 {
		r.err = r.Memory(n)
	}
}

// fail ends the reading with err and its place, unless it has ended already.
func (r *Reader) fail(err error) {
	if r.err == nil || r.err == io.EOF {
		follows, _ := r.in.Peek(min(24, r.in.Buffered()))
		r.err = &ParseError{Line: r.line, Attribute: r.attribute, Follows: string(follows), Err: err}
	}
}

func (r *Reader) require(is bool, otherwise string) {
	if r.err == nil && !is {
		r.fail(errors.New(otherwise))
	}
}

// want uses one byte; it must be c.
func (r *Reader) want(c byte, otherwise string) {
	if r.require(r.next() == c, otherwise); r.err == nil {
		r.in.Discard(1)
	}
}

// next returns the next byte without using it.
func (r *Reader) next() byte {
	if r.err != nil {
		return 0
	}
	b, err := r.in.Peek(1)
	if err != nil {
		r.err = err
		return 0
	}
	return b[0]
}

// word uses the bytes of a kind.
func (r *Reader) word(kind func(byte) bool) string {
	var b []byte
	for {
		c := r.next()
		if r.err != nil || !kind(c) {
			return string(b)
		}
		if len(b) == maxWord {
			r.fail(fmt.Errorf("%w: a word of more than %d bytes", ErrTooLarge, maxWord))
			return ""
		}
		b = append(b, c)
		r.in.Discard(1)
	}
}

// blanks may stand between attributes.
const blanks = " \t\r\n"

func blank(c byte) bool { return strings.IndexByte(blanks, c) >= 0 }

// skip passes over blanks and returns what is behind them, without using it.
func (r *Reader) skip() byte {
	for {
		c := r.next()
		if r.err != nil || !blank(c) {
			return c
		}
		r.use(1)
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
