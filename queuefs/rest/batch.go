package rest

import (
	"net/http"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Close ends the batches on their way, without submitting them, and waits for
// them. Their submitters, and those of later batches, are answered with 503.
func (h *Handler) Close() { h.batches.Close() }

// submitBatch submits the files of a manifest (Cutie 5.5). sub, with the manifest
// as its one job, is discarded.
func (h *Handler) submitBatch(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, sub *queuefs.Submission, manifest *queuefs.Draft) error {
	b, err := h.batches.Open(q, manifest, callerOf(r.Request), func(err error) {
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
	if !prefersAsync(r.Header) {
		jobs, err := b.Run(r.Context())
		if err != nil {
			return err
		}
		return h.answerSeveral(w, r, form, q, jobs)
	}
	s := b.Start()
	d := state.OfBatch(h.base(), &s)
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
	s, err := h.batches.State(q.ID(), r.PathValue("batch"))
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = noStore
	d := state.OfBatch(h.base(), &s)
	h.answer(w, http.StatusOK, form, &d)
	return nil
}
