package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
)

// An Upload is a payload to submit, with what is known of it; see [File] and [Bytes].
type Upload struct {
	// Open opens the payload. It is called when the payload is sent, and again
	// when the request has to be sent again.
	Open func() (io.ReadCloser, error)
	Size int64 // octets; below 0 if unknown
	job.Meta
}

// File is an Upload of a file, with its name, and the media type of its extension. The
// file is opened when it is sent; it must not change meanwhile.
func File(path string) (Upload, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Upload{}, err
	}
	if !info.Mode().IsRegular() {
		return Upload{}, fmt.Errorf("%s is not a regular file", path)
	}
	u := Upload{Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	u.Filename, u.MediaType = filepath.Base(path), MediaType(path)
	return u, nil
}

// MediaType guesses the media type of a file from its name, without parameters: the name
// of a text does not tell its encoding. It is "" if nothing is known.
func MediaType(name string) string {
	extension := filepath.Ext(name)
	if extension == "" { // the types of the system are read for the first one asked for
		return ""
	}
	t, _, err := mime.ParseMediaType(mime.TypeByExtension(extension))
	if err != nil {
		return ""
	}
	return t
}

// Bytes is an Upload of a payload in memory, to be left unchanged until it is sent.
func Bytes(payload []byte) Upload {
	return Upload{Size: int64(len(payload)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }}
}

// Submit puts jobs at the end of a queue, all of them or none (Cutie 5.5), and
// returns their identifiers in the order of uploads. Payloads are streamed. The
// first Submitter counts for all; there is no Batch. With a Key each it may be called
// again after an error: jobs stored before are found by their keys.
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
	by := slices.IndexFunc(uploads, func(u Upload) bool { return u.Submitter != "" })
	resp, err := c.doAs(req, uploads[max(by, 0)].Submitter, state.ANVL.MediaType())
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
	ids, err := submitted(data, err)
	if err == nil && len(ids) != len(uploads) {
		return nil, fmt.Errorf("answer to a submission of %d jobs names %d", len(uploads), len(ids))
	}
	return ids, err
}

// submitted returns the new jobs in the state of a queue.
func submitted(data []byte, err error) ([]string, error) {
	q, err := decodeQueue(data, err)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(q.Submitted))
	for i, id := range q.Submitted {
		ids[i] = id.String()
	}
	return ids, nil
}

