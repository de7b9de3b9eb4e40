package anvl

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
)

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
