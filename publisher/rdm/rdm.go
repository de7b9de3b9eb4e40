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
// three by the names of the header. The short names schema-request, server-request and taxonomy-request are known as well.
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
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/quota"
	"cutie/queuefs/web"
)

// Path is where messages are taken.
const Path = "/rdm/incoming"

// Options are the settings and limits of a [Handler]. Zero values mean the
// defaults.
type Options struct {
	// Allow returns why the caller lacks a right for a queue, by its cleaned
	// identifier, or for all queues if that is "": an [*web.Error]. What the answer
	// needs besides is added to header. nil: everybody may do everything.
	Allow func(header http.Header, r *http.Request, right web.Right, queue string) error
	// User returns the user who asks, "" for one without a name. nil: nobody
	// has one.
	User func(ctx context.Context) string
	// Quota counts the jobs of users; nil: its own.
	Quota *quota.Keeper
	// Page returns a page for a person with a title and a text, which is HTML; nil: a bare
	// document.
	Page func(r *http.Request, title, text string) []byte
	// Refuse answers a person with an error; nil: a message does.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Log is called with errors hidden from the caller, if it is not nil.
	Log func(r *http.Request, err error)

	MaxBody    int64 // octets of a message, as sent and as decoded; 0: 1 GiB; beyond it 413
	MaxObject  int   // octets of one object of it; 0: [soif.DefaultLimit]; beyond it 413
	MaxObjects int   // objects of a submission; 0: [DefaultObjects]; beyond it 413
	// MaxOrdered is how many descriptions View-Order sorts; 0: [DefaultOrdered]. For
	// the first of more there is View-Hits; else the answer is 400.
	MaxOrdered int
	// BodyIdle is how long a message may make no progress; 0: 30 s; then 408.
	BodyIdle time.Duration
	Now      func() time.Time // nil means time.Now
}

// Defaults of [Options].
const (
	DefaultObjects = 10_000
	DefaultOrdered = 100_000
)

// A Handler answers messages. It is safe for concurrent use.
type Handler struct {
	svc    *queuefs.Service
	o      Options
	router *web.Router

	mu       sync.Mutex        // guards catalogs
	catalogs map[string]*names // by the identifiers of the queues
}

// New returns a Handler before svc, for requests with the path [Path].
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 1<<30)
	if o.Quota == nil {
		o.Quota = quota.New(svc)
	}
	o.MaxObject = cmp.Or(o.MaxObject, soif.DefaultLimit)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultObjects)
	o.MaxOrdered = cmp.Or(o.MaxOrdered, DefaultOrdered)
	o.BodyIdle = cmp.Or(o.BodyIdle, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Handler{svc: svc, o: o, catalogs: map[string]*names{}}
	h.router = web.NewRouter(web.Plain, h.Routes()...)
	return h
}

// Routes returns the routes of messages. The rights that a message takes depend
// on what it says, so the handler asks Options.Allow.
func (h *Handler) Routes() []web.Route {
	route := func(method string, need web.Need) web.Route {
		return web.Route{Method: method, Path: Path, Need: need, Serve: h.serve,
			Fail: func(w http.ResponseWriter, r *http.Request, err error) { h.begin(w, r).fail(err) }}
	}
	return []web.Route{
		route(http.MethodGet, web.Anywhere(web.Read)),
		route(http.MethodPost, web.Need{Right: web.Read, Of: web.Body}),
	}
}

// ServeHTTP answers a message by the routes of the Handler alone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.router.ServeHTTP(w, r) }

// serve answers one message, errors included: they name what the message asked
// for.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	x := h.begin(w, r)
	err := x.serve()
	if err == nil {
		err = x.out.finish()
	}
	if err != nil {
		x.fail(err)
	}
	return nil
}

// serve reads the message and answers it.
func (x *exchange) serve() error {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		if err := x.readQuery(); err != nil {
			return err
		}
	case http.MethodPost:
		if err := x.readMessage(); err != nil {
			return err
		}
		if !x.typ.IsRequest() {
			return x.submit()
		}
		if err := x.readRest(); err != nil {
			return err
		}
	}
	switch x.typ {
	case RDRequest, RDRequestDeleted:
		return x.retrieve()
	case SchemaRequest:
		return x.describeSchema()
	case ServerRequest:
		return x.describeServer()
	case TaxonomyRequest:
		return x.describeTaxonomy()
	}
	return x.describeStatus()
}
