package soif

import (
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
	maxToken    = 8 << 10 // octets of a type, a URL or a name
	overhead    = 64      // of an attribute, besides its octets
	bufferSize  = 64 << 10
	shownOctets = 24
	maxNames    = 1000 // names of attributes to remember
	maxMended   = 32 << 10
	maxMends    = 20
)

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

// byteOrderMark begins files of some editors.
var byteOrderMark = []byte("\ufeff")

// A Reader reads objects one after the other. It mends what people and printers do to
// SOIF, and says so, see [Reader.Mended]: sizes that do not fit, as in {x}, and blanks in
// place of the TAB. A size fits if blanks and the next attribute, or the end of the
// object, follow the value. With any other size the value ends before the first blank that
// is followed by these. Values of more than 32 KiB are taken by their size.
type Reader struct {
	// Limit is the most memory of an object, in octets: its values and names,
	// and 64 for each attribute. 0 is DefaultLimit.
	Limit int
	// Clean refuses anything between objects except blanks. Without it,
	// byte order marks and other lines are skipped, as Harvest does; see
	// [Reader.Skipped].
	Clean bool
	// Memory, if not nil, is asked before an object takes n more bytes of memory; its
	// error ends the reading. With n below zero some are given back.
	Memory func(n int) error

	in     io.Reader
	buf    []byte
	pos    int // buf[pos:end] is read, and not used yet
	end    int
	offset int64 // of buf[0]
	line   int   // of buf[0]
	failed error // of in
	err    error // the last result of Read
	names  map[string]string

	skipped   Skipped
	mended    []string
	mends     int
	attribute string // being read, for errors
	size      int64
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{in: r, line: 1, size: -1} }

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
func (r *Reader) Offset() int64 { return r.offset + int64(r.pos) }

// Skipped returns what was skipped up to now.
func (r *Reader) Skipped() Skipped { return r.skipped }

// Mended returns what was mended up to now, in words: the first 20 mistakes, and how many
// there were in all.
func (r *Reader) Mended() (first []string, all int) { return r.mended, r.mends }

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

// seek goes to the "@" of the next object.
func (r *Reader) seek() error {
	r.attribute, r.size = "", -1
	for {
		if err := r.skip(); err != nil {
			return err
		}
		switch {
		case r.buf[r.pos] == '@':
			return nil
		case r.Clean:
			return r.wrong("an object begins with @")
		}
		if marked, err := r.skipMark(); err != nil {
			return err
		} else if marked {
			continue
		}
		if r.skipped.Lines++; r.skipped.Lines == 1 {
			r.skipped.First = r.line + bytes.Count(r.buf[:r.pos], []byte("\n"))
		}
		if err := r.skipLine(); err != nil {
			return err
		}
	}
}

// skipMark passes over a byte order mark. There may be several: some files are
// others, put together.
func (r *Reader) skipMark() (bool, error) {
	for r.end-r.pos < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, r.buf[r.pos:r.end]) {
		if err := r.fill(); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	if !bytes.HasPrefix(r.buf[r.pos:r.end], byteOrderMark) {
		return false, nil
	}
	r.pos += len(byteOrderMark)
	r.skipped.Mark = true
	return true, nil
}

