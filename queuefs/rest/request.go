package rest

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A request is one with its query parsed; query is nil if there is none.
type request struct {
	*http.Request
	query url.Values
	known []string // parameters of the method
	lease string   // token for the page of the answer
	works bool     // the caller shows the token of a lease
	place string   // in the page of the state answered with; "" for its top
	bad   error    // the first parameter in error, see wrong
}

// param returns a parameter of the query; a repeated one is an error.
func (r *request) param(name string) (value string, ok bool, err error) {
	switch v := r.query[name]; len(v) {
	case 0:
		return "", false, nil
	case 1:
		return v[0], true, nil
	default:
		return "", false, web.BadRequest("parameter %s is repeated", name)
	}
}

// wrong keeps the first error of a parameter. A handler reads all its
// parameters, and then asks once.
func (r *request) wrong(err error) {
	if r.bad == nil {
		r.bad = err
	}
}

// text returns a parameter, "" if it is not given; see wrong.
func (r *request) text(name string) string {
	s, _, err := r.param(name)
	r.wrong(err)
	return s
}

// parsed returns a parameter, zero if it is not given or empty; see wrong.
func parsed[T any](r *request, name string, parse func(string) (T, error)) (v T) {
	if s := r.text(name); s != "" {
		var err error
		v, err = parse(s)
		r.wrong(err)
	}
	return v
}

// only refuses parameters that the description of the method does not have.
func (r *request) only() error {
	for name := range r.query {
		if !slices.Contains(r.known, name) {
			return web.BadRequest("parameter %.40q is not known here", name)
		}
	}
	return nil
}

// contentType returns the media type of the body.
func (r *request) contentType() (string, error) { return field.Single(r.Header, "Content-Type") }

// agent returns the name of the client; see wrong.
func (r *request) agent() string {
	name, err := field.Single(r.Header, "User-Agent")
	r.wrong(err)
	return name
}

// form returns the form of state to answer in.
func (r *request) form() (state.Form, error) {
	t, _, err := r.param("t")
	if err != nil {
		return 0, err
	}
	return state.Negotiate(t, r.Header.Get("Accept"))
}

// number returns a parameter from least to most, or absent if it is not given;
// see wrong.
func (r *request) number(name string, absent, least, most int) int {
	s, ok, err := r.param(name)
	r.wrong(err)
	if !ok {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		r.wrong(web.BadRequest("parameter %s is %.20q, not a whole number from %d to %d", name, s, least, most))
	}
	return n
}

// seconds returns a parameter of at most the given time, 0 if it is not given;
// see wrong.
func (r *request) seconds(name string, most time.Duration) time.Duration {
	s, ok, err := r.param(name)
	r.wrong(err)
	if !ok {
		return 0
	}
	d, ok := parseSeconds(s, most)
	if !ok {
		r.wrong(web.BadRequest("parameter %s is %.20q, not seconds from 0 to %.0f", name, s, most.Seconds()))
	}
	return d
}

func parseSeconds(s string, most time.Duration) (d time.Duration, ok bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= most.Seconds()) {
		return 0, false
	}
	return time.Duration(f * float64(time.Second)), true
}

// flag returns a parameter set by being there, or by true; see wrong.
func (r *request) flag(name string) bool {
	s, ok, err := r.param(name)
	r.wrong(err)
	if ok && s != "" && s != "true" && s != "false" {
		r.wrong(web.BadRequest("parameter %s is %.20q, neither true nor false", name, s))
	}
	return ok && s != "false"
}

// fromPage reports whether the request is a form sent from a page by a person:
// programs have no reason to send forms and to want HTML.
func (r *request) fromPage(form state.Form) bool {
	if form != state.XHTML && form != state.HTML || r.Method != http.MethodPost {
		return false
	}
	return isForm(r.Header.Get("Content-Type")) && r.browser()
}

// unasked reports whether the request says nothing of the form of its answer.
func (r *request) unasked() bool {
	accept := r.Header.Get("Accept")
	return (accept == "" || accept == "*/*") && len(r.query["t"]) == 0
}

// browser reports whether a person reads the answer: programs have no reason to
// ask for HTML.
func (r *request) browser() bool {
	return strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/html")
}

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

func (r *request) add(name, value string) {
	if r.query == nil {
		r.query = url.Values{}
	}
	r.query.Add(name, value)
}

// isForm reports whether a body is from an HTML form.
func isForm(contentType string) bool {
	if contentType == "" {
		return false
	}
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "application/x-www-form-urlencoded" || media == "multipart/form-data"
}

func unsupportedBody(contentType string) error {
	return &web.Error{Status: http.StatusUnsupportedMediaType, Message: "unsupported request form: " + strings.ToValidUTF8(contentType, "\ufffd")}
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
