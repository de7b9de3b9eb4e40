package sitemap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/unicode"
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

// utf8Of returns a document in UTF-8: one in UTF-16 is converted. It is known by its byte
// order mark or by the zero byte beside its first "<" (XML 1.0, F.1).
func utf8Of(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(2)
	order := unicode.BigEndian
	switch string(head) {
	case "\xfe\xff", "\x00<":
	case "\xff\xfe", "<\x00":
		order = unicode.LittleEndian
	default:
		return in
	}
	return bufio.NewReaderSize(unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in), in.Size())
}

// charset is [xml.Decoder.CharsetReader], for documents in UTF-8 by now.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be", "utf8":
		return in, nil
	}
	return nil, fmt.Errorf("encoding %.40s is not read: UTF-8, US-ASCII and UTF-16 are", label)
}