// skip passes over blanks. At the end of the input it returns io.EOF.
func (r *Reader) skip() error {
	for {
		for r.pos < r.end {
			if !blank(r.buf[r.pos]) {
				return nil
			}
			r.pos++
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

func (r *Reader) skipLine() error {
	for {
		if i := bytes.IndexByte(r.buf[r.pos:r.end], '\n'); i >= 0 {
			r.pos += i + 1
			return nil
		}
		r.pos = r.end
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// head reads the beginning of an object: @TYPE { URL
func (r *Reader) head() (typ, url string, err error) {
	r.pos++
	if typ, err = r.token(nameOctet); err != nil {
		return "", "", err
	}
	if typ == "" || typ[0] == '@' {
		return "", "", r.wrong("a template type is wanted behind @")
	}
	if err := r.more(r.skip()); err != nil {
		return "", "", err
	}
	if r.buf[r.pos] != '{' {
		return "", "", r.wrong("{ is wanted behind the template type")
	}
	r.pos++
	if err := r.more(r.skip()); err != nil {
		return "", "", err
	}
	if c := r.buf[r.pos]; c == '@' {
		return "", "", r.wrong("a URL or - is wanted")
	}
	if url, err = r.token(visible); err != nil {
		return "", "", err
	}
	switch url {
	case "", "}":
		r.pos -= len(url)
		return "", "", r.wrong("a URL or - is wanted")
	case "-":
		url = ""
	}
	return typ, url, nil
}

// attributes reads up to the "}" at the end of the object, of which used octets
// are in memory already.
func (r *Reader) attributes(used int) (list []Attribute, err error) {
	limit := r.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	for {
		if err := r.more(r.skip()); err != nil {
			return nil, err
		}
		if r.buf[r.pos] == '}' {
			r.pos++
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
		size, err := r.readSize()
		if err != nil {
			return nil, err
		}
		used += len(name) + overhead
		if r.size = size; used > limit || size > int64(limit-used) {
			return nil, r.fail(fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit))
		}
		if err := r.take(len(name) + overhead); err != nil {
			return nil, err
		}
		value, err := r.sizedValue(size)
		if err != nil {
			return nil, err
		}
		if used += len(value); used > limit {
			return nil, r.fail(fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit))
		}
		list = append(list, Attribute{name, value})
	}
}

// readSize reads "{", the size, "}:" and a TAB, or a blank in its place. A size that is no
// number is -1.
func (r *Reader) readSize() (int64, error) {
	if err := r.want('{', "{ and a size are wanted behind the name"); err != nil {
		return 0, err
	}
	text, err := r.token(func(c byte) bool {
		return c >= '0' && c <= '9' || c == 'x' || c == 'X' || c == 'n' || c == 'N' || c == '?'
	})
	if err != nil {
		return 0, err
	}
	if err := r.want('}', "the size is not a number that } ends"); err != nil {
		return 0, err
	}
	size := int64(-1)
	if text != "" && strings.Trim(text, "0123456789") == "" {
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, r.fail(fmt.Errorf("%w: size %.20s", ErrTooLarge, text))
		}
	}
	return size, r.want(':', ": is wanted behind the size")
}

// sizedValue reads the TAB and a value whose size was read.
func (r *Reader) sizedValue(size int64) (string, error) {
	if err := r.ensure(1); err != nil {
		return "", err
	}
	tab := r.buf[r.pos] == '\t'
	if !tab && !blank(r.buf[r.pos]) && r.buf[r.pos] != '}' {
		return "", r.wrong("a TAB is wanted behind the colon")
	}
	if size > maxMended {
		r.pos++
		return r.value(int(size))
	}
	// The value begins behind one blank, or behind several that were to be a TAB.
	for n := 0; size >= 0 && n < 2; n++ {
		begin := 1
		if n == 1 {
			begin = blanks(r.buf[r.pos:r.end])
		}
		fits, err := r.fits(begin + int(size))
		if err != nil {
			return "", err
		}
		if fits {
			if !tab && size > 0 {
				r.mend("a blank in place of the TAB")
			}
			r.pos += begin
			return r.value(int(size))
		}
	}
	if err := r.ensure(bufferSize / 2); err != nil {
		return "", err
	}
	begin := blanks(r.buf[r.pos:r.end])
	n := valueEnd(r.buf[r.pos+begin : r.end])
	switch {
	case n < 0 && r.failed == io.EOF:
		r.pos = r.end
		return "", r.fail(io.ErrUnexpectedEOF)
	case n < 0:
		return "", r.wrong("the size does not fit, and the end of the value is not found")
	}
	was := "no number"
	if size >= 0 {
		was = strconv.FormatInt(size, 10)
	}
	r.mend(fmt.Sprintf("size is %s, now %d", was, n))
	r.size = int64(n)
	r.pos += begin
	return r.value(n)
}

// fits reports whether what follows n octets can follow a value: the end of the object, or
// the name and brace of an attribute, blanks before them or not.
func (r *Reader) fits(n int) (bool, error) {
	for {
		if r.pos+n <= r.end {
			rest := r.buf[r.pos+n : r.end]
			i := blanks(rest)
			if i < len(rest) && rest[i] == '}' {
				return true, nil
			}
			end := i
			for end < len(rest) && nameOctet(rest[end]) {
				end++
			}
			if end < len(rest) || end-i > maxToken {
				return end > i && rest[min(end, len(rest)-1)] == '{', nil
			}
		}
		if r.end-r.pos == len(r.buf) {
			return true, nil // many blanks, or a long name: what follows decides
		}
		if err := r.fill(); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
}

// mend notes a mistake at the attribute being read.
func (r *Reader) mend(what string) {
	if r.mends++; len(r.mended) < maxMends {
		line := r.line + bytes.Count(r.buf[:r.pos], []byte("\n"))
		r.mended = append(r.mended, fmt.Sprintf("line %d: attribute %.60q: %s", line, r.attribute, what))
	}
}

// ensure reads until n octets are there, or the input ends.
func (r *Reader) ensure(n int) error {
	for r.end-r.pos < n {
		if err := r.fill(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if r.pos == r.end {
		return r.fail(io.ErrUnexpectedEOF)
	}
	return nil
}

// blanks counts the blanks that begin p.
func blanks(p []byte) (n int) {
	for n < len(p) && blank(p[n]) {
		n++
	}
	return n
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
	i := 0
	for i < len(p) && nameOctet(p[i]) {
		i++
	}
	if i == 0 || i == len(p) || p[i] != '{' {
		return false
	}
	end := bytes.IndexByte(p[i:min(len(p), i+16)], '}')
	return end > 0 && i+end+1 < len(p) && p[i+end+1] == ':' && bytes.Trim(p[i+1:i+end], "0123456789xXnN? ") == nil
}

// value reads n octets. It takes no more than twice the memory of the input that is
// there.
func (r *Reader) value(n int) (string, error) {
	if n <= r.end-r.pos {
		if err := r.take(n); err != nil {
			return "", err
		}
		r.pos += n
		return string(r.buf[r.pos-n : r.pos]), nil
	}
	value, err := r.grown(nil, min(n, bufferSize))
	for err == nil {
		part := r.buf[r.pos:min(r.end, r.pos+n-value.Len())]
		if value.Len()+len(part) > value.Cap() {
			if value, err = r.grown(value, min(n, 2*value.Cap())); err != nil {
				break
			}
		}
		value.Write(part)
		r.pos += len(part)
		if value.Len() == n {
			return value.String(), nil
		}
		err = r.more(r.fill())
	}
	return "", err
}

// grown moves a value to a builder with a capacity of n bytes, which is never
// exceeded: the builder becomes the string.
func (r *Reader) grown(old *strings.Builder, n int) (*strings.Builder, error) {
	if err := r.take(n); err != nil {
		return nil, err
	}
	b := new(strings.Builder)
	b.Grow(n)
	if old == nil {
		return b, nil
	}
	b.WriteString(old.String())
	return b, r.take(-old.Cap())
}

// take asks for n more bytes of memory.
func (r *Reader) take(n int) error {
	if r.Memory == nil {
		return nil
	}
	return r.Memory(n)
}

// want uses one octet; it must be c.
func (r *Reader) want(c byte, otherwise string) error {
	if r.pos == r.end {
		if err := r.more(r.fill()); err != nil {
			return err
		}
	}
	if r.buf[r.pos] != c {
		return r.wrong(otherwise)
	}
	r.pos++
	return nil
}

// token uses the octets of the kind.
func (r *Reader) token(kind func(byte) bool) (string, error) {
	for n := 0; ; {
		for r.pos+n < r.end {
			if !kind(r.buf[r.pos+n]) {
				return r.word(n), nil
			}
			if n++; n > maxToken {
				return "", r.fail(fmt.Errorf("%w: a word of more than %d octets", ErrTooLarge, maxToken))
			}
		}
		if err := r.more(r.fill()); err != nil {
			return "", err
		}
	}
}

// word uses n octets. Words come again and again.
func (r *Reader) word(n int) string {
	b := r.buf[r.pos : r.pos+n]
	r.pos += n
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if n > 0 && n <= 64 && len(r.names) < maxNames {
		if r.names == nil {
			r.names = map[string]string{}
		}
		r.names[s] = s
	}
	return s
}

// fill reads more of the input after the unused part, less than half the
// buffer. At its end it returns io.EOF.
func (r *Reader) fill() error {
	if r.failed != nil {
		return r.failed
	}
	if r.buf == nil {
		r.buf = make([]byte, bufferSize)
	}
	if r.pos > 0 {
		r.line += bytes.Count(r.buf[:r.pos], []byte("\n"))
		r.offset += int64(r.pos)
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.pos = 0
	}
	for range 100 {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		r.failed = err
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		}
	}
	r.failed = io.ErrNoProgress
	return r.failed
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
	return &ParseError{Line: r.line + bytes.Count(r.buf[:r.pos], []byte("\n")), Offset: r.Offset(), Attribute: r.attribute,
		Size: r.size, Follows: string(r.buf[r.pos:min(r.end, r.pos+shownOctets)]), Err: err}
}
