// Package rdm speaks RDM, Resource Description Messages (W3C NOTE-rdm-960724),
// over the queues of a home, both ends: a [Handler] for /rdm/incoming and a
// [Client].
//
// A catalog is a queue, and a resource is a job: its description is the state
// of the job, and its URL the URL of Get-job-state. A catalog has the pending
// and consumed jobs; deleted are jobs in this status, and culled jobs as long
// as they are remembered.
//
//	request                        query language   scope
//	rd-request                     gatherer         all | since DATE
//	rd-request-deleted             gatherer         all | since DATE
//	schema-description-request     schema-basic     defined ATTRIBUTE
//	taxonomy-description-request   taxonomy-basic   descendant[/N] ID | children ID | anklebiter ID
//	server-description-request
//	status-request
//
// each by POST of a message of type application/x-rdm, or by GET with the keys
// type, ql, csid, scope, view-attributes, view-order and view-hits, or the first
// three by the names of the header. The short names schema-request, server-request and
// taxonomy-request are known as well.
//
// A client submits descriptions with a message of the type rd-response, and deletes them
// with the type rd-response-deleted. Each object stands for itself, and the answer, a
// status-response, has a result for each:
//
//   - An object is a new job. Its payload is the attribute Payload, or else the object
//     itself as application/x-soif. Title is the file name, Sidecar the sidecar; the
//     payload must have the digests of Digest-Type and Digest-Value.
//   - An object with the URL of a description in the catalog replaces it: it is a new
//     job, and the former one is deleted if it is pending, and no longer in the catalog.
//     The same object again changes nothing.
//   - An object with the URL of a pending job changes its file name, by Title, and its
//     Sidecar. The URL of a consumed or deleted job requeues it, if the attribute Status
//     is pending.
//
// Changing and deleting need the right to delete, or a user whose job it is. A leading
// SCHEMA object is passed over: all attributes are taken.
//
// A description that was submitted is sent with its URL and its attributes, followed by
// those of its job that it lacks; other jobs are sent with the URL of their state. A
// catalog forgets descriptions with their jobs: a culled one is deleted by the URL of its
// job.
//
// An answer is of the instant at its beginning: jobs that change later are left
// to the next answer. Its Last-Modified is this instant, or the last event
// before it. A request since then misses nothing, and repeats at most the
// changes of one second.
//
// Errors are messages too, with RDM-Error-Message and a status of HTTP. Where
// the text of RDM contradicts itself, names are compared without case and both
// spellings taken; dates are read in the three forms of HTTP. Messages are read as they
// are printed, with wrong sizes and blanks for TABs; RDM-Mended in the header of the
// answer says what was mended. A Catalog-Service-ID of another server is refused.
//
// The server description has the limits of [Options] as Max-Message-Size,
// Max-Object-Size, Max-Objects and Max-Ordered. A schema has all attributes in its
// default view, the view of requests without View-Attributes.
//
// Not here: query languages of other makers, and descriptions of other servers.
package rdm

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/quota"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Path is where messages are taken.
const Path = "/rdm/incoming"

// Options are the settings and limits of a [Handler]. Zero values mean the
// defaults.
type Options struct {
	// Allow returns why the caller lacks a right for a queue, by its cleaned
	// identifier, or for all queues if that is "": an [*web.Error]. What the answer
	// needs besides is added to header. Allow, User and Log must be set.
	Allow func(header http.Header, r *http.Request, right web.Right, queue string) error
	// User returns the user who asks, "" for one without a name.
	User func(ctx context.Context) string
	// Quota counts the jobs of users; nil: its own.
	Quota *quota.Keeper
	// Log is called with errors hidden from the caller.
	Log func(r *http.Request, err error)

	MaxBody    int64 // bytes of a message, as sent and as decoded; 0: 1 GiB; beyond it 413
	MaxObjects int   // objects of a submission; 0: [DefaultObjects]; beyond it 413
	// MaxOrdered is how many descriptions View-Order sorts; 0: [DefaultOrdered]. For
	// the first of more there is View-Hits; else the answer is 400.
	MaxOrdered int
	Now        func() time.Time // nil means time.Now
}

// Defaults of [Options].
const (
	DefaultObjects = 10_000
	DefaultOrdered = 100_000
)

// An answer is held back up to 32 KiB, so that a short one has a Content-Length and an
// error a status; without memory, up to 4 KiB.
const (
	heldBack  = 32 << 10
	leastHeld = 4 << 10
)

// A Handler answers messages. It is safe for concurrent use.
type Handler struct {
	svc *queuefs.Service
	o   Options

	mu       sync.Mutex        // guards catalogs
	catalogs map[string]*names // by the identifiers of the queues
}

// New returns a Handler before svc, for requests with the path [Path].
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 1<<30)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultObjects)
	o.MaxOrdered = cmp.Or(o.MaxOrdered, DefaultOrdered)
	if o.Quota == nil {
		o.Quota = quota.New(svc)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{svc: svc, o: o, catalogs: map[string]*names{}}
}

