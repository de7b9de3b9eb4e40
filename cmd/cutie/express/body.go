package express

import (
	"io"
	"net/http"
)

// A body is that of a request, with its announced length.
type body struct {
	c     *conn
	left  int64
	ended bool // by the handler's end
}

// Read returns [io.ErrUnexpectedEOF] if the client ends before its body.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	case int64(len(p)) > b.left:
		p = p[:b.left]
	}
	b.c.inBody = true
	n, err := b.c.in.Read(p)
	b.c.inBody = false
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends reading by the handler.
func (b *body) Close() error {
	b.ended = true
	return nil
}

// drain reads what the handler left, and reports whether the next request can
// begin behind it.
func (b *body) drain() bool {
	if b.left == 0 {
		return true
	}
	b.c.inBody = true
	n, _ := io.CopyN(io.Discard, b.c.in, b.left)
	b.c.inBody = false
	b.left -= n
	return b.left == 0
}
