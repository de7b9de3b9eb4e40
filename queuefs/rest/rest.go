// Package rest serves the Cutie protocol over HTTP (Cutie 0.3, section 5): a [Handler]
// before a service on a file system. The rows of [Handler.Routes] are the protocol and
// its help. Package client is the other end.
//
// Every GET answers HEAD as well. State, help and errors come in the form of ?t= or else
// Accept, see [state.Negotiate]. References are built from the baseURI of the service, or
// from the base of the request, see [web.BaseOf]. ?h asks for help about a method, ?V for
// the version; ?v is always on, and ?D is not served.
//
// Methods that change or select something refuse unknown and repeated parameters, so
// that no client believes in an effect; other methods ignore unknown ones. Parameters may
// also come as a form in the body. A form sent from a page is answered with 303
// and the page of the outcome. A state of one instant has an entity tag.
// Changes of /state/Q honour If-Match and If-None-Match, with any tag of the
// queue's states.
//
// Where the specification leaves a choice:
//
//   - A submission of several files is all or nothing, answered with the state of the
//     queue; its submittedJobStates are the new jobs.
//   - The sidecar is a part named sidecar, a parameter, or the header Cutie-Sidecar,
//     percent-encoded. Digests are the pair digest-type and digest-value, or the headers
//     Content-Digest and Repr-Digest (RFC 9530) or Content-MD5.
//   - A job is handed out as multipart/form-data with the parts payload and sidecar; as
//     multipart/mixed or as the bare payload if Accept prefers it. With ?max= the answer
//     is multipart/mixed with one part a job.
//   - A queue without pending jobs is 204, a missing job 404.
//   - Events are server-sent events; Last-Event-ID or ?lastEventId= goes on after an
//     event, ?from=N with event N, each event at least once. If they are no longer in the
//     journal, an event reset tells the client what to read instead.
//   - A batch manifest is fetched and submitted whole or not at all; see package batch.
//     With Prefer: respond-async the answer is 202 and the Location of its state.
//   - With ?lease=, or if the queue wants reports, a job comes with the headers
//     Cutie-Lease, Cutie-Lease-Expires and Cutie-Attempt, and Links of [Relation]. The
//     token gives access to /lease, /outcome and /result; 410 after its end.
//   - A method for many jobs changes one after another, and answers with the true list of
//     changes even if it stopped early; moreJobs and moreAfter tell where to go on.
//   - A requeued job keeps its identifier and its place; with ?end it is a new job.
//   - With an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) a submission or
//     a take may be sent again. The answer is 200 with Idempotency-Replayed: true, 422 if
//     the key belongs to another payload. A second request waits for the first, for 30 s
//     at most; then it is 409.
package rest

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/events"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/outbound"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Options are the limits of a [Handler]. Zero values mean the defaults.
type Options struct {
	MaxBody    int64         // octets of a submission; 0: 16 GiB; beyond it 413
	MaxParts   int           // files of a submission; 0: 10,000; beyond it 413
	MaxSidecar int           // octets; 0: 64 KiB; beyond it 413
	MaxWait    time.Duration // longest ?wait=; 0: 60 s; beyond it 400
	// BulkTime is after how long a method for many jobs begins with no further
	// one; 0: 20 s. Its answer says where to go on.
	BulkTime time.Duration
	// BodyIdle is how long a body may make no progress; 0: 30 s; then 408. It
	// takes the place of the ReadTimeout of the server while a body is read.
	BodyIdle time.Duration
	Quota    *quota.Keeper    // counts the jobs of users; nil: its own
	Streams  events.Limits    // of clients following events
	Batch    BatchLimits      // of batch manifests
	Fetch    *outbound.Client // fetches the files in manifests; nil: from public addresses only
	Pages    Pages            // write the form XHTML; nil: plain tables
	// Reads reports whether the caller of a request may read the jobs of a queue. Who may only
	// change them is shown identifiers and statuses. nil: everyone reads.
	Reads func(r *http.Request, queue string) bool
	// Taken is called with jobs handed out, Concluded with jobs given an
	// outcome by their consumer, unless they are nil.
	Taken, Concluded func(*job.Job)
	// Trace returns traceparent and tracestate for the consumer of a job, "" for none;
	// nil: those of the submission.
	Trace func(*job.Job) (parent, state string)
	// Description returns the OpenAPI document of a service with other routes, too; nil: that
	// of the routes of the Handler.
	Description func() ([]byte, error)
	Now         func() time.Time // of changes by hand; nil: time.Now
	// Log is called with errors hidden from the caller, unless it is nil.
	Log func(r *http.Request, err error)
}

// A Handler serves the protocol. It is safe for concurrent use.
type Handler struct {
	svc     *queuefs.Service
	o       Options
	router  *web.Router
	refuser web.Refuser

	batches *batches
	streams *events.Server
	files   fileServer

	description func() ([]byte, error) // OpenAPI, made once
}

