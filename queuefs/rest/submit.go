package rest

import (
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// submit is Submit-job (Cutie 5.5).
func (h *Handler) submit(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	if err := r.only(); err != nil {
		return err
	}
	if err := field.Identity(r.Header); err != nil {
		return err
	}
	f, err := r.fieldsOfQuery()
	if err != nil {
		return err
	}
	b, err := web.NewBodyReader(w, r.Request, h.o.MaxBody, h.o.BodyIdle)
	if err != nil {
		return err
	}
	key, err := field.Key(r.Header)
	if err != nil {
		return err
	}
	sub := q.Begin()
	defer sub.Discard()
	sub.Key(key)
	sub.Memory(buffers.Of(r.Context()))
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	by := r.agent()
	if r.bad != nil {
		return r.bad
	}
	var manifest *queuefs.Upload
	if field.IsForm(contentType) {
		manifest, err = h.readForm(sub, f, b, r, by, contentType)
	} else {
		manifest, err = h.readBare(sub, f, b, r, by, contentType)
	}
	if err != nil {
		return err
	}
	if manifest != nil {
		return h.submitBatch(w, r, form, q, sub, manifest, key)
	}
	sub.Admit(h.o.Quota.Admission(r.Context(), q, UserOf(r.Context())))
	jobs, err := sub.Commit(r.Context())
	if err != nil {
		return keyBusy(w, err)
	}
	status := replayed(w, sub.Again(), http.StatusCreated)
	if len(jobs) > 1 {
		return h.answerSeveral(w, r, status, form, q, jobs)
	}
	d := state.OfJob(h.base(r.Request), &jobs[0])
	w.Header()["Location"] = []string{d.Subject}
	return h.answerChange(w, r, status, form, &d)
}

// answerSeveral answers a submission of several jobs with the state of the
// queue.
func (h *Handler) answerSeveral(w http.ResponseWriter, r *request, status int, form state.Form, q *queuefs.Queue, jobs []job.Job) error {
	s := state.Queue{State: q.State(), Submitted: make([]job.ID, len(jobs))}
	for i := range jobs {
		s.Submitted[i] = jobs[i].ID
	}
	// jobStates begins with them too.
	s.Jobs.After, s.Jobs.Limit = slices.Min(s.Submitted)-1, len(s.Submitted)
	_ = listJobs(q, &s.Jobs) // fails for a batch only
	d := state.OfQueue(h.base(r.Request), &s)
	w.Header()["Location"] = []string{d.Subject}
	return h.answerChange(w, r, status, form, &d)
}

// readBare reads a submission that is nothing but the payload, or the manifest,
// which is returned then.
func (h *Handler) readBare(sub *queuefs.Submission, f fields, b *web.BodyReader, r *request, by, contentType string) (manifest *queuefs.Upload, err error) {
	m := job.Meta{Submitter: by, Owner: UserOf(r.Context())}
	field.Trace(&m, textproto.MIMEHeader(r.Header))
	if m.MediaType, err = field.MediaType(contentType); err != nil {
		return nil, err
	}
	disposition, err := field.Single(r.Header, "Content-Disposition")
	if err != nil {
		return nil, err
	}
	if m.Filename, err = field.Filename(disposition); err != nil {
		return nil, err
	}
	if f.has("filename") {
		m.Filename = f["filename"]
	}
	if err := field.Meta(&m, textproto.MIMEHeader(r.Header)); err != nil {
		return nil, err
	}
	if err := f.apply(&m, h.o.MaxSidecar); err != nil {
		return nil, err
	}
	batch, err := f.isManifest(field.IsCheckm(m.MediaType))
	if err != nil {
		return nil, err
	}
	d, err := sub.Add(m)
	if err != nil {
		return nil, err
	}
	if batch {
		manifest = d
	}
	if err := copyPayload(d, b); err != nil {
		return nil, err
	}
	// curl calls a body of nothing a form.
	if !batch && d.Size() == 0 && m.Filename == "" && (contentType == "" || isForm(contentType)) {
		return nil, web.BadRequest("the request has no file; an empty one comes with its filename, " +
			"or with a Content-Type that is no form's")
	}
	return manifest, nil
}

// fields are the single values of a submission, in its query or in parts of a
// form, by their names without variants.
type fields map[string]string

// fieldNames are the names of fields, with their variants.
var fieldNames = map[string]string{
	"type": "type", "filename": "filename", "sidecar": "sidecar", "digest-type": "digest-type", "digest-value": "digest-value",
	"sidecare":   "sidecar",                                    // as Cutie 5.7 prints it
	"digestType": "digest-type", "digestValue": "digest-value", // as in the Ingest service
	"not-before": "not-before", "notBefore": "not-before",
}

func (f *fields) set(name, value string) error {
	field, ok := fieldNames[name]
	if !ok {
		return web.BadRequest("part %.40q is none of file, sidecar, type, digest-type, digest-value, not-before", name)
	}
	if f.has(field) {
		return web.BadRequest("%s is repeated", field)
	}
	if *f == nil {
		*f = fields{}
	}
	(*f)[field] = value
	return nil
}

func (f fields) has(name string) bool {
	_, ok := f[name]
	return ok
}

// fieldsOfQuery returns the fields among the parameters.
func (r *request) fieldsOfQuery() (f fields, err error) {
	for name := range r.query {
		if fieldNames[name] == "" {
			continue
		}
		value, _, err := r.param(name)
		if err == nil {
			err = f.set(name, value)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// apply adds the sidecar, the digest and the time to m.
func (f fields) apply(m *job.Meta, maxSidecar int) error {
	if f.has("not-before") {
		t, err := f.notBefore()
		if err != nil {
			return err
		}
		m.NotBefore = t
	}
	if f.has("sidecar") {
		if m.Sidecar != "" || m.EmptySidecar {
			return web.BadRequest("sidecar is repeated")
		}
		m.Sidecar = f["sidecar"]
		m.EmptySidecar = m.Sidecar == ""
	}
	if len(m.Sidecar) > maxSidecar {
		return tooLarge("sidecar has more than %d octets", maxSidecar)
	}
	switch typed, valued := f.has("digest-type"), f.has("digest-value"); {
	case !typed && !valued:
		return nil
	case !typed:
		return web.BadRequest("digest-value without digest-type")
	case !valued:
		return web.BadRequest("digest-type without digest-value")
	}
	t, err := digest.Parse(strings.TrimSpace(f["digest-type"]))
	if err != nil {
		return web.BadRequest("%v", err)
	}
	v, err := digest.ParseValue(t, strings.TrimSpace(f["digest-value"]))
	if err != nil {
		return web.BadRequest("%v", err)
	}
	m.Expect = append(m.Expect, v)
	return nil
}

// notBefore reads the time until which jobs are on hold; it is zero without one.
func (f fields) notBefore() (time.Time, error) {
	if s := strings.TrimSpace(f["not-before"]); s != "" {
		return field.ParseTime(s)
	}
	return time.Time{}, nil
}

// isManifest reports whether the type of a submission is a batch manifest;
// checkm is the answer without a type.
func (f fields) isManifest(checkm bool) (bool, error) {
	if !f.has("type") {
		return checkm, nil
	}
	switch t := strings.ToLower(strings.TrimSpace(f["type"])); t {
	case "job":
		return false, nil
	case "batch-manifest", "batch":
		return true, nil
	default:
		return false, unsupportedBody(fmt.Sprintf("type %.40q is neither job nor batch-manifest", t))
	}
}

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
		return nil, web.BadRequest("in a form the filename is given with the file")
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
		return nil, web.BadRequest("more than %d octets behind the last boundary", maxEpilogue)
	}
	if err := in.Verify(); err != nil {
		return nil, err
	}
	if r.browser() && form.fields["sidecar"] == "" { // a field that nobody filled in
		delete(form.fields, "sidecar")
	}
	return form.finish()
}

func (f *formReader) part(p *multipart.Part) error {
	name := p.FormName()
	if name != "file" {
		if fieldNames[name] == "filename" {
			return web.BadRequest("in a form the filename is given with the file")
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
		return web.BadRequest("Content-Transfer-Encoding %.40q is not supported", e)
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
		return nil, web.BadRequest("form has no part named file")
	}
	batch, err := f.fields.isManifest(f.manifest)
	if err != nil {
		return nil, err
	}
	if f.files > 1 {
		if batch {
			return nil, web.BadRequest("a batch is one manifest, this form has %d files; with type=job a manifest is a job",
				f.files)
		}
		if f.fields.has("sidecar") {
			return nil, web.BadRequest("a sidecar belongs to a single file, this form has %d", f.files)
		}
		if f.fields.has("digest-type") || f.fields.has("digest-value") {
			return nil, web.BadRequest("a digest belongs to a single file, this form has %d", f.files)
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

// copyBuffers are for payloads on their way in.
var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyPayload is io.Copy with a buffer of ours, if dst does not read for itself.
func copyPayload(dst io.Writer, src io.Reader) error {
	buf := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(dst, src, buf[:])
	return err
}
