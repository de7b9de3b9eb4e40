package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// An Upload is a payload to submit.
type Upload struct {
	// Open opens the payload. It is called when the payload is sent, and again
	// when the request has to be sent again.
	Open func() (io.ReadCloser, error)
	Size int64 // octets; below 0 if unknown
	queuefs.Meta
}

// Submit puts jobs at the end of a queue, all of them or none (Cutie 5.5), and
// returns their identifiers in the order of uploads. Payloads are streamed. The
// first Submitter counts for all; there is no Batch.
func (c *Client) Submit(ctx context.Context, queue string, uploads ...Upload) ([]string, error) {
	var (
		req *http.Request
		err error
	)
	switch len(uploads) {
	case 0:
		return nil, errors.New("nothing to submit")
	case 1:
		req, err = c.bareRequest(ctx, queue, &uploads[0])
	default:
		req, err = c.formRequest(ctx, queue, uploads)
	}
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", state.ANVL.MediaType())
	for i := range uploads {
		if by := uploads[i].Submitter; by != "" {
			req.Header.Set("User-Agent", by)
			break
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	data, err := readState(resp)
	if len(uploads) == 1 {
		j, err := decodeJob(data, err)
		if err != nil {
			return nil, err
		}
		return []string{j.ID.String()}, nil
	}
	q, err := decodeQueue(data, err)
	if err != nil {
		return nil, err
	}
	if len(q.Submitted) != len(uploads) {
		return nil, fmt.Errorf("answer to a submission of %d jobs names %d", len(uploads), len(q.Submitted))
	}
	ids := make([]string, len(uploads))
	for i, id := range q.Submitted {
		ids[i] = id.String()
	}
	return ids, nil
}

// bareRequest submits one payload as the body.
func (c *Client) bareRequest(ctx context.Context, queue string, u *Upload) (*http.Request, error) {
	header := textproto.MIMEHeader{}
	rest, err := setDigests(header, u.Expect)
	if err != nil {
		return nil, err
	}
	// A sidecar too long for a header goes into a form, and so does a payload
	// in the type of a form, since a server would take it apart as a body.
	if len(appendEscaped(nil, u.Sidecar)) > maxHeader || isFormData(u.MediaType) {
		return c.formRequest(ctx, queue, []Upload{*u})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.ref(pairQuery(rest), "content", queue), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", mediaTypeOf(u))
	if u.Filename != "" {
		req.Header.Set("Content-Disposition", string(appendDisposition(nil, "attachment", "", u.Filename)))
	}
	if u.Sidecar != "" {
		req.Header.Set(sidecarHeader, string(appendEscaped(nil, u.Sidecar)))
	}
	setBody(req, []segment{{upload: u}})
	return req, nil
}

// formRequest submits payloads as the files of a form.
func (c *Client) formRequest(ctx context.Context, queue string, uploads []Upload) (*http.Request, error) {
	boundary := newBoundary()
	var (
		segments []segment
		text     []byte
	)
	open := func(disposition, name, filename string) {
		text = append(append(append(text, "--"...), boundary...), "\r\nContent-Disposition: "...)
		text = append(appendDisposition(text, disposition, name, filename), "\r\n"...)
	}
	field := func(name, value string) {
		open("form-data", name, "")
		text = append(append(append(text, "\r\n"...), value...), "\r\n"...)
	}
	for i := range uploads {
		u := &uploads[i]
		header := textproto.MIMEHeader{}
		rest, err := setDigests(header, u.Expect)
		if err != nil {
			return nil, err
		}
		if rest.Type.Valid() && len(uploads) > 1 {
			return nil, fmt.Errorf("%s: %s is verified for a single job only", u.Filename, rest.Type)
		}
		if rest.Type.Valid() {
			field("digest-type", rest.Type.String())
			field("digest-value", rest.Hex)
		}
		header.Set("Content-Type", mediaTypeOf(u))
		switch {
		case u.Sidecar != "" && len(uploads) == 1:
			field("sidecar", u.Sidecar)
		case u.Sidecar != "":
			header.Set(sidecarHeader, string(appendEscaped(nil, u.Sidecar)))
		}
		open("form-data", "file", fileNameOf(u))
		for name, values := range header {
			text = append(append(append(text, name...), ": "...), values[0]...)
			text = append(text, "\r\n"...)
		}
		text = append(text, "\r\n"...)
		segments = append(segments, segment{text: text, upload: u})
		text = []byte("\r\n")
	}
	field("type", "job") // also if a file is of the media type of a manifest
	text = append(append(append(text, "--"...), boundary...), "--\r\n"...)
	segments = append(segments, segment{text: text})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.ref(nil, "content", queue), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	setBody(req, segments)
	return req, nil
}

func mediaTypeOf(u *Upload) string {
	if u.MediaType == "" {
		return queuefs.DefaultMediaType
	}
	return u.MediaType
}

// fileNameOf returns the name of a file without line ends.
func fileNameOf(u *Upload) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(u.Filename)
}

// A segment of a request is some text and the payload behind it.
type segment struct {
	text   []byte
	upload *Upload // nil if there is none
}

// setBody makes the segments the body of a request.
func setBody(req *http.Request, segments []segment) {
	for _, s := range segments {
		req.ContentLength += int64(len(s.text))
		if s.upload != nil && s.upload.Size >= 0 {
			req.ContentLength += s.upload.Size
		}
	}
	for _, s := range segments {
		if s.upload != nil && s.upload.Size < 0 {
			req.ContentLength = -1
		}
	}
	req.GetBody = func() (io.ReadCloser, error) { return &segmentReader{segments: segments}, nil }
	if req.ContentLength == 0 {
		req.Body = http.NoBody
		return
	}
	req.Body, _ = req.GetBody()
}

// A segmentReader reads segments, and opens each payload when it comes to it.
type segmentReader struct {
	segments []segment
	at       int // in the text of the first segment
	in       io.ReadCloser
	left     int64 // of the payload, if its size is known
}

func (s *segmentReader) Read(p []byte) (int, error) {
	for len(s.segments) > 0 {
		first := &s.segments[0]
		if s.at < len(first.text) {
			n := copy(p, first.text[s.at:])
			s.at += n
			return n, nil
		}
		if u := first.upload; u != nil {
			if s.in == nil {
				in, err := u.Open()
				if err != nil {
					return 0, err
				}
				s.in, s.left = in, u.Size
			}
			n, err := s.in.Read(p)
			s.left -= int64(n)
			if err != io.EOF {
				return n, err
			}
			if u.Size >= 0 && s.left != 0 {
				return n, fmt.Errorf("%s: payload has %d octets instead of %d", u.Filename, u.Size-s.left, u.Size)
			}
			err = s.in.Close()
			s.in = nil
			s.segments, s.at = s.segments[1:], 0
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		s.segments, s.at = s.segments[1:], 0
	}
	return 0, io.EOF
}

// Close closes the open payload.
func (s *segmentReader) Close() error {
	s.segments = nil
	if s.in == nil {
		return nil
	}
	in := s.in
	s.in = nil
	return in.Close()
}

// SubmitManifest submits the files in a batch manifest, all of them or none,
// and returns the identifiers of the jobs in the order of the lines (Cutie
// 5.5). It waits until the service has fetched them. Name and media type of u
// have no meaning, and a sidecar is refused.
func (c *Client) SubmitManifest(ctx context.Context, queue string, u Upload) ([]string, error) {
	resp, err := c.postManifest(ctx, queue, u, "")
	if err != nil {
		return nil, err
	}
	q, err := decodeQueue(readState(resp))
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(q.Submitted))
	for i, id := range q.Submitted {
		ids[i] = id.String()
	}
	return ids, nil
}

// StartManifest is SubmitManifest without waiting: it returns the identifier of
// the batch, for [Client.Batch].
func (c *Client) StartManifest(ctx context.Context, queue string, u Upload) (id string, err error) {
	resp, err := c.postManifest(ctx, queue, u, "respond-async")
	if err != nil {
		return "", err
	}
	data, err := readState(resp)
	if err != nil {
		return "", err
	}
	b, err := decodeBatch(data)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = errors.New("service did not begin a batch")
	}
	return b.ID, err
}

// Batch returns how far a batch is.
func (c *Client) Batch(ctx context.Context, queue, id string) (state.Batch, error) {
	data, err := c.state(ctx, http.MethodGet, state.ANVL, c.ref(nil, "batch", queue, id), nil, nil)
	if err != nil {
		return state.Batch{}, err
	}
	return decodeBatch(data)
}

func decodeBatch(data []byte) (state.Batch, error) {
	d, err := state.ANVL.Decode(state.BatchClass, data)
	if err != nil {
		return state.Batch{}, err
	}
	return d.Batch()
}

func (c *Client) postManifest(ctx context.Context, queue string, u Upload, prefer string) (*http.Response, error) {
	if u.Sidecar != "" {
		return nil, errors.New("a sidecar belongs to a single job, not to a batch manifest")
	}
	req, err := c.bareRequest(ctx, queue, &u)
	if err != nil {
		return nil, err
	}
	query := req.URL.Query()
	query.Set("type", "batch-manifest")
	req.URL.RawQuery = query.Encode()
	req.Header.Set("Accept", state.ANVL.MediaType())
	if u.Submitter != "" {
		req.Header.Set("User-Agent", u.Submitter)
	}
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	return c.Do(req)
}
