// Package rest speaks the Cutie protocol over HTTP (Cutie 0.3, section 5), both
// ends: a [Handler] before a service on a file system, and a [Client].
//
//	GET    /help[/METHOD]                help
//	GET    /state                        service state
//	GET    /state/Q[?status=&outcome=&held&batch=&after=&limit=]
//	                                     queue state with a page of its jobs
//	GET    /state/Q?detail[&submitter=]  the states of a page of its jobs (addition)
//	GET    /state/Q/J                    job state
//	PUT    /state/Q, POST /state         makes a queue, or sets its properties (addition)
//	POST   /state/Q[?S=pause|restart]    sets properties of a queue (addition)
//	DELETE /state/Q                      removes a queue without jobs (addition)
//	POST   /cull[/Q][?dry]               culls by the thresholds of the queue, or of
//	                                     the request: ?cullingSizeThreshold=N
//	                                     &cullingAgeThreshold=HOURS (addition)
//	POST   /content/Q                    submit: a bare body, or multipart/form-data
//	GET    /content/Q[/J]                peek at the head, or at a job
//	DELETE /content/Q/J                  delete a pending job
//	POST   /consume/Q[?max=&wait=&lease=]
//	                                     get next job, or several, or wait for one
//	POST   /lease/Q/J[?seconds=]         longer lease for a consumer (addition)
//	POST   /outcome/Q/J?outcome=[&message=&type=]
//	                                     report of a consumer (addition)
//	PUT    /result/Q/J/NAME              result of a consumer (addition)
//	GET    /result/Q/J/NAME              the same to read (addition)
//	POST   /abort/Q/J[?message=]         out of work (addition)
//	POST   /requeue/Q/J[?end]            back to pending (addition)
//	POST   /hold/Q/J[?reason=], /release/Q/J, /delete/Q/J
//	                                     pending jobs, on hold and out of the queue (addition)
//	POST   /requeue/Q, /hold/Q, /release/Q, /delete/Q
//	                                     the same for all jobs of a Selection (addition)
//	GET    /batch/Q/ID                   how far a batch manifest is (addition)
//	GET    /events, /events/Q[?kind=&status=&from=&lastEventId=]
//	                                     what happens, as server-sent events (addition)
//	GET    /queues/Q/payload/J, /queues/Q/{pending,consumed,deleted}/J, /queues/Q/queue-info.txt
//	                                     the files of the home as plain resources (addition)
//	GET    /schema/{service,queue,job,batch,exception}.{xsd,json}
//	                                     schemas of the states (addition)
//
// Q is the cleaned identifier of a queue, or its percent-encoded identifier or
// name. Every GET is answered to HEAD as well. State, help and errors come in
// the form that ?t= or else Accept asks for, see [state.Negotiate]; errors are
// an exception state with one of the statuses 400 401 403 404 405 408 409 410
// 412 413 415 500 503 507. References are built from the baseURI of the
// service, never from Host. ?h asks for help about a method, ?V for the version;
// ?v asks for the additional properties, which are always given; ?D is not
// served.
//
// Methods that change something refuse parameters they do not know, so that
// none is believed to have had an effect; the others ignore them. Nor may a
// parameter be repeated, or a header that says something of a job and is no list.
// What such a method takes as parameters may also come as a form in its body. Whoever sends
// a form from a page is answered with 303 and the page of the outcome, except
// where something is handed out or listed. A state has an entity tag if it is
// that of one instant, as nearly all are. What changes /state/Q honours If-Match
// and If-None-Match, with any tag that a state of the queue has; every event of
// the queue makes others.
//
// Where the specification leaves a choice:
//
//   - A submission of several files is all or nothing and is answered with the
//     state of the queue, whose submittedJobStates are the new jobs.
//   - Sidecar data travel in a part named sidecar, in the query, or
//     percent-encoded in the header Cutie-Sidecar. Of several files each may
//     have the header on its part; a part named sidecar is then refused.
//   - Digests are given as the pair digest-type and digest-value, or in the
//     headers Content-Digest and Repr-Digest (RFC 9530) or Content-MD5, also of
//     a part.
//   - A job is handed out as multipart/form-data with the parts payload and
//     sidecar; as multipart/mixed, or as the bare payload, if Accept prefers it.
//     ?t=multipart makes it multipart/form-data whatever Accept says; a form of
//     state as t is that of errors. Content-Location names the job. With ?max= the answer is multipart/mixed
//     with one part a job.
//   - A queue without pending jobs is 204, a job that does not exist is 404,
//     whatever its identifier looks like.
//   - An event is one of WHATWG HTML, 9.2: its name is the kind, its data one
//     line of JSON, its id how far the client has come. With the header
//     Last-Event-ID, or ?lastEventId=, the events after it follow, each at least
//     once; with ?from=N, of one queue, those from number N on; else those from
//     now on. If they are no longer in the journal an event reset says what to
//     read instead. kind and status are lists with commas; status is that which
//     the event leads to.
//   - A batch manifest (Checkm) is what type=batch-manifest says to be one, or
//     the one file of a form whose media type is text/checkm or text/x-checkm.
//     Its files are fetched, and submitted all or none; one 400 tells of every
//     line that is wrong or could not be fetched. Manifests that it includes
//     ("@") are fetched first, and their lines stand in the place of that line;
//     relative URLs in them begin at theirs. With Prefer: respond-async the
//     answer is 202 with the Location of the state of the batch.
//   - A job is handed out with a lease if ?lease= asks for one, or if the queue
//     wants reports. The answer, or the part of the job, has then the headers
//     Cutie-Lease, Cutie-Lease-Expires and Cutie-Attempt, and Links with the
//     relations of [Relation]. Whoever shows the token, in the header Cutie-Lease
//     or as the parameter lease, may call /lease, /outcome and /result. 410 says
//     that the lease is gone, and changes nothing.
//   - A method for many jobs changes one after another. It is answered with the
//     state of the queue and what was changed, which is true also when it was
//     stopped before the end: moreJobs says that there may be more, and the same
//     request with ?after= and what moreAfter says goes on with them, as does
//     the Link of the relation next. There is no such Link if the body names
//     jobs, or if it were longer than 4 KiB. A body that does not say what it is
//     is 415.
//   - The states of jobs come as a stream: in ANVL records separated by empty
//     lines, in JSON an array, in XML one element job:jobStates, in Turtle one
//     graph, in XHTML a table. The Link of the relation next leads to the next
//     page. Whoever asks for the jobs of a submitter gets those that are among
//     the next limit jobs, perhaps none.
//   - A requeued job keeps its identifier and its place; with ?end the answer is
//     201 with the state of a new job.
package rest

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/batch"
	"cutie/queuefs/outbound"
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
	BodyIdle   time.Duration
	MaxStreams int // clients that follow events; 0: 5000; beyond it 503
	// Heartbeat is after how long without an event one that follows is sent a
	// sign of life; 0: 15 s.
	Heartbeat time.Duration
	// StreamIdle is how long one that follows may take nothing of what it is
	// sent; 0: 30 s; then it is cut off.
	StreamIdle time.Duration
	Batch      batch.Limits     // of batch manifests
	Fetch      *outbound.Client // fetches the files in manifests; nil: from public addresses only
	Pages      Pages            // write the form XHTML; nil: plain tables
	// Taken is told of jobs that were handed out, Concluded of jobs with an
	// outcome from their consumer; nil: nobody is.
	Taken, Concluded func(*queuefs.Job)
	// Log is told of errors that are not shown to the caller; nil: nobody is.
	Log func(r *http.Request, err error)
}

