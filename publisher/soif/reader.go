package soif

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// DefaultLimit is the default limit of an object, in octets.
const DefaultLimit = 16 << 20

const (
	maxToken   = 8 << 10 // octets of a type, a URL or a name
	overhead   = 64      // of an attribute, besides its octets
	bufferSize = 64 << 10
	maxMended  = 32 << 10 // octets of a value whose size may be mended
	maxMends   = 20       // to be named
)

// A Reader reads objects one after the other. It mends what people and printers do to
// SOIF, and says so, see [Reader.Mended]: sizes that do not fit, as in {x}, and blanks in
// place of the TAB. A size fits if the value is followed by the next attribute or the end
// of the object, blanks before them or not. With any other size the value ends before the
// first blank that is followed by these. Values of more than 32 KiB are taken by their
// size.
type Reader struct {
	// Limit is the most memory of an object, in octets: its values and names,
	// and 64 for each attribute. 0 is DefaultLimit.
	Limit int
	// Clean refuses anything between objects except blanks. Without it,
	// byte order marks and other lines are skipped, as Harvest does; see
	// [Reader.Skipped].
	Clean bool
	// Memory, if not nil, is asked before an object takes n more bytes of memory; its
	// error ends the reading.
	Memory func(n int) error

	in     *bufio.Reader
	offset int64 // octets used
	line   int   // from 1
	err    error // the last result of Read

	skipped Skipped
	mended  []string
	mends   int

	attribute string // being read, for errors
	size      int64
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, bufferSize), line: 1, size: -1}
}

// Read returns the next object, or io.EOF after the last. A [*ParseError] ends
// the reading.
func (r *Reader) Read() (Object, error) {
	if r.err != nil {
		return Object{}, r.err
	}
	o, err := r.read()
	if err != nil {
		r.err = err
		return Object{}, err
	}
	return o, nil
}

// Offset returns how many octets were used: up to the end of the last object.
func (r *Reader) Offset() int64 { return r.offset }

// Mended returns what was mended up to now, in words: the first 20 mistakes, and how many
// there were in all.
func (r *Reader) Mended() (first []string, all int) { return r.mended, r.mends }

// Skipped returns what was skipped up to now.
func (r *Reader) Skipped() Skipped { return r.skipped }

// Skipped is the text of an input outside of objects, as far as it was read.
type Skipped struct {
	Mark  bool // a byte order mark
	Lines int  // with text outside of objects
	First int  // of these lines, from 1
}

func (s Skipped) String() string {
	var parts []string
	if s.Mark {
		parts = append(parts, "a byte order mark")
	}
	switch {
	case s.Lines == 1:
		parts = append(parts, fmt.Sprintf("line %d", s.First))
	case s.Lines > 1:
		parts = append(parts, fmt.Sprintf("%d lines from line %d on", s.Lines, s.First))
	}
	return strings.Join(parts, ", ")
}

func (r *Reader) read() (o Object, err error) {
	if err := r.seek(); err != nil {
		return o, err
	}
	if o.Type, o.URL, err = r.head(); err != nil {
		return o, err
	}
	o.Attributes, err = r.attributes(len(o.Type) + len(o.URL))
	return o, err
}

// byteOrderMark begins files of some editors, and parts of files put together of others.
const byteOrderMark = "\ufeff"

// seek goes to the "@" of the next object.
func (r *Reader) seek() error {
	r.attribute, r.size = "", -1
	for {
		w, err := r.skip()
		if err != nil {
			return err
		}
		switch {
		case w[0] == '@':
			return nil
		case r.Clean:
			return r.wrong("an object begins with @")
		}
		if mark, _ := r.in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			r.use(len(mark))
			r.skipped.Mark = true
			continue
		}
		if r.skipped.Lines++; r.skipped.Lines == 1 {
			r.skipped.First = r.line
		}
		for ended := false; !ended; {
			if w, err = r.window(1); err != nil {
				return err
			}
			n := bytes.IndexByte(w, '\n')
			if ended = n >= 0; !ended {
				n = len(w) - 1
			}
			r.use(n + 1)
		}
	}
}

// head reads the beginning of an object: @TYPE { URL
func (r *Reader) head() (typ, url string, err error) {
	r.use(1)
	if typ, err = r.token(nameOctet); err != nil {
		return "", "", err
	}
	if typ == "" || typ[0] == '@' {
		return "", "", r.wrong("a template type is wanted behind @")
	}
	w, err := r.skip()
	if err != nil {
		return "", "", r.more(err)
	}
	if w[0] != '{' {
		return "", "", r.wrong("{ is wanted behind the template type")
	}
	r.use(1)
	if w, err = r.skip(); err != nil {
		return "", "", r.more(err)
	}
	if w[0] == '@' || w[0] == '}' || !visible(w[0]) {
		return "", "", r.wrong("a URL or - is wanted")
	}
	if url, err = r.token(visible); url == "-" {
		url = ""
	}
	return typ, url, err
}

