package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/buffers"
)

// A BodyReader reads the body of a request up to a limit, and gives up when nothing
// comes for a while. Its errors are of type [*Error].
type BodyReader struct {
	in    io.Reader
	conn  http.ResponseController
	idle  time.Duration
	until time.Time // then the deadline is extended
	armed bool      // there is a deadline

	size   int64 // of the body; -1 if the request does not say it
	memory *buffers.Account
}

// NewBodyReader returns the body of a request of at most limit bytes. The error of a
// larger one has status 413, at once if the request says its length.
func NewBodyReader(w http.ResponseWriter, r *http.Request, limit int64, idle time.Duration) (*BodyReader, error) {
	if r.ContentLength > limit {
		return nil, Errorf(http.StatusRequestEntityTooLarge, "body has %d octets, more than %d", r.ContentLength, limit)
	}
	b := &BodyReader{in: r.Body, conn: *http.NewResponseController(w), idle: idle, size: r.ContentLength, memory: buffers.Of(r.Context())}
	if r.ContentLength < 0 {
		b.in = http.MaxBytesReader(w, r.Body, limit)
	}
	return b, nil
}

// Read reads the body. At its end the deadline goes; on an unfinished body it
// stays, because the server reads the rest.
func (b *BodyReader) Read(p []byte) (int, error) {
	// Setting a deadline costs more than a read, so not every read does it. Some
	// connections know no deadlines.
	if now := time.Now(); now.After(b.until) {
		b.until = now.Add(b.idle / 8)
		b.armed = b.conn.SetReadDeadline(now.Add(b.idle)) == nil
	}
	n, err := b.in.Read(p)
	switch {
	case err == io.EOF && b.armed:
		b.conn.SetReadDeadline(time.Time{})
		b.armed = false
	case err != nil && err != io.EOF:
		err = b.refusal(err)
	}
	return n, err
}

// All returns the body, of which nothing was read yet. It is taken from the account of
// the request, see package buffers.
func (b *BodyReader) All() ([]byte, error) { return readAll(b, b.size, b.memory) }

// ReadAll reads in to its end, as [BodyReader.All] does for the request with this context.
func ReadAll(ctx context.Context, in io.Reader) ([]byte, error) {
	return readAll(in, -1, buffers.Of(ctx))
}

// BodyIdle is how long nothing may come of a form.
const BodyIdle = 30 * time.Second

// Form returns the parameters in the body of a request, a form of at most limit bytes.
func Form(w http.ResponseWriter, r *http.Request, limit int64) (url.Values, error) {
	const form = "application/x-www-form-urlencoded"
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != form {
		return nil, Errorf(http.StatusUnsupportedMediaType, "the body must be %s", form)
	}
	b, err := NewBodyReader(w, r, limit, BodyIdle)
	if err != nil {
		return nil, err
	}
	text, err := b.All()
	if err != nil {
		return nil, err
	}
	return ParseForm(r.Context(), text)
}

// pairBytes is about what a parameter of a form takes in memory besides its text.
const pairBytes = 128

// ParseForm reads the text of a form in a request with this context. The parameters are
// taken from its account, too.
func ParseForm(ctx context.Context, text []byte) (url.Values, error) {
	if err := buffers.Of(ctx).Take(len(text) + bytes.Count(text, []byte("&"))*pairBytes); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, Errorf(http.StatusBadRequest, "the body is not a form: %v", err)
	}
	return values, nil
}

// readAll takes memory as the input comes, whatever its size is said to be.
func readAll(in io.Reader, size int64, memory *buffers.Account) ([]byte, error) {
	const first = 4 << 10
	buf := make([]byte, 0, bytes.MinRead)
	if size >= 0 && size < first {
		buf = make([]byte, 0, size+1) // one more, so that the end shows
	}
	for {
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) < cap(buf):
			continue
		}
		more := max(first, 2*cap(buf))
		if size >= int64(cap(buf)) {
			more = int(min(int64(more), size+1))
		}
		if err := memory.Take(more); err != nil {
			return nil, err
		}
		grown := make([]byte, len(buf), more)
		copy(grown, buf)
		if cap(buf) >= first {
			memory.Give(cap(buf))
		}
		buf = grown
	}
}

// refusal returns the answer to an error of the body.
func (b *BodyReader) refusal(err error) error {
	var (
		large   *http.MaxBytesError
		timeout net.Error
	)
	switch {
	case errors.As(err, &large):
		return Errorf(http.StatusRequestEntityTooLarge, "body has more than %d octets", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Status: http.StatusRequestTimeout, Message: b.late(err)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(http.StatusBadRequest, "body was cut off")
	}
	return Errorf(http.StatusBadRequest, "body could not be read")
}

// late returns why the wait for the body ended. A deadline of the connection is
// wrapped; a bare one is from the daemon, and limits bodies that trickle.
func (b *BodyReader) late(err error) string {
	if err == os.ErrDeadlineExceeded {
		return "the body came more slowly than is waited for; send the request again over a faster connection, or with less in it"
	}
	seconds := strconv.FormatFloat(b.idle.Seconds(), 'f', -1, 64)
	return "nothing of the body came for " + seconds + " seconds, the most that is waited for; send the request again and do not pause so long"
}

// IsMediaType reports whether t is the value of a Content-Type (RFC 9110,
// 8.3.1). Line ends do not belong to it, although the parser
// takes them for blanks.
func IsMediaType(t string) bool {
	for i := 0; i < len(t); i++ {
		if t[i] < ' ' && t[i] != '\t' || t[i] == 0x7f {
			return false
		}
	}
	m, _, err := mime.ParseMediaType(t)
	main, sub, ok := strings.Cut(m, "/")
	return err == nil && ok && main != "" && sub != ""
}

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
