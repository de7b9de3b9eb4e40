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

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/web"
)

// Limits of a form besides those of [Options].
const (
	maxField    = 1 << 10  // octets of a field except the sidecar
	maxFields   = 16       // parts beside the files
	maxEpilogue = 64 << 10 // octets behind the last boundary
)

// A formReader turns the parts of a form into a submission (RFC 7578). It is
// given the files as they come and all else at the end, since parts may come
// in any order.
type formReader struct {
	ctx      context.Context // of the request
	h        *Handler
	sub      *queuefs.Submission
	fields   fields
	all      job.Meta // what is said of all files
	files    int
	first    *queuefs.Upload
	manifest bool // a file is of the media type of Checkm
}

// readForm reads a submission in the form of multipart/form-data. If its file is
// a manifest, that is returned.
func (h *Handler) readForm(sub *queuefs.Submission, f fields, b *web.BodyReader, r *request, by, contentType string) (manifest *queuefs.Upload, err error) {
	if f.has("filename") {
		return nil, badRequest("in a form the filename is given with the file")
	}
	boundary, err := boundaryOf(contentType)
	if err != nil {
		return nil, err
	}
	expect, err := field.Digests(textproto.MIMEHeader(r.Header))
	if err != nil {
		return nil, err
	}
	in := digest.NewReader(b, expect)
	form := formReader{ctx: r.Context(), h: h, sub: sub, fields: f, all: job.Meta{Submitter: by, Owner: UserOf(r.Context())}}
	field.Trace(&form.all, textproto.MIMEHeader(r.Header))
	if err := eachPart(r.Context(), in, boundary, h.o.MaxParts+maxFields, form.part); err != nil {
		return nil, err
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(in, maxEpilogue+1)); err != nil {
		return nil, err
	} else if n > maxEpilogue {
		return nil, badRequest("more than %d octets behind the last boundary", maxEpilogue)
	}
	if err := in.Verify(); err != nil {
		return nil, err
	}
	if r.browser() && form.fields["sidecar"] == "" { // a field that nobody filled in
		delete(form.fields, "sidecar")
	}
	return form.finish()
}

func boundaryOf(contentType string) (string, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", badRequest("Content-Type: %v", err)
	}
	boundary := params["boundary"]
	if boundary == "" || len(boundary) > 70 {
		return "", badRequest("Content-Type has no boundary of 1 to 70 characters")
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
		return badRequest("form ends before its last boundary")
	case strings.HasPrefix(err.Error(), "multipart:"), strings.HasPrefix(err.Error(), "malformed MIME"):
		return badRequest("%v", err)
	}
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) {
		return badRequest("%v", err)
	}
	return err
}

func (f *formReader) part(p *multipart.Part) error {
	name := p.FormName()
	if name != "file" {
		if fieldNames[name] == "filename" {
			return badRequest("in a form the filename is given with the file")
		}
		return f.field(name, p)
	}
	contentType, err := field.Single(p.Header, "Content-Type")
	if err != nil {
		return err
	}
	if m, _, _ := strings.Cut(contentType, ";"); !strings.EqualFold(strings.TrimSpace(m), "multipart/mixed") {
		return f.file(p)
	}
	boundary, err := boundaryOf(contentType)
	if err != nil {
		return err
	}
	return eachPart(f.ctx, p, boundary, f.h.o.MaxParts+1, f.file)
}

func (f *formReader) field(name string, p *multipart.Part) error {
	limit := maxField
	if fieldNames[name] == "sidecar" {
		limit = f.h.o.MaxSidecar
	}
	text, err := web.ReadAll(f.ctx, io.LimitReader(p, int64(limit)+1))
	if err != nil {
		return err
	}
	if len(text) > limit {
		return tooLarge("part %.40q has more than %d octets", name, limit)
	}
	return f.fields.set(name, string(text))
}

func (f *formReader) file(p *multipart.Part) error {
	if f.files++; f.files > f.h.o.MaxParts {
		return tooLarge("more than %d files", f.h.o.MaxParts)
	}
	encoding, err := field.Single(p.Header, "Content-Transfer-Encoding")
	if err != nil {
		return err
	}
	switch e := strings.ToLower(encoding); e {
	case "", "7bit", "8bit", "binary":
	default:
		return badRequest("Content-Transfer-Encoding %.40q is not supported", e)
	}
	contentType, err := field.Single(p.Header, "Content-Type")
	if err != nil {
		return err
	}
	m := f.all
	m.Filename = p.FileName()
	field.Trace(&m, p.Header)
	if m.MediaType, err = field.MediaType(contentType); err != nil {
		return err
	}
	f.manifest = f.manifest || field.IsCheckm(m.MediaType)
	if err := field.Meta(&m, p.Header); err != nil {
		return err
	}
	if m.Key, err = field.Key(p.Header); err != nil {
		return err
	}
	if len(m.Sidecar) > f.h.o.MaxSidecar {
		return tooLarge("sidecar has more than %d octets", f.h.o.MaxSidecar)
	}
	d, err := f.sub.Add(m)
	if err != nil {
		return err
	}
	if f.first == nil {
		f.first = d
	}
	return copyPayload(d, p)
}

// finish gives the one job, or the manifest, the fields beside it.
func (f *formReader) finish() (manifest *queuefs.Upload, err error) {
	if f.files == 0 {
		return nil, badRequest("form has no part named file")
	}
	batch, err := f.fields.isManifest(f.manifest)
	if err != nil {
		return nil, err
	}
	if f.files > 1 {
		if batch {
			return nil, badRequest("a batch is one manifest, this form has %d files; with type=job a manifest is a job", f.files)
		}
		if f.fields.has("sidecar") {
			return nil, badRequest("a sidecar belongs to a single file, this form has %d", f.files)
		}
		if f.fields.has("digest-type") || f.fields.has("digest-value") {
			return nil, badRequest("a digest belongs to a single file, this form has %d", f.files)
		}
		f.sub.Group()
		if f.fields.has("not-before") {
			t, err := f.fields.notBefore()
			if err != nil {
				return nil, err
			}
			return nil, f.sub.NotBefore(t)
		}
		return nil, nil
	}
	m := f.first.Meta()
	if err := f.fields.apply(&m, f.h.o.MaxSidecar); err != nil {
		return nil, err
	}
	if batch {
		manifest = f.first
	}
	return manifest, f.first.SetMeta(m)
}