// A Handler serves the protocol. It is safe for concurrent use.
type Handler struct {
	svc     *queuefs.Service
	o       Options
	router  *web.Router
	refuser web.Refuser

	batches *batch.Runner
	streams atomic.Int64
}

// New returns a Handler before svc. It expects requests with the paths of the
// package comment; a prefix of the baseURI is to be stripped before.
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<30)
	o.MaxParts = cmp.Or(o.MaxParts, 10_000)
	o.MaxSidecar = cmp.Or(o.MaxSidecar, 64<<10)
	o.MaxWait = cmp.Or(o.MaxWait, 60*time.Second)
	o.BulkTime = cmp.Or(o.BulkTime, 20*time.Second)
	o.BodyIdle = cmp.Or(o.BodyIdle, 30*time.Second)
	o.MaxStreams = cmp.Or(o.MaxStreams, 5000)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.StreamIdle = cmp.Or(o.StreamIdle, 30*time.Second)
	if o.Pages == nil {
		o.Pages = plainPages{}
	}
	if o.Batch.Now == nil {
		o.Batch.Now = time.Now
	}
	h := &Handler{svc: svc, o: o}
	h.batches = batch.New(batch.Options{Limits: o.Batch, MaxBody: o.MaxBody, MaxSidecar: o.MaxSidecar, Fetch: o.Fetch})
	h.refuser = web.Refuser{Base: h.base, Log: o.Log, BodyIdle: o.BodyIdle,
		Page: func(dst []byte, d *state.Document) []byte { return o.Pages.State(dst, d, View{}) }}
	h.router = web.NewRouter(h.Error, h.Routes()...)
	return h
}

// ServeHTTP answers a request by the routes of the Handler alone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.router.ServeHTTP(w, r) }

// Refuser returns what answers with errors, for routes beside those of the
// Handler.
func (h *Handler) Refuser() web.Refuser { return h.refuser }

// Error answers a request with an exception state in the form that it asks for.
// What the caller is not to see of err goes to the log.
func (h *Handler) Error(w http.ResponseWriter, r *http.Request, err error) {
	h.refuser.Refuse(w, r, err)
}

// base returns what references begin with.
func (h *Handler) base() state.Base { return state.NewBase(h.svc.Info().BaseURI) }

// queue returns the queue that the path names.
func (h *Handler) queue(r *request) (*queuefs.Queue, error) {
	name := r.PathValue("queue")
	q, err := h.svc.Queue(name)
	if err != nil {
		return nil, notFound(err, queuefs.ErrNoQueue, name)
	}
	return q, nil
}

// job returns the queue and the number of the job that the path names. The job
// need not exist.
func (h *Handler) job(r *request) (*queuefs.Queue, queuefs.JobID, error) {
	q, err := h.queue(r)
	if err != nil {
		return nil, 0, err
	}
	name := r.PathValue("job")
	id, err := queuefs.ParseJobID(name)
	if err != nil {
		return nil, 0, notFound(err, queuefs.ErrNoJob, name)
	}
	return q, id, nil
}