// Routes returns the routes of messages. The rights that a message takes depend
// on what it says, so the handler asks Options.Allow.
func (h *Handler) Routes() []web.Route {
	fail := func(w http.ResponseWriter, r *http.Request, err error) { h.begin(w, r).fail(err) }
	return []web.Route{
		{Method: http.MethodGet, Path: Path, Need: web.Anywhere(web.Read), Serve: h.serve, Fail: fail},
		{Method: http.MethodPost, Path: Path, Need: web.Need{Right: web.Read, Of: web.Body}, Serve: h.serve, Fail: fail},
	}
}

// serve answers one message, errors included: they name what the message asked
// for.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	x := h.begin(w, r)
	read := x.readURL
	if r.Method == http.MethodPost {
		read = x.readBody
	}
	err := read()
	if err == nil {
		err = x.kind.answer(x)
	}
	if err == nil {
		err = x.finish()
	}
	if err != nil {
		x.fail(err)
	}
	return nil
}

// An exchange is one message and the answer to it.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	base   state.Base
	memory *buffers.Account // for what is kept of the message and of the answer

	kind    *kind       // of the message; nil until it is known
	asked   soif.Object // attributes of the header and of the query
	view    view
	catalog *queuefs.Queue // once it was found
	in      *soif.Reader   // of a message that was posted

	out     *bufio.Writer // of the exchange itself, which sends the header
	status  int           // of the answer
	started bool          // the header is sent
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, w: w, r: r, base: state.NewBase(h.svc.Info().BaseURI), memory: buffers.Of(r.Context()),
		status: http.StatusOK}
	held := heldBack
	if x.memory.Take(held) != nil {
		held = leastHeld
	}
	x.out = bufio.NewWriterSize(x, held)
	w.Header().Set("Content-Type", MediaType)
	x.expires(0)
	return x
}

// said returns an attribute of the message, "" if it has none.
func (x *exchange) said(name string) string { return strings.TrimSpace(x.asked.Value(name)) }

// Write begins the answer, and goes on with it.
func (x *exchange) Write(p []byte) (int, error) {
	if !x.started {
		x.started = true
		x.w.WriteHeader(x.status)
	}
	return x.w.Write(p)
}

// finish sends the rest of the answer.
func (x *exchange) finish() error {
	if !x.started {
		x.w.Header().Set("Content-Length", strconv.Itoa(x.out.Buffered()))
	}
	return x.out.Flush()
}

// answer sends the header of an answer, and the first objects behind it. interpret says
// how to read it, failure what went wrong; both may be "".
func (x *exchange) answer(interpret, failure string, objects ...soif.Object) error {
	typ := statusResponse
	if x.kind != nil {
		typ = x.kind.reply
	}
	head := object(headerObject, "", nameVersion, "1.0", nameType, typ, nameCatalog, x.answered(),
		nameInterpret, interpret, nameError, failure, nameMended, x.mended())
	for _, o := range append([]soif.Object{head}, objects...) {
		if err := o.Write(x.out); err != nil {
			return err
		}
	}
	return nil
}

// mended says what was mended in the message, "" if nothing was.
func (x *exchange) mended() string {
	if x.in == nil {
		return ""
	}
	first, all := x.in.Mended()
	text := strings.Join(first, "; ")
	if all > len(first) {
		text += "; and " + strconv.Itoa(all-len(first)) + " more"
	}
	return text
}

// expires says how long an answer holds.
func (x *exchange) expires(d time.Duration) {
	x.w.Header().Set("Expires", httpDate(x.h.o.Now().Add(d)))
}

// httpDate is a date as RDM has it (RFC 9110, 5.6.7), "" for the zero time.
func httpDate(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

func badRequest(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
}

// errorOf maps an error to a status. The part that is not for the caller goes to the log.
func (x *exchange) errorOf(err error) *web.Error {
	e, hidden := web.ErrorOf(err)
	if _, ok := errors.AsType[*soif.ParseError](err); ok && hidden {
		status := http.StatusBadRequest
		if errors.Is(err, soif.ErrTooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		return &web.Error{Status: status, Message: err.Error()}
	}
	if hidden {
		x.h.o.Log(x.r, err)
	}
	return e
}

// fail answers with an error. An answer on its way is cut off, lest it pass for
// whole.
func (x *exchange) fail(err error) {
	if x.started {
		if x.r.Context().Err() == nil {
			x.h.o.Log(x.r, err)
		}
		panic(http.ErrAbortHandler)
	}
	e := x.errorOf(err)
	if e.Status == http.StatusRequestTimeout {
		x.w.Header().Set("Connection", "close")
	} else {
		web.GiveUp(x.w, x.r, web.BodyIdle)
	}
	x.out.Reset(x)
	x.status = e.Status
	x.answer("", e.Error())
	x.finish()
}
