package sitemap

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// ErrTooLong says that a document has more octets than it may have.
var ErrTooLong = errors.New("document is too long")

// Unpack returns the text of a document of at most max octets; a file in gzip, as its name
// may say or not, is unpacked. Reading more fails with [ErrTooLong].
func Unpack(r io.Reader, max int64) (io.Reader, error) {
	b := bufio.NewReader(r)
	magic, err := b.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(magic) != "\x1f\x8b" {
		return &limited{b, max, max}, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	return &limited{z, max, max}, nil
}

type limited struct {
	in        io.Reader
	left, max int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w: more than %d octets", ErrTooLong, l.max)
	}
	return n, err
}
