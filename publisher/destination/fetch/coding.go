package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// ErrCoding says that an answer is in a content coding that cannot be decoded.
var ErrCoding = errors.New("content coding")

const maxCodings = 3 // of an answer

// decoders are the content codings that can be decoded (RFC 9110, 8.4.1); nil: a known one
// that cannot. Some servers use them although asked not to, name what is no coding, or name
// one of a body that is in none: such a body is returned as it is.
var decoders = map[string]func(*bufio.Reader) (io.ReadCloser, error){
	"gzip":    ungzip,
	"x-gzip":  ungzip,
	"deflate": inflate,
	"zstd":    unzstd,
	"br":      nil, "compress": nil, "x-compress": nil, "dcb": nil, "dcz": nil,
}

func begins(b *bufio.Reader, magic string) bool {
	head, _ := b.Peek(len(magic))
	return string(head) == magic
}

func ungzip(b *bufio.Reader) (io.ReadCloser, error) {
	if !begins(b, "\x1f\x8b") {
		return io.NopCloser(b), nil
	}
	return gzip.NewReader(b)
}

func inflate(b *bufio.Reader) (io.ReadCloser, error) {
	if h, err := b.Peek(2); err == nil && (h[0]&15 != 8 || (int(h[0])<<8|int(h[1]))%31 != 0) {
		return flate.NewReader(b), nil // without the frame of zlib, as some servers have it
	}
	return zlib.NewReader(b)
}

func unzstd(b *bufio.Reader) (io.ReadCloser, error) {
	if !begins(b, "\x28\xb5\x2f\xfd") {
		return io.NopCloser(b), nil
	}
	z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// codings returns the content codings of an answer that mean something, in their order.
func (a *Answer) codings() (all []string) {
	for _, field := range a.Header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(field, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
				if _, known := decoders[name]; known {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// Coded reports whether the body is in a content coding.
func (a *Answer) Coded() bool { return len(a.codings()) > 0 }

// IsArchive reports whether the resource of a URI is itself a compressed file, by its name or
// type: many servers name its format as a content coding.
func (a *Answer) IsArchive(uri string) bool {
	switch t, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";"); strings.ToLower(strings.TrimSpace(t)) {
	case "application/gzip", "application/x-gzip", "application/zstd", "application/zlib":
		return true
	}
	uri, _, _ = strings.Cut(uri, "?")
	switch strings.ToLower(path.Ext(uri)) {
	case ".gz", ".tgz", ".gzip", ".svgz", ".warc", ".zst", ".br", ".z", ".zz":
		return true
	}
	return false
}

// Decode returns the body without its content codings. Errors of these wrap [ErrCoding].
func (a *Answer) Decode() (io.ReadCloser, error) {
	names := a.codings()
	if len(names) > maxCodings {
		return nil, fmt.Errorf("%w: %q are more than %d", ErrCoding, names, maxCodings)
	}
	in := io.NopCloser(a.Body)
	for i := len(names) - 1; i >= 0; i-- {
		decode := decoders[names[i]]
		if decode == nil {
			return nil, fmt.Errorf("%w: %s, not asked for, and not decoded here", ErrCoding, names[i])
		}
		next, err := decode(bufio.NewReader(in))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCoding, names[i], err)
		}
		in = decoding{next, names[i]}
	}
	return in, nil
}

// decoding says of which coding an error is.
type decoding struct {
	io.ReadCloser
	name string
}

func (d decoding) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, ErrCoding) {
		err = fmt.Errorf("%w: %s: %w", ErrCoding, d.name, err)
	}
	return n, err
}
