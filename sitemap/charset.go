package sitemap

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

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