// bareRequest submits one payload as the body.
func (c *Client) bareRequest(ctx context.Context, queue string, u *Upload) (*http.Request, error) {
	header := textproto.MIMEHeader{}
	rest, err := field.SetDigests(header, u.Expect)
	if err != nil {
		return nil, err
	}
	// A sidecar too long for a header goes into a form, and so does a payload
	// in the type of a form, since a server would take it apart as a body.
	if len(field.AppendEscaped(nil, u.Sidecar)) > field.MaxLength || field.IsForm(u.MediaType) {
		return c.formRequest(ctx, queue, []Upload{*u})
	}
	query := field.PairQuery(rest)
	if field.IsCheckm(u.MediaType) {
		query.Set("type", "job")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.ref(query, "content", queue), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", cmp.Or(u.MediaType, job.DefaultMediaType))
	if u.Filename != "" {
		req.Header.Set("Content-Disposition", string(field.AppendDisposition(nil, "attachment", "", u.Filename)))
	}
	if !u.NotBefore.IsZero() {
		req.Header.Set(field.NotBefore, job.FormatTime(u.NotBefore))
	}
	if u.Sidecar != "" || u.EmptySidecar {
		req.Header.Set(field.Sidecar, string(field.AppendEscaped(nil, u.Sidecar)))
	}
	field.SetKey(req.Header, u.Key)
	setBody(req, []segment{{upload: u}})
	return req, nil
}

// formRequest submits payloads as the files of a form.
func (c *Client) formRequest(ctx context.Context, queue string, uploads []Upload) (*http.Request, error) {
	var (
		segments []segment
		text     bytes.Buffer
	)
	form := multipart.NewWriter(&text)
	cut := func(u *Upload) {
		segments = append(segments, segment{bytes.Clone(text.Bytes()), u})
		text.Reset()
	}
	for i := range uploads {
		u := &uploads[i]
		header := textproto.MIMEHeader{}
		rest, err := field.SetDigests(header, u.Expect)
		if err != nil {
			return nil, err
		}
		if rest.Type.Valid() && len(uploads) > 1 {
			return nil, fmt.Errorf("%s: %s is verified for a single job only", u.Filename, rest.Type)
		}
		if rest.Type.Valid() {
			form.WriteField("digest-type", rest.Type.String())
			form.WriteField("digest-value", rest.Hex)
		}
		header.Set("Content-Type", cmp.Or(u.MediaType, job.DefaultMediaType))
		switch {
		case (u.Sidecar != "" || u.EmptySidecar) && len(uploads) == 1:
			form.WriteField("sidecar", u.Sidecar)
		case u.Sidecar != "" || u.EmptySidecar:
			header.Set(field.Sidecar, string(field.AppendEscaped(nil, u.Sidecar)))
		}
		if !u.NotBefore.IsZero() {
			header.Set(field.NotBefore, job.FormatTime(u.NotBefore))
		}
		header.Set("Content-Disposition", string(field.AppendDisposition(nil, "form-data", "file", fileNameOf(u))))
		field.SetKey(header, u.Key)
		form.CreatePart(header)
		cut(u)
	}
	form.WriteField("type", "job") // also if a file is of the media type of a manifest
	form.Close()
	cut(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.ref(nil, "content", queue), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	setBody(req, segments)
	return req, nil
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
	req.GetBody = func() (io.ReadCloser, error) { return bodyOf(segments), nil }
	if req.ContentLength == 0 {
		req.Body = http.NoBody
		return
	}
	req.Body, _ = req.GetBody()
}

// A sending is an upload on its way. It is opened by the first read, and closed
// at its end.
type sending struct {
	*Upload
	in   io.ReadCloser
	read int64
}

func (s *sending) Read(p []byte) (n int, err error) {
	if s.in == nil {
		if s.in, err = s.Open(); err != nil {
			return 0, err
		}
	}
	n, err = s.in.Read(p)
	s.read += int64(n)
	switch {
	case err != io.EOF:
		return n, err
	case s.Size >= 0 && s.read != s.Size:
		return n, fmt.Errorf("%s: payload has %d octets instead of %d", s.Filename, s.read, s.Size)
	}
	return n, cmp.Or(s.Close(), io.EOF)
}

func (s *sending) Close() error {
	if s.in == nil {
		return nil
	}
	in := s.in
	s.in = nil
	return in.Close()
}

// A requestBody is segments one after the other.
type requestBody struct {
	io.Reader
	uploads []*sending
}

func bodyOf(segments []segment) *requestBody {
	b := &requestBody{}
	var parts []io.Reader
	for _, s := range segments {
		parts = append(parts, bytes.NewReader(s.text))
		if s.upload != nil {
			u := &sending{Upload: s.upload}
			b.uploads, parts = append(b.uploads, u), append(parts, u)
		}
	}
	b.Reader = io.MultiReader(parts...)
	return b
}

func (b *requestBody) Close() (err error) {
	for _, u := range b.uploads {
		err = errors.Join(err, u.Close())
	}
	return err
}

// SubmitManifest submits the files in a batch manifest, all of them or none,
// and returns the identifiers of the jobs in the order of the lines (Cutie
// 5.5). It waits until the service has fetched them. Name and media type of u
// have no meaning, and a sidecar is refused. Job n has the key KEY#n.
func (c *Client) SubmitManifest(ctx context.Context, queue string, u Upload) ([]string, error) {
	resp, err := c.postManifest(ctx, queue, u, "")
	if err != nil {
		return nil, err
	}
	return submitted(readState(resp))
}

// StartManifest is SubmitManifest without waiting: it returns the identifier of
// the batch, for [Client.Batch].
func (c *Client) StartManifest(ctx context.Context, queue string, u Upload) (id string, err error) {
	resp, err := c.postManifest(ctx, queue, u, "respond-async")
	if err != nil {
		return "", err
	}
	b, err := decodeBatch(readState(resp))
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = errors.New("service did not begin a batch")
	}
	return b.ID, err
}

// Batch returns how far a batch is.
func (c *Client) Batch(ctx context.Context, queue, id string) (state.Batch, error) {
	return decodeBatch(c.state(ctx, http.MethodGet, state.ANVL, c.ref(nil, "batch", queue, id), nil, nil))
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
	if prefer != "" {
		req.Header.Set("Prefer", prefer)
	}
	return c.doAs(req, u.Submitter, state.ANVL.MediaType())
}