// attributes reads up to the "}" at the end of the object, of which used octets
// are in memory already.
func (r *Reader) attributes(used int) (list []Attribute, err error) {
	limit := r.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	for {
		w, err := r.skip()
		if err != nil {
			return nil, r.more(err)
		}
		if w[0] == '}' {
			r.use(1)
			return list, nil
		}
		r.attribute, r.size = "", -1
		name, err := r.token(nameOctet)
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, r.wrong("the name of an attribute or } is wanted")
		}
		r.attribute = name
		if r.size, err = r.readSize(); err != nil {
			return nil, err
		}
		if used += len(name) + overhead; used > limit || r.size > int64(limit-used) {
			return nil, r.fail(fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit))
		}
		if err := r.take(len(name) + overhead); err != nil {
			return nil, err
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		if used += len(value); used > limit {
			return nil, r.fail(fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit))
		}
		list = append(list, Attribute{name, value})
	}
}

// sizeOctet tells whether c may be part of a size, or of what people write in its place.
func sizeOctet(c byte) bool { return c >= '0' && c <= '9' || strings.IndexByte("xXnN?", c) >= 0 }

// readSize reads "{", the size, "}" and ":". A size that is no number is -1.
func (r *Reader) readSize() (size int64, err error) {
	if err := r.want('{', "{ and a size are wanted behind the name"); err != nil {
		return 0, err
	}
	text, err := r.token(sizeOctet)
	if err != nil {
		return 0, err
	}
	if err := r.want('}', "the size is not a number that } ends"); err != nil {
		return 0, err
	}
	size, err = strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, r.fail(fmt.Errorf("%w: size %.20s", ErrTooLarge, text))
	case err != nil:
		size = -1
	}
	return size, r.want(':', ": is wanted behind the size")
}

// value reads the TAB and the value of an attribute.
func (r *Reader) value() (string, error) {
	w, err := r.window(1)
	if err != nil {
		return "", r.more(err)
	}
	tab := w[0] == '\t'
	if !blank(w[0]) && w[0] != '}' {
		return "", r.wrong("a TAB is wanted behind the colon")
	}
	if r.size > maxMended {
		r.use(1)
		return r.octets(int(r.size))
	}
	// The value begins behind one blank, or behind several that were to be a TAB.
	for n := 0; r.size >= 0 && n < 2; n++ {
		begin := 1
		if n == 1 {
			w, _ = r.window(1)
			begin = blanks(w)
		}
		fits, err := r.fits(begin + int(r.size))
		if err != nil {
			return "", err
		}
		if fits {
			if !tab && r.size > 0 {
				r.mend("a blank in place of the TAB")
			}
			r.use(begin)
			return r.octets(int(r.size))
		}
	}
	w, err = r.window(bufferSize / 2)
	if err != nil && err != io.EOF {
		return "", err
	}
	begin := blanks(w)
	n := valueEnd(w[begin:])
	switch {
	case n < 0 && err == io.EOF:
		r.use(len(w))
		return "", r.more(err)
	case n < 0:
		return "", r.wrong("the size does not fit, and the end of the value is not found")
	}
	was := "no number"
	if r.size >= 0 {
		was = strconv.FormatInt(r.size, 10)
	}
	r.mend(fmt.Sprintf("size is %s, now %d", was, n))
	r.size = int64(n)
	r.use(begin)
	return r.octets(n)
}

// mend notes a mistake at the attribute being read.
func (r *Reader) mend(what string) {
	if r.mends++; len(r.mended) < maxMends {
		r.mended = append(r.mended, fmt.Sprintf("line %d: attribute %.60q: %s", r.line, r.attribute, what))
	}
}

// fits reports whether what follows n octets can follow a value: the end of the object, or
// the name and brace of an attribute, blanks before them or not. It reads no further than
// it has to.
func (r *Reader) fits(n int) (bool, error) {
	for more := n + 1; ; {
		w, err := r.window(more)
		if err != nil && err != io.EOF {
			return false, err
		}
		if n < len(w) {
			rest := w[n+blanks(w[n:]):]
			end := 0
			for end < len(rest) && nameOctet(rest[end]) {
				end++
			}
			if end < len(rest) {
				return rest[end] == '}' && end == 0 || rest[end] == '{' && end > 0, nil
			}
		}
		if err == io.EOF {
			return false, nil
		}
		if more = len(w) + 1; more > bufferSize {
			return true, nil // many blanks, or a long name: what follows decides
		}
	}
}

