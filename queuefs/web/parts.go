package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"

	"cutie/queuefs/buffers"
)

// MaxPartHeader is the most octets of the header of a part, and before the first part.
const MaxPartHeader = 64 << 10

// Parts reads the parts of a multipart body. All parts count, with a file name and
// without. Package multipart keeps up to 10 MiB of a header in memory; Parts ends the
// reading far earlier.
type Parts struct {
	in     headReader
	parts  *multipart.Reader
	last   *multipart.Part
	most   int
	number int
	memory *buffers.Account
}

// NewParts returns a reader of most parts of in, for the request with this context.
func NewParts(ctx context.Context, in io.Reader, boundary string, most int) *Parts {
	p := &Parts{in: headReader{in: in}, most: most, memory: buffers.Of(ctx)}
	p.parts = multipart.NewReader(&p.in, boundary)
	return p
}

// Next returns the next part, and io.EOF after the last. With a header or a number of
// parts beyond the limits the error is an [*Error] of status 413.
func (p *Parts) Next() (*multipart.Part, error) { return p.next(p.parts.NextPart) }

// NextRaw is Next without decoding, as [multipart.Reader.NextRawPart].
func (p *Parts) NextRaw() (*multipart.Part, error) { return p.next(p.parts.NextRawPart) }

func (p *Parts) next(next func() (*multipart.Part, error)) (*multipart.Part, error) {
	if p.last != nil {
		if _, err := io.Copy(io.Discard, p.last); err != nil {
			return nil, err
		}
	}
	// Here begins a header. The reader below has the first 4 KiB of it at most.
	held := p.memory.Held()
	p.in.head, p.in.left, p.in.memory = true, MaxPartHeader, p.memory
	part, err := next()
	p.in.head = false
	p.memory.Return(held)
	if own, ok := errors.AsType[*Error](err); ok {
		return nil, own
	}
	switch {
	case errors.Is(err, buffers.ErrFull):
		return nil, buffers.ErrFull
	case errors.Is(err, multipart.ErrMessageTooLarge): // by limits of package multipart
		return nil, Errorf(http.StatusRequestEntityTooLarge, "the header of a part has more than 10000 lines")
	case err != nil:
		return nil, err
	}
	if p.number++; p.number > p.most {
		return nil, Errorf(http.StatusRequestEntityTooLarge, "more than %d parts", p.most)
	}
	p.last = part
	return part, nil
}

// A headReader limits what is read of a header.
type headReader struct {
	in     io.Reader
	head   bool // this is a header
	left   int  // of it
	memory *buffers.Account
}

// lineMemory is about what a line of a header takes in memory besides its octets.
const lineMemory = 192

func (r *headReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if !r.head || n == 0 {
		return n, err
	}
	if r.left -= n; r.left < 0 {
		return 0, Errorf(http.StatusRequestEntityTooLarge, "the header of a part has more than %d octets", MaxPartHeader)
	}
	// The first octets are often all, with some of the content.
	if lines := bytes.Count(p[:n], []byte("\n")); r.left < MaxPartHeader-len(p) || lines > 64 {
		if err := r.memory.Take(n + lines*lineMemory); err != nil {
			return 0, err
		}
	}
	return n, err
}
