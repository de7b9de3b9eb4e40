package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxHead is the most octets a response head, or the trailer of a chunked
// body, may have.
const maxHead = 64 << 10

// Head is what a client of the daemon needs to know of the head of an HTTP/1.1
// response (RFC 9112, 4 and 5). A Head is meant to be read into again and
// again: it keeps its memory.
type Head struct {
	Status          int
	Length          int64  // octets of the body; -1 if it is chunked
	Close           bool   // the server ends the connection after this answer
	RetryAfter      int    // seconds; 0 if the field is missing or is a date
	ContentType     []byte // valid until the next Read, like ContentLocation
	ContentLocation []byte

	hasLength, chunked bool
}

// ErrMalformed is what every complaint about the syntax of an answer wraps.
var ErrMalformed = errors.New("malformed answer")

func malformed(what string, b []byte) error {
	return fmt.Errorf("%w: %s %.80q", ErrMalformed, what, b)
}

// Read reads one response head from r and nothing behind it. It is strict:
// lines end in CR LF, nothing is folded, there is at most one Content-Length,
// chunked is the only transfer coding, and an answer that has neither and may
// have a body is refused, because its end would be the end of the connection.
// The error is io.EOF if r ended before the first octet.
func (h *Head) Read(r *bufio.Reader) error {
	*h = Head{ContentType: h.ContentType[:0], ContentLocation: h.ContentLocation[:0]}
	total := 0
	line, err := readLine(r, &total)
	if err != nil {
		return err
	}
	if err := h.statusLine(line); err != nil {
		return err
	}
	for {
		line, err := readLine(r, &total)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return h.finish()
		}
		if err := h.field(line); err != nil {
			return err
		}
	}
}

// readLine returns the next line without its CR LF; it is valid until the next
// read. total counts the octets of all lines of one head.
func readLine(r *bufio.Reader, total *int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if *total += len(line); *total > maxHead || err == bufio.ErrBufferFull {
		return nil, malformed("head too long at", line)
	}
	if err == io.EOF && len(line) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(line, []byte("\r\n")) {
		return nil, malformed("line end in", line)
	}
	return line[:len(line)-2], nil
}

func (h *Head) statusLine(line []byte) error {
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 || string(line[:len(version)]) != version {
		return malformed("status line", line)
	}
	code, reason := line[len(version):len(version)+3], line[len(version)+3:]
	for _, c := range code {
		if c < '0' || c > '9' {
			return malformed("status line", line)
		}
		h.Status = 10*h.Status + int(c-'0')
	}
	if h.Status < 100 || h.Status > 599 || len(reason) > 0 && reason[0] != ' ' || !isText(reason) {
		return malformed("status line", line)
	}
	return nil
}

func (h *Head) field(line []byte) error {
	name, value, err := splitField(line)
	if err != nil {
		return err
	}
	// Few fields matter; their length tells most others apart.
	switch len(name) {
	case len("Connection"):
		if is(name, "connection") {
			h.Close = h.Close || hasToken(value, "close")
		}
	case len("Retry-After"):
		if is(name, "retry-after") {
			if n, ok := decimal(value); ok {
				h.RetryAfter = int(min(n, 3600))
			}
		}
	case len("Content-Type"):
		if is(name, "content-type") {
			h.ContentType = append(h.ContentType[:0], value...)
		}
	case len("Content-Length"):
		if is(name, "content-length") {
			n, ok := decimal(value)
			if !ok || h.hasLength {
				return malformed("field", line)
			}
			h.Length, h.hasLength = n, true
		}
	case len("Content-Location"):
		if is(name, "content-location") {
			h.ContentLocation = append(h.ContentLocation[:0], value...)
		}
	case len("Transfer-Encoding"):
		if is(name, "transfer-encoding") {
			if h.chunked || !is(value, "chunked") {
				return malformed("field", line)
			}
			h.chunked = true
		}
	}
	return nil
}

// finish settles how long the body is once all fields are known (RFC 9112, 6.3).
func (h *Head) finish() error {
	switch {
	case h.chunked && h.hasLength:
		return malformed("two lengths in one head", nil)
	case h.Status < 200 || h.Status == 204 || h.Status == 304:
		h.Length, h.chunked = 0, false
	case h.chunked:
		h.Length = -1
	case !h.hasLength:
		return malformed("no length in the head", nil)
	}
	return nil
}

// splitField cuts a header field at its colon and strips the white space
// around its value.
func splitField(line []byte) (name, value []byte, err error) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 || !isText(value) {
		return nil, nil, malformed("field", line)
	}
	for _, c := range name {
		if !isToken(c) {
			return nil, nil, malformed("field", line)
		}
	}
	return name, bytes.Trim(value, " \t"), nil
}

// is says whether b is the lower-case ASCII name, whatever the case of b.
func is(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

func hasToken(list []byte, name string) bool {
	for token := range bytes.SplitSeq(list, []byte{','}) {
		if is(bytes.Trim(token, " \t"), name) {
			return true
		}
	}
	return false
}

// decimal reads 1 to 18 digits.
func decimal(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}
