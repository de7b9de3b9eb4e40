package load

import (
	"bufio"
	"io"
)

// Body reads the body of the response whose head was just read, and leaves the
// reader below at the next response. It reads chunked bodies without chunk
// extensions (RFC 9112, 7.1).
type Body struct {
	r       *bufio.Reader
	left    int64 // octets to come of the body, or of the present chunk
	chunked bool
	started bool // a chunk was read: its CR LF comes before the next size
	err     error
}

// Reset starts the body that belongs to head h on r.
func (b *Body) Reset(r *bufio.Reader, h *Head) {
	*b = Body{r: r, left: max(h.Length, 0), chunked: h.Length < 0}
}

// Read returns io.EOF at the end of the body and io.ErrUnexpectedEOF if the
// connection ends before it.
func (b *Body) Read(p []byte) (int, error) {
	if b.left == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
	return n, err
}

// Drain reads what is left of the body, so that the connection can be used
// again.
func (b *Body) Drain() error {
	for {
		for b.left > 0 && b.err == nil {
			n, err := b.r.Discard(int(min(b.left, 1<<20)))
			b.left -= int64(n)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			b.err = err
		}
		if b.err == nil {
			b.err = b.next()
		}
		if b.err == io.EOF {
			return nil
		}
		if b.err != nil {
			return b.err
		}
	}
}

// next goes on to the next chunk; io.EOF if there is none.
func (b *Body) next() error {
	if !b.chunked {
		return io.EOF
	}
	err := b.chunk()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err == nil && b.left == 0 {
		return io.EOF
	}
	return err
}

// chunk reads the line that gives the size of the next chunk and, behind the
// last one, the trailer.
func (b *Body) chunk() error {
	total := 0
	if b.started {
		line, err := readLine(b.r, &total)
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return malformed("end of a chunk", line)
		}
	}
	b.started = true
	line, err := readLine(b.r, &total)
	if err != nil {
		return err
	}
	if len(line) == 0 || len(line) > 15 {
		return malformed("size of a chunk", line)
	}
	for _, c := range line {
		digit, ok := hexDigit(c)
		if !ok {
			return malformed("size of a chunk", line)
		}
		b.left = b.left<<4 | digit
	}
	if b.left > 0 {
		return nil
	}
	for {
		line, err := readLine(b.r, &total)
		if err != nil || len(line) == 0 {
			return err
		}
		if _, _, err := splitField(line); err != nil {
			return err
		}
	}
}

func hexDigit(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	}
	return 0, false
}