// valueEnd returns where a value without a fitting size ends, -1 if that is not found.
func valueEnd(p []byte) int {
	for i := 0; i < len(p); i++ {
		n := blanks(p[i:])
		if n == 0 && i > 0 {
			continue
		}
		if rest := p[i+n:]; closes(rest) || opens(rest) {
			return i
		}
		i += max(n-1, 0)
	}
	return -1
}

// closes reports whether p begins with the end of an object.
func closes(p []byte) bool {
	return len(p) > 0 && p[0] == '}' && (len(p) == 1 || blank(p[1]) || p[1] == '@')
}

// opens reports whether p begins with an attribute: a name, a size in braces, a colon.
func opens(p []byte) bool {
	name, rest, ok := bytes.Cut(p[:min(len(p), maxToken)], []byte("{"))
	size, rest, closed := bytes.Cut(rest[:min(len(rest), 16)], []byte("}"))
	return ok && closed && len(name) > 0 && bytes.IndexFunc(name, func(c rune) bool { return c == '}' || c <= ' ' || c == 0x7f }) < 0 &&
		bytes.Trim(size, "0123456789xXnN?") == nil && len(rest) > 0 && rest[0] == ':'
}

// octets reads n octets. It takes no more than twice the memory of the input that is there.
func (r *Reader) octets(n int) (string, error) {
	var b strings.Builder
	for b.Len() < n {
		w, err := r.window(1)
		if err != nil {
			return "", r.more(err)
		}
		part := w[:min(len(w), n-b.Len())]
		if err := r.take(2 * len(part)); err != nil {
			return "", err
		}
		b.Write(part)
		r.use(len(part))
	}
	return b.String(), r.take(-n)
}

// take asks for n more bytes of memory.
func (r *Reader) take(n int) error {
	if r.Memory == nil || n == 0 {
		return nil
	}
	return r.Memory(n)
}

// want uses one octet; it must be c.
func (r *Reader) want(c byte, otherwise string) error {
	w, err := r.window(1)
	if err != nil {
		return r.more(err)
	}
	if w[0] != c {
		return r.wrong(otherwise)
	}
	r.use(1)
	return nil
}

// token uses the octets of the kind.
func (r *Reader) token(kind func(byte) bool) (string, error) {
	for n := 0; ; {
		w, err := r.window(n + 1)
		if err != nil {
			return "", r.more(err)
		}
		for n < len(w) && kind(w[n]) {
			n++
		}
		switch {
		case n > maxToken:
			return "", r.fail(fmt.Errorf("%w: a word of more than %d octets", ErrTooLarge, maxToken))
		case n < len(w):
			s := string(w[:n])
			r.use(n)
			return s, nil
		}
	}
}

// skip passes over blanks, and returns what is there behind them. At the end of the input
// it returns io.EOF.
func (r *Reader) skip() ([]byte, error) {
	for {
		w, err := r.window(1)
		if err != nil {
			return nil, err
		}
		n := blanks(w)
		r.use(n)
		if n < len(w) {
			return w[n:], nil
		}
	}
}

// blanks counts the blanks that begin p.
func blanks(p []byte) (n int) {
	for n < len(p) && blank(p[n]) {
		n++
	}
	return n
}

// window returns what is there of the input, unused: at least n octets, or those up to an
// error, such as io.EOF.
func (r *Reader) window(n int) ([]byte, error) {
	_, err := r.in.Peek(n)
	w, _ := r.in.Peek(r.in.Buffered())
	return w, err
}

// use passes over n octets that are there.
func (r *Reader) use(n int) {
	w, _ := r.in.Peek(n)
	r.line += bytes.Count(w, []byte("\n"))
	r.offset += int64(n)
	r.in.Discard(n)
}

// more turns the end of the input into the error of an object cut short.
func (r *Reader) more(err error) error {
	if err == io.EOF {
		return r.fail(io.ErrUnexpectedEOF)
	}
	return err
}

func (r *Reader) wrong(what string) error { return r.fail(errors.New(what)) }

// fail says where err was found.
func (r *Reader) fail(err error) error {
	follows, _ := r.in.Peek(min(24, r.in.Buffered()))
	return &ParseError{Line: r.line, Offset: r.offset, Attribute: r.attribute, Size: r.size, Follows: string(follows), Err: err}
}
