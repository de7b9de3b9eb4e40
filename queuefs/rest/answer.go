package rest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// texts are buffers for answers; large ones are not kept.
var texts = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

const largeBuffer = 64 << 10

func putBuffer(buf *[]byte) {
	if cap(*buf) <= largeBuffer {
		texts.Put(buf)
	}
}

// answer writes d in the given form. A page has no ages, since it may have an entity tag.
func (h *Handler) answer(w http.ResponseWriter, status int, form state.Form, d *state.Document) {
	h.write(w, status, form, func(dst []byte) []byte {
		if isPage(form) {
			return h.o.Pages.State(dst, d, View{})
		}
		return form.Append(dst, d)
	})
}

// write answers with the document appended by fill, in the given form.
func (h *Handler) write(w http.ResponseWriter, status int, form state.Form, fill func(dst []byte) []byte) {
	buf := texts.Get().(*[]byte)
	defer putBuffer(buf)
	*buf = fill((*buf)[:0])
	header := w.Header()
	values := []string{form.MediaType(), strconv.Itoa(len(*buf))} // one allocation for both
	header["Content-Type"], header["Content-Length"] = values[:1:1], values[1:]
	header["X-Content-Type-Options"] = noSniff
	if isPage(form) {
		header["Content-Security-Policy"] = []string{h.o.Pages.Policy()}
	}
	w.WriteHeader(status)
	w.Write(*buf) // nobody is left to be told of an error
}

// answerChange answers a method with the new state. A program without a wish for a form gets
// a page of the state alone: nobody looks at the rest. The sender of a page's form
// is redirected to the page of the state, which can be loaded again without
// harm. The holder of a lease gets the one page with its token at once, since
// the token must be in no URL.
func (h *Handler) answerChange(w http.ResponseWriter, r *request, status int, form state.Form, d *state.Document) error {
	switch {
	case r.unasked():
		h.write(w, status, form, func(dst []byte) []byte { return form.Append(dst, d) })
	case !r.fromPage(form):
		h.answer(w, status, form, d)
	case r.lease != "":
		w.Header()["Cache-Control"] = noStore
		return h.answerPage(w, r, form, d)
	default:
		h.seeOther(w, r, d)
	}
	return nil
}

var noCache = []string{"no-cache"}

var noSniff = []string{"nosniff"}

