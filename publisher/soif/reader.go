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

// A Reader reads objects one after the other.
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
		used += int(size)
		if err := r.take(len(name) + overhead); err != nil {
			return nil, err
		}
		value, err := r.value(int(size))
		if err != nil {
			return nil, err
		}
		list = append(list, Attribute{name, value})
	}
}

// readSize reads "{", the size, "}:" and a TAB.
func (r *Reader) readSize() (int64, error) {
	if err := r.want('{', "{ and a size are wanted behind the name"); err != nil {
		return 0, err
	}
	text, err := r.token(func(c byte) bool { return c >= '0' && c <= '9' })
	if err != nil {
		return 0, err
	}
	if text == "" {
		return 0, r.wrong("the size is not a number")
	}
	if err := r.want('}', "the size is not a number that } ends"); err != nil {
		return 0, err
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, r.fail(fmt.Errorf("%w: size %.20s", ErrTooLarge, text))
	}
	if err := r.want(':', ": is wanted behind the size"); err != nil {
		return 0, err
	}
	return size, r.want('\t', "a TAB is wanted behind the colon")
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
