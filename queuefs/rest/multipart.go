package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"

	"cutie/queuefs/rest/field"
	"cutie/queuefs/web"
)

func boundaryOf(contentType string) (string, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", web.BadRequest("Content-Type: %v", err)
	}
	boundary := params["boundary"]
	if boundary == "" || len(boundary) > 70 {
		return "", web.BadRequest("Content-Type has no boundary of 1 to 70 characters")
	}
	return boundary, nil
}

// eachPart reads a form of most parts at most.
func eachPart(ctx context.Context, r io.Reader, boundary string, most int, do func(*multipart.Part) error) error {
	end := &endFinder{in: r, end: []byte("\n--" + boundary + "--"), seen: []byte("\n")}
	parts := web.NewParts(ctx, end, boundary, most)
	for {
		p, err := parts.Next()
		if err == io.EOF && end.found {
			return nil
		}
		if err != nil {
			return partError(err)
		}
		// It names the part and the file.
		if _, err := field.Single(p.Header, "Content-Disposition"); err != nil {
			return err
		}
		if err := do(p); err != nil {
			return partError(err)
		}
	}
}

// An endFinder looks for the last boundary in its input: package multipart
// takes a form cut off within the header of a part for a whole one.
type endFinder struct {
	in    io.Reader
	end   []byte
	seen  []byte // the last octets, fewer than end has
	found bool
}

func (f *endFinder) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if f.found || n == 0 {
		return n, err
	}
	// The boundary may begin in the former input.
	keep := len(f.end) - 1
	f.seen = append(f.seen, p[:min(n, keep)]...)
	f.found = bytes.Contains(f.seen, f.end) || bytes.Contains(p[:n], f.end)
	if n >= keep {
		f.seen = append(f.seen[:0], p[n-keep:n]...)
	} else if drop := len(f.seen) - keep; drop > 0 {
		f.seen = append(f.seen[:0], f.seen[drop:]...)
	}
	return n, err
}

// partError explains an error in a form; errors with an explanation keep their
// text. An early end of the input comes wrapped.
func partError(err error) error {
	var answer *web.Error
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return web.BadRequest("form ends before its last boundary")
	case strings.HasPrefix(err.Error(), "multipart:"), strings.HasPrefix(err.Error(), "malformed MIME"):
		return web.BadRequest("%v", err)
	}
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) {
		return web.BadRequest("%v", err)
	}
	return err
}