// answerTagged writes the document of make, unless the client has the entity
// tag of the present, tag. make returns the tag of its document, "" if the
// document is not of one instant.
func (h *Handler) answerTagged(w http.ResponseWriter, r *request, form state.Form, tag string, make func() (d state.Document, tag string, err error)) error {
	header := w.Header()
	header["Cache-Control"] = noCache
	if isPage(form) && r.browser() {
		d, _, err := make()
		if err == nil {
			err = h.answerPage(w, r, form, &d)
		}
		if err != nil {
			delete(header, "Cache-Control")
		}
		return err
	}
	if web.Matches(r.Header["If-None-Match"], tag) {
		header["Etag"] = []string{tag}
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	d, tag, err := make()
	if err != nil {
		delete(header, "Cache-Control")
		return err
	}
	if tag != "" {
		header["Etag"] = []string{tag}
	}
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

// steadyTries is how often a changing thing is read again.
const steadyTries = 5

// A View is the part of a page that is not in the state. The zero View is for
// everyone, at no certain time.
type View struct {
	// Now is the instant from which dates are told; zero: the dates alone are.
	Now time.Time
	// Jobs are jobs of jobStates, in the same order, with a row for each. Missing
	// jobs are shown by their identifiers.
	Jobs []job.Job
	// May reports whether the reader may send a request to a path below the base,
	// such as "/hold/q/j000000000042". nil: the reader may do everything.
	May func(method, path string) bool
	// Mirror says that the queue changes by its original alone, so nothing may be done with it.
	Mirror bool
	// Changed is the method for many jobs answered by the page; the state has its changes.
	Changed string
	// Lease is the token of the reader's lease of the job, "" for none. The page
	// shows it, and has the forms of a consumer.
	Lease string
	// Failure is the refused request, for the page of an exception; nil: nothing is known of it.
	Failure *web.Failure
}

// Pages writes states for people. Whatever a page shows, the table of
// [state.AppendTable] is in it.
type Pages interface {
	State(dst []byte, d *state.Document, v View) []byte // a page
	// A page with a row for each job: its beginning,
	// the rows, and its end, with the reference of the
	// next page or "".
	JobsTop(dst []byte, base state.Base, queue string) []byte
	Job(dst []byte, d *state.Document, now time.Time) []byte
	JobsEnd(dst []byte, next string) []byte
	// Rows reports whether the page of a state has rows for its jobs, from [View.Jobs].
	Rows(d *state.Document) bool
	// Own returns the URL of a page for a sender without the right to read the queue, after a
	// change with the state d; without jobs in it there was no job to take.
	Own(d *state.Document, queue string) string
	// Policy is the Content-Security-Policy of all of them.
	Policy() string
}

// plainPages are the plain form XHTML.
type plainPages struct{}

func (plainPages) State(dst []byte, d *state.Document, _ View) []byte {
	return state.XHTML.Append(dst, d)
}

func (plainPages) JobsTop(dst []byte, _ state.Base, queue string) []byte {
	return state.AppendXHTMLHead(dst, "Jobs of "+queue)
}

func (plainPages) Job(dst []byte, d *state.Document, _ time.Time) []byte {
	return state.AppendTable(dst, d, nil)
}

func (plainPages) JobsEnd(dst []byte, next string) []byte { return state.AppendXHTMLFoot(dst) }

func (plainPages) Rows(*state.Document) bool { return false }

func (plainPages) Own(d *state.Document, _ string) string { return state.XHTML.Ask(d.Subject) }

func (plainPages) Policy() string { return state.PagePolicy }

// maxRows is how many jobs of a list have their properties on a page. The
// others have their identifiers alone, since each row reads a job file.
const maxRows = 200

func isPage(form state.Form) bool { return form == state.XHTML || form == state.HTML }

// answerPage writes a document as a page for a person. It has no entity tag,
// since it shows the age of things and depends on the reader.
func (h *Handler) answerPage(w http.ResponseWriter, r *request, form state.Form, d *state.Document) error {
	v := View{Now: time.Now()}
	v.Lease = r.lease
	v.May = web.MayOf(r.Context())
	if d.Class == state.QueueClass || d.Class == state.JobClass {
		q, err := h.queue(r)
		if err != nil {
			return err
		}
		v.Mirror = q.Mirror().Live()
		var refs []string
		if h.o.Pages.Rows(d) {
			refs = d.Items("jobStates")
		}
		for _, ref := range refs[:min(len(refs), maxRows)] {
			_, id, err := state.ParseJobRef(ref)
			if err != nil {
				return err
			}
			if j, err := q.Job(id); err == nil { // else it was culled meanwhile
				v.Jobs = append(v.Jobs, j)
			}
		}
	}
	h.write(w, http.StatusOK, form, func(dst []byte) []byte { return h.o.Pages.State(dst, d, v) })
	return nil
}

// takenByPage answers a form that took a job, or found none. The payload is
// behind a link of the page.
func (h *Handler) takenByPage(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, taken []queuefs.Taken) error {
	if len(taken) == 0 {
		base := h.base(r.Request)
		h.seeOther(w, r, &state.Document{Class: state.QueueClass, Base: base, Subject: base.Ref("state", q.ID())})
		return nil
	}
	d := state.OfJob(h.base(r.Request), &taken[0].Job)
	r.lease = taken[0].Token
	return h.answerChange(w, r, http.StatusOK, form, &d)
}

// SavedPlace is the place of a note in the page of a queue: its settings were set.
const SavedPlace = "saved"

// seeOther sends a browser to the page of a state, or to another one if its sender may not
// read the state.
func (h *Handler) seeOther(w http.ResponseWriter, r *request, d *state.Document) {
	to := state.XHTML.Ask(d.Subject)
	if !mayRead(web.MayOf(r.Context()), d) {
		to = h.o.Pages.Own(d, r.PathValue("queue"))
	}
	if r.place != "" {
		to += "#" + r.place
	}
	header := w.Header()
	header["Location"] = []string{to}
	header["Content-Length"] = []string{"0"}
	w.WriteHeader(http.StatusSeeOther)
}

// mayRead reports whether the sender may read a state. may is that of [web.MayOf].
func mayRead(may func(method, path string) bool, d *state.Document) bool {
	path, below := strings.CutPrefix(d.Subject, string(d.Base))
	return may == nil || !below || may(http.MethodGet, path)
}

// Reads reports whether the reader may read the state of a page.
func (v *View) Reads(d *state.Document) bool { return !d.Outline && mayRead(v.May, d) }

type (
	userKey    struct{}
	addressKey struct{}
)

// WithUser adds the authenticated user to the context of a request; jobs
// submitted with it are the user's own.
func WithUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf returns the user of a request, "" without one.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// WithAddress adds the address of the client to the context of a request behind
// a proxy.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// callerOf tells callers apart: users, and addresses of callers without a name.
// It is "" without either, as over the socket of a home.
func callerOf(r *http.Request) string {
	if user := UserOf(r.Context()); user != "" {
		return "user " + user
	}
	if address, ok := r.Context().Value(addressKey{}).(string); ok {
		return address
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// A version is the part of entity tags for the queue: the beginning of all tags
// of its states. Their ends tell forms and pages apart. Every event of the
// queue makes another version.
type version string

func (h *Handler) versionOf(r *request, s *ledger.State) version {
	hash := newTagHash()
	hash.add(string(h.base(r.Request)), strconv.FormatInt(s.Oldest.UnixMicro(), 10)) // a job being taken is no longer the oldest, before its event
	var text []byte
	for i := range home.Properties {
		text = home.Properties[i].Append(text[:0], &s.Info)
		hash.add(string(text))
	}
	return version(strings.TrimSuffix(hash.tag(uint64(s.Seq)), `"`))
}

// tag returns the entity tag of a view.
func (v version) tag(view tagHash) string {
	return string(v) + "-" + strconv.FormatUint(uint64(view), 36) + `"`
}

// names reports whether a tag is one of this version.
func (v version) names(tag string) bool {
	return strings.HasPrefix(tag, string(v)+"-") && strings.HasSuffix(tag, `"`)
}

// precondition checks If-Match and If-None-Match of a change against the
// present state of a queue (RFC 9110, 13.1): 412 if it is another. A tag of any
// form and page of the state will do.
func (h *Handler) precondition(r *request, q *queuefs.Queue) error {
	match, none := r.Header["If-Match"], r.Header["If-None-Match"]
	if match == nil && none == nil {
		return nil
	}
	s := q.State()
	v := h.versionOf(r, &s)
	switch {
	case match != nil && !web.AnyTag(match, v.names):
		return web.Errorf(http.StatusPreconditionFailed, "queue %s is not in the state that If-Match names", q.ID())
	case web.AnyTag(none, func(string) bool { return false }): // "*", to make queues
		return web.Errorf(http.StatusPreconditionFailed, "%s: %v", q.ID(), queuefs.ErrQueueExists)
	case web.AnyTag(none, func(tag string) bool { return v.names(strings.TrimPrefix(tag, "W/")) }):
		return web.Errorf(http.StatusPreconditionFailed, "queue %s is in the state that If-None-Match names", q.ID())
	}
	return nil
}

// A tagHash is an FNV-1a hash for an entity tag.
type tagHash uint64

func newTagHash() tagHash { return 14695981039346656037 }

func (t *tagHash) add(parts ...string) {
	for _, s := range parts {
		for i := 0; i < len(s); i++ {
			*t = (*t ^ tagHash(s[i])) * 1099511628211
		}
		*t = (*t ^ 0xff) * 1099511628211 // 0xff is no part of UTF-8
	}
}

// tag returns a strong entity tag; n is its growing part.
func (t tagHash) tag(n uint64) string {
	b := append(make([]byte, 0, 40), '"')
	b = append(strconv.AppendUint(b, n, 36), '-')
	return string(append(strconv.AppendUint(b, uint64(t), 36), '"'))
}

// replayed says in the answer that nothing was stored, or taken, for the request, and
// returns its status.
func replayed(w http.ResponseWriter, again bool, status int) int {
	if !again {
		return status
	}
	w.Header()[field.Replayed] = []string{"true"}
	return http.StatusOK
}

// keyBusy lets the client of a busy key ask again.
func keyBusy(w http.ResponseWriter, err error) error {
	if errors.Is(err, queuefs.ErrKeyBusy) {
		w.Header()["Retry-After"] = []string{"1"}
	}
	return err
}
