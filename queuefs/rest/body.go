package rest

import (
	"io"
	"net/http"
	"strings"

	"cutie/queuefs/web"
)

// fields adds to the parameters of the query those of a form in the body, and
// refuses those that the method does not have. A body that does not say what it is has no meaning.
func (h *Handler) fields(w http.ResponseWriter, r *request) error {
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	if r.ContentLength == 0 || contentType == "" {
		if err := h.drain(w, r); err != nil {
			return err
		}
		return r.only()
	}
	data, err := h.small(w, r)
	if err != nil {
		return err
	}
	if !isForm(contentType) && len(data) > 0 {
		return unsupportedBody(contentType)
	}
	values, err := readProperties(r.Context(), contentType, data)
	if err != nil {
		return err
	}
	for _, v := range values {
		r.add(v.Name, v.Value)
	}
	return r.only()
}

// choices is fields for a method on many jobs. A body without a Content-Type
// may be meant to select them, and is refused.
func (h *Handler) choices(w http.ResponseWriter, r *request) error {
	if r.ContentLength == 0 || r.Header.Get("Content-Type") != "" {
		return h.fields(w, r)
	}
	data, err := h.small(w, r)
	switch {
	case err != nil:
		return err
	case len(data) > 0:
		return unsupportedBody("the body has no Content-Type")
	}
	return r.only()
}

func unsupportedBody(contentType string) error {
	return &web.Error{Status: http.StatusUnsupportedMediaType,
		Message: "unsupported request form: " + strings.ToValidUTF8(contentType, "\ufffd")}
}

// drain reads a body without meaning. Until it is read, nobody notices that the
// client has gone.
func (h *Handler) drain(w http.ResponseWriter, r *request) error {
	if r.ContentLength == 0 {
		return nil
	}
	b, err := web.NewBodyReader(w, r.Request, 64<<10, h.o.BodyIdle)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, b)
	return err
}

// small reads a body of at most 64 KiB.
func (h *Handler) small(w http.ResponseWriter, r *request) ([]byte, error) {
	return h.read(w, r, 64<<10)
}

func (h *Handler) read(w http.ResponseWriter, r *request, limit int64) ([]byte, error) {
	b, err := web.NewBodyReader(w, r.Request, limit, h.o.BodyIdle)
	if err != nil {
		return nil, err
	}
	return b.All()
}
