package rest

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
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
		return nil, badRequest("the request has no file; an empty one comes with its filename, or with a Content-Type that is no form's")
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
		return badRequest("part %.40q is none of file, sidecar, type, digest-type, digest-value, not-before", name)
	}
	if f.has(field) {
		return badRequest("%s is repeated", field)
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
			return badRequest("sidecar is repeated")
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
		return badRequest("digest-value without digest-type")
	case !valued:
		return badRequest("digest-type without digest-value")
	}
	t, err := digest.Parse(strings.TrimSpace(f["digest-type"]))
	if err != nil {
		return badRequest("%v", err)
	}
	v, err := digest.ParseValue(t, strings.TrimSpace(f["digest-value"]))
	if err != nil {
		return badRequest("%v", err)
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

// Close ends the batches on their way, without submitting them, and waits for
// them. Their submitters, and those of later batches, are answered with 503.
func (h *Handler) Close() { h.batches.close() }

// Batches returns the states of batches of a queue without jobs: on their way, or failed.
func (h *Handler) Batches(queue string) []state.Batch { return h.batches.unsubmitted(queue) }

// submitBatch submits the files of a manifest (Cutie 5.5). sub, with the manifest
// as its one job, is discarded.
func (h *Handler) submitBatch(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, sub *queuefs.Submission, manifest *queuefs.Upload, key string) error {
	b, err := h.batches.open(q, manifest, key, callerOf(r.Request), func(err error) {
		if h.o.Log != nil {
			h.o.Log(r.Request, err)
		}
	})
	if err != nil {
		if e, _ := web.ErrorOf(err); e.Status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		return err
	}
	sub.Discard()
	b.admit = h.o.Quota.Admission(r.Context(), q, UserOf(r.Context()))
	if !prefersAsync(r.Header) {
		ctx, cancel := web.While(r.Context())
		defer cancel()
		jobs, again, err := b.run(ctx)
		if err != nil {
			return keyBusy(w, err)
		}
		return h.answerSeveral(w, r, replayed(w, again, http.StatusCreated), form, q, jobs)
	}
	s := b.start()
	d := state.OfBatch(h.base(r.Request), &s)
	header := w.Header()
	header["Location"] = []string{d.Subject}
	header.Set("Preference-Applied", "respond-async")
	header["Cache-Control"] = noStore
	h.answer(w, http.StatusAccepted, form, &d)
	return nil
}

// prefersAsync reports whether the client asks not to wait (RFC 7240,
// 4.1).
func prefersAsync(header http.Header) bool {
	for _, value := range header["Prefer"] {
		for preference := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// batchState answers with the progress of a batch.
func (h *Handler) batchState(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	s, err := h.batches.stateOf(q.ID(), r.PathValue("batch"))
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = noStore
	d := state.OfBatch(h.base(r.Request), &s)
	h.answer(w, http.StatusOK, form, &d)
	return nil
}
