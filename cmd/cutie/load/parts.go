package load

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
)

// Parts reads a multipart body (RFC 2046, 5.1) as a stream: of each part the
// place of the job, then its octets.
type Parts struct {
	r         *bufio.Reader
	delimiter []byte // CR LF, two hyphens, boundary
	location  []byte
	begun     bool
	done      bool
}

// NewParts reads the body in r, whose media type is contentType. The buffer of
// r must be larger than any line of a part's head.
func NewParts(r *bufio.Reader, contentType []byte) (*Parts, error) {
	media, params, err := mime.ParseMediaType(string(contentType))
	if err != nil || media != "multipart/mixed" || params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, malformed("media type", contentType)
	}
	return &Parts{r: r, delimiter: []byte("\r\n--" + params["boundary"])}, nil
}

// Next goes on to the next part, the octets of the one before having been
// read, and returns its Content-Location, valid until the next call, and its
// Content-Length, -1 if it gives none. Behind the last part, Done is true and
// the rest means nothing.
func (p *Parts) Next() (location []byte, length int64, err error) {
	total := 0
	if !p.begun {
		p.begun = true
		line, err := p.line(&total)
		if err != nil {
			return nil, 0, err
		}
		if !bytes.Equal(line, p.delimiter[2:]) {
			return nil, 0, malformed("first line of a multipart body", line)
		}
	} else {
		line, err := p.line(&total) // what follows the boundary on its line
		if err != nil {
			return nil, 0, err
		}
		if string(line) == "--" {
			p.done = true
			_, err := io.Copy(io.Discard, p.r)
			return nil, 0, err
		}
		if len(line) > 0 {
			return nil, 0, malformed("boundary", line)
		}
	}
	p.location, length = p.location[:0], -1
	for {
		line, err := p.line(&total)
		if err != nil {
			return nil, 0, err
		}
		if len(line) == 0 {
			return p.location, length, nil
		}
		name, value, err := splitField(line)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case is(name, "content-location"):
			p.location = append(p.location, value...)
		case is(name, "content-length"):
			n, ok := decimal(value)
			if !ok || length >= 0 {
				return nil, 0, malformed("field", line)
			}
			length = n
		}
	}
}

// Done says whether Next came to the end of the body.
func (p *Parts) Done() bool { return p.done }

// line is readLine, but the last boundary need not end its line and the body
// must not end otherwise.
func (p *Parts) line(total *int) ([]byte, error) {
	if end, err := p.r.Peek(3); err == io.EOF && string(end) == "--" {
		p.r.Discard(2)
		return []byte("--"), nil
	}
	line, err := readLine(p.r, total)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// CopyTo writes the octets of the part to w and returns how many they were.
func (p *Parts) CopyTo(w io.Writer) (n int64, err error) {
	// The blank line behind the head of an empty part may be the beginning of
	// the delimiter.
	if have, _ := p.r.Peek(len(p.delimiter) - 2); bytes.Equal(have, p.delimiter[2:]) {
		_, err := p.r.Discard(len(have))
		return 0, err
	}
	for {
		if _, err := p.r.Peek(len(p.delimiter)); err == io.EOF {
			return n, fmt.Errorf("part of a multipart body: %w", io.ErrUnexpectedEOF)
		} else if err != nil {
			return n, err
		}
		have, _ := p.r.Peek(p.r.Buffered())
		i := bytes.Index(have, p.delimiter)
		found := i >= 0
		if !found {
			i = len(have) - len(p.delimiter) + 1 // less than a whole delimiter may follow
		}
		if _, err := w.Write(have[:i]); err != nil {
			return n, err
		}
		n += int64(i)
		if found {
			i += len(p.delimiter)
		}
		p.r.Discard(i)
		if found {
			return n, nil
		}
	}
}