// New returns a Handler before svc. It expects requests with the paths of
// [Handler.Routes]; a prefix of the baseURI is to be stripped before.
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<30)
	o.MaxParts = cmp.Or(o.MaxParts, 10_000)
	o.MaxSidecar = cmp.Or(o.MaxSidecar, 64<<10)
	o.MaxWait = cmp.Or(o.MaxWait, 60*time.Second)
	o.BulkTime = cmp.Or(o.BulkTime, 20*time.Second)
	o.BodyIdle = cmp.Or(o.BodyIdle, 30*time.Second)
	if o.Pages == nil {
		o.Pages = plainPages{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Batch = o.Batch.withDefaults()
	if o.Fetch == nil {
		o.Fetch, _ = outbound.New(outbound.Options{}) // fails for a bad pattern only
	}
	if o.Quota == nil {
		o.Quota = quota.New(svc)
	}
	h := &Handler{svc: svc, o: o}
	h.batches = newBatches(&h.o)
	h.streams = events.New(svc, h.base, o.Streams, h.log)
	h.files = fileServer{Base: h.base, Log: h.log}
	h.refuser = web.Refuser{Base: h.base, Log: o.Log, BodyIdle: o.BodyIdle,
		Page: func(dst []byte, d *state.Document, why *web.Failure) []byte {
			return o.Pages.State(dst, d, View{May: why.May, Failure: why})
		}}
	h.description = sync.OnceValues(func() ([]byte, error) { return Describe(h.Routes(), nil) })
	if o.Description != nil {
		h.description = sync.OnceValues(o.Description)
	}
	h.router = web.NewRouter(h.Error, h.Routes()...)
	return h
}

// ServeHTTP answers a request by the routes of the Handler alone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.router.ServeHTTP(w, r) }

// Error answers a request with an exception state in the form of the request.
// Hidden parts of err go to the log.
func (h *Handler) Error(w http.ResponseWriter, r *http.Request, err error) {
	h.refuser.Refuse(w, r, err)
}

// base returns the beginning of references in the answer to a request.
func (h *Handler) base(r *http.Request) state.Base { return web.BaseOf(r, h.svc.Info().BaseURI) }

// queue returns the queue in the path.
func (h *Handler) queue(r *request) (*queuefs.Queue, error) {
	name := r.PathValue("queue")
	q, err := h.svc.Ask(name)
	if err != nil {
		return nil, notFound(err, ledger.ErrNoQueue, name)
	}
	return q, nil
}

// job returns the queue and the number of the job in the path. The job need not
// exist.
func (h *Handler) job(r *request) (*queuefs.Queue, job.ID, error) {
	q, err := h.queue(r)
	if err != nil {
		return nil, 0, err
	}
	name := r.PathValue("job")
	id, err := job.ParseID(name)
	if err != nil {
		return nil, 0, notFound(err, ledger.ErrNoJob, name)
	}
	return q, id, nil
}

func tooLarge(format string, args ...any) error {
	return web.Errorf(http.StatusRequestEntityTooLarge, format, args...)
}

// notFound is the error for a missing thing with its name. A name that is not
// valid is not found either; other errors stay as they are.
func notFound(err, missing error, name string) error {
	if errors.Is(err, missing) || errors.Is(err, job.ErrBadName) {
		return web.Errorf(http.StatusNotFound, "%v: %.80s", missing, strings.ToValidUTF8(name, "\ufffd"))
	}
	return err
}

// log records an error too late for an answer.
func (h *Handler) log(r *http.Request, err error) {
	if h.o.Log != nil && r.Context().Err() == nil {
		h.o.Log(r, err)
	}
}

// A row is a [web.Route] of the protocol.
type row struct {
	method, path string
	need         web.Need
	waits        web.Waits
	help         *web.Help
	do           func(http.ResponseWriter, *request) error
}

// table is the protocol, in the order of Cutie 5. Rows without a function are
// 404 for users with their right.
func (h *Handler) table() []row {
	const (
		read    = web.Read
		submit  = web.Submit
		consume = web.Consume
		remove  = web.Delete
		admin   = web.Admin
	)
	here, anywhere, everywhere := web.Here, web.Anywhere, web.Everywhere
	return []row{
		{"GET", "/help", web.Need{}, web.AtOnce, aboutHelp, h.help},
		{"GET", "/help/{method}", web.Need{}, web.AtOnce, aboutHelp, h.help},
		{"GET", "/openapi.json", web.Need{}, web.AtOnce, aboutHelp, h.openAPI},
		{"GET", "/state", anywhere(read), web.AtOnce, aboutGetServiceState, h.serviceState},
		{"GET", "/state/{queue}", here(read), web.AtOnce, aboutGetQueueState, h.queueState},
		{"GET", "/state/{queue}/{job}", here(read), web.AtOnce, aboutGetJobState, h.jobState},
		{"PUT", "/state/{queue}", here(admin), web.AtOnce, aboutCreateQueue, h.putQueue},
		{"POST", "/state", everywhere(admin), web.AtOnce, aboutCreateQueue, h.postState},
		{"POST", "/state/{queue}", here(admin), web.AtOnce, aboutSetQueue, h.postQueue},
		{"DELETE", "/state/{queue}", here(admin), web.AtOnce, aboutRemoveQueue, h.removeQueue},
		{"POST", "/cull", everywhere(admin), web.AtOnce, aboutCull, h.cull},
		{"POST", "/cull/{queue}", here(admin), web.AtOnce, aboutCull, h.cull},
		{"POST", "/content/{queue}", here(submit), web.AtOnce, aboutSubmitJob, h.submit},
		{"GET", "/batch/{queue}/{batch}", here(read), web.AtOnce, aboutGetBatchState, h.batchState},
		{"GET", "/batch/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"POST", "/consume/{queue}", here(consume), web.IfAsked, aboutGetNextJob, h.consume},
		{"GET", "/content/{queue}", here(read), web.AtOnce, aboutPeekAtJob, h.peek},
		{"GET", "/content/{queue}/{job}", here(read), web.AtOnce, aboutPeekAtJob, h.peek},
		{"DELETE", "/content/{queue}/{job}", here(remove), web.AtOnce, aboutDeleteJob, h.operate("delete", http.StatusAccepted)},
		{"POST", "/delete/{queue}/{job}", here(remove), web.AtOnce, aboutDeleteJob, h.operate("delete", http.StatusAccepted)},
		{"POST", "/delete/{queue}", here(remove), web.AtOnce, aboutDeleteJob, h.bulk("delete")},
		{"POST", "/hold/{queue}/{job}", here(remove), web.AtOnce, aboutHoldJob, h.operate("hold", http.StatusOK)},
		{"POST", "/hold/{queue}", here(remove), web.AtOnce, aboutHoldJob, h.bulk("hold")},
		{"POST", "/release/{queue}/{job}", here(remove), web.AtOnce, aboutReleaseJob, h.operate("release", http.StatusOK)},
		{"POST", "/release/{queue}", here(remove), web.AtOnce, aboutReleaseJob, h.bulk("release")},
		{"POST", "/requeue/{queue}/{job}", here(consume), web.AtOnce, aboutRequeueJob, h.operate("requeue", http.StatusOK)},
		{"POST", "/requeue/{queue}", here(consume), web.AtOnce, aboutRequeueJob, h.bulk("requeue")},
		{"POST", "/lease/{queue}/{job}", here(consume), web.AtOnce, aboutExtendLease, h.extend},
		{"POST", "/outcome/{queue}/{job}", here(consume), web.AtOnce, aboutReportOutcome, h.outcome},
		{"POST", "/abort/{queue}/{job}", here(remove), web.AtOnce, aboutAbortJob, h.abort},
		{"PUT", "/result/{queue}/{job}/{name}", here(consume), web.AtOnce, aboutPutResult, h.putResult},
		{"GET", "/result/{queue}/{job}/{name}", here(read), web.AtOnce, aboutGetResult, h.result},
		{"GET", "/result/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"GET", "/events", everywhere(read), web.Endless, aboutWatch, h.events},
		{"GET", "/events/{queue}", here(read), web.Endless, aboutWatch, h.events},
		{"GET", "/queues/{queue}/{file}", here(read), web.AtOnce, aboutHelp, h.infoFile},
		{"GET", "/queues/{queue}/{dir}/{job}", here(read), web.AtOnce, aboutHelp, h.file},
		{"GET", "/queues/{queue}/result/{job}/{name}", here(read), web.AtOnce, aboutHelp, h.result},
		{"GET", "/queues/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"GET", "/schema/{file}", anywhere(read), web.AtOnce, aboutHelp, h.schema},
		{"GET", "/schema/{rest:.*}", anywhere(read), web.AtOnce, aboutHelp, nil},
	}
}

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []web.Route {
	var routes []web.Route
	for _, t := range h.table() {
		route := web.Route{Method: t.method, Path: t.path, Need: t.need, Waits: t.waits, Help: t.help, Fail: h.Error}
		if t.do != nil {
			known := parametersOf(t.method + " " + t.path)
			route.Serve = func(w http.ResponseWriter, r *http.Request) error {
				return h.serve(w, &request{Request: r, known: known}, &t)
			}
		}
		routes = append(routes, route)
	}
	return routes
}

// serve answers a request, or the questions for help and version of every row.
func (h *Handler) serve(w http.ResponseWriter, r *request, t *row) error {
	w.Header()["Vary"] = varyAccept
	if !web.Clean(r.URL) {
		return web.BadRequest("path %.80q is not clean", r.URL.EscapedPath())
	}
	if r.URL.RawQuery != "" {
		var err error
		if r.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return web.BadRequest("query: %v", err)
		}
		switch {
		case r.query.Has("h"):
			return h.answerHelp(w, r, t.help.Help)
		case r.query.Has("V"):
			return h.version(w)
		}
	}
	return t.do(w, r)
}

// varyAccept is shared by all answers; nobody changes its element.
var varyAccept = []string{"Accept"}

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
