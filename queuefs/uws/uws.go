// Package uws serves a Cutie queue as a Universal Worker Service (IVOA UWS 1.1,
// REC 2016-10-24; 1.0, REC 2010-10-10, if the queue says so). Clients of UWS
// make, start, watch and abort jobs and read their results; consumers of the
// queue do the work.
//
//	GET  POST        /uws/Q/async                      job list; make a job
//	GET  POST DELETE /uws/Q/async/ID                   job; change it; destroy it
//	GET  POST        …/phase …/executionduration …/destruction …/parameters
//	GET              …/quote …/error …/owner …/results …/results/NAME
//	GET  PUT         …/parameters/NAME
//	GET  POST        /uws/Q/sync                       make and run; leads to /uws/Q/sync/ID
//	GET              /uws/Q/sync/ID                    waits, and leads to the result
//	GET              /uws/Q/capabilities /uws/Q/availability
//
// # Jobs
//
// UWS is a view: every job of the queue is in the list, and UWS keeps nothing
// beside the queue. Identifiers of jobs made here contain the job number; other
// jobs are named by their number. Elements of the job file hold the rest:
//
//	uws-id           identifier of a job made here
//	uws-created      creation, if the job replaced another one
//	uws-runid        run identifier
//	uws-upload       name of the parameter in the payload
//	uws-part         position, size and name of a file in a multipart payload
//	uws-duration     seconds the job may run; absent: as the queue says
//	destruction      instant of the destruction; culling spares the job until then
//	uws-destroyed    instant of the destruction; the job is hidden since then
//	uws-archived     the same for ARCHIVED, until an operator requeues the job
//
// Every change of a phase is one event of the queue, or two:
//
//	phase      the job in the queue                      entered by
//	---------  ----------------------------------------  ---------------------------
//	PENDING    on hold for [job.NotStarted]          submit
//	QUEUED     pending, or on hold until a time          release (RUN), submit, requeue
//	HELD       on hold for another reason                hold, by an operator
//	EXECUTING  consumed, with a lease                    consume
//	COMPLETED  consumed; reported, or never to report    outcome, consume
//	ERROR      consumed and reported so                  outcome
//	ABORTED    deleted, or taken out of work             delete, outcome
//	ARCHIVED   marked so                                 update
//	(none)     marked as destroyed                       update
//	UNKNOWN    its job file is damaged, see [Check]      other hands
//
// SUSPENDED is never used. A crash leaves a job before or after an
// event. Destruction ends the work first, so a crash can leave the job ABORTED
// instead; it is destroyed by the next Tick or request.
//
// RUN releases the job to its place in the queue, and so does the release of this
// one job by an operator, or the end that an operator gave its hold; these two are not
// limited. The release of a selection leaves PENDING jobs alone. A
// payload never changes: new parameters submit another job in the place of the
// old one, with the same identifier, unless files are the payload.
//
// # Settings
//
// The properties of the queue for UWS are those of [home.UWS]. Changes apply at once.
//
// # Choices
//
//   - The JDL is a list of names and values. The sidecar has them as
//     "name=value; name=value", with a backslash before ; = and backslash inside
//     of one. The payload has them as a form, or it is the uploaded file, or up to
//     32 files as multipart/form-data.
//   - Names of control parameters (PHASE, RUNID, DESTRUCTION, EXECUTIONDURATION,
//     ACTION) have no case, and come in body or query.
//   - A path with a final slash is the same resource.
//   - Capabilities and availability are for everybody (IVOA Support Interfaces 1.1,
//     2). They tell whether there is a queue of the name.
//   - A client with more waiting requests than the daemon allows gets the answer to
//     WAIT after a second (UWS 1.1, 2.2.1.1), so that it does not ask all the time.
//   - A rejected creation, or a request against the phase, is 403; a bad value is
//     400, as is a name or value with characters that XML cannot carry. Limits are
//     clamped. RUN of a queued job and ABORT of an ended one change nothing.
//   - HTML is for clients with text/html alone in Accept, or beside
//     application/xhtml+xml, or with ?format=html. No Accept is refused.
//   - A request beyond the limits of a user is 403 with the reason. Limits of the user
//     hold over those of the queue; see package quota.
//   - A quote is the time that the queue expects jobs to take (uwsQuote), or else the
//     execution duration of the job, from its start or from now. It is unknown without
//     either, and in a paused queue: nil in a job, and -1 or, in 1.1, empty as a word.
//   - For a list 10,000 jobs of the queue are looked at, from the last on. If there are
//     more, a Link of the relation next leads to the rest of the list.
//   - The result error of a failed job, or error.vot and the like, is its …/error, in
//     the form that the worker chose; /sync leads there.
//   - Owners matter here only: readers of a queue see all of its jobs, the PENDING
//     ones too, in the queue and in the published documents, as with any held job.
//   - References begin with the base of the request, see [web.BaseOf].
package uws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/home"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/quota"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Caller is the client of a request, with its rights in a queue.
type Caller struct {
	Name   string // "" for one without a name
	Delete bool   // may change jobs without an owner made elsewhere, and sees jobs without an owner in lists
	Own    bool   // sees only the caller's own jobs, and jobs without an owner by their identifier
	Admin  bool   // sees and may do everything
	// Stranger has no right in the queue, and must not learn whether there is one.
	Stranger bool
}

// A Security says how clients of a queue prove who they are.
type Security struct {
	Anonymous bool // requests without a name may submit
	Users     bool // there are users, with passwords and tokens
}

const (
	maxWait    = 55 * time.Second // longest wait for a change
	maxPending = 100_000          // jobs on hold in a queue; beyond it 403
	bodyIdle   = 30 * time.Second // how long a body may make no progress; then 408
)

// Options are the limits of a [Handler]. Zero values mean the defaults.
type Options struct {
	// Caller returns the client of a request; nil: every client may do everything.
	Caller func(r *http.Request, queue string) Caller
	// Security says who may submit to a queue; nil: everybody.
	Security  func(queue string) Security
	MaxBody   int64              // octets of a request; 0: 16 GiB; beyond it 413
	MaxListed int                // jobs looked at for a list; 0: 10,000; more are in further parts
	Page      func(*Page) []byte // writes pages for people; nil: no HTML
	Quota     *quota.Keeper      // counts the jobs of users; nil: its own
	Now       func() time.Time
	Log       func(r *http.Request, err error) // gets errors not shown to the client; nil: none does
}

// A Handler serves the queues of a service. It is safe for concurrent use.
type Handler struct {
	svc *queuefs.Service
	o   Options

	closing context.Context // ends with Close
	close   context.CancelFunc
	waiting atomic.Int64 // clients waiting for a job

	changing [256]sync.Mutex // see lock

	ticking sync.Mutex
	limits  map[*queuefs.Queue]map[queuejob.ID]limit // of jobs in work, since the last Tick
}

// New returns a Handler for a service.
func New(svc *queuefs.Service, o Options) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<30)
	o.MaxListed = cmp.Or(o.MaxListed, 10_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Caller == nil {
		o.Caller = func(*http.Request, string) Caller { return Caller{Admin: true} }
	}
	if o.Quota == nil {
		o.Quota = quota.New(svc)
	}
	if o.Security == nil {
		o.Security = func(string) Security { return Security{Anonymous: true} }
	}
	h := &Handler{svc: svc, o: o}
	h.closing, h.close = context.WithCancel(context.Background())
	return h
}

// Close ends all waits.
func (h *Handler) Close() error {
	h.close()
	return nil
}

func (h *Handler) now() time.Time { return stamp(h.o.Now()) }

// A request is an HTTP request with the things its path names.
type request struct {
	*http.Request
	view
	base   state.Base      // begins references
	id     string          // of the queue
	limits queuejob.Limits // of the caller, where set; else usual
	caller Caller
	query  []pair // in the order they came
	pages  bool   // the client may get HTML
}

var hashSeed = maphash.MakeSeed()

func hashOf(q *queuefs.Queue, id string) uint64 { return maphash.String(hashSeed, q.ID()+"/"+id) }

// lock keeps other clients from changing the job. Nobody takes a second one.
func (h *Handler) lock(q *queuefs.Queue, id string) (unlock func()) {
	m := &h.changing[hashOf(q, id)%uint64(len(h.changing))]
	m.Lock()
	return m.Unlock
}

// ref returns the URL of something of the queue.
func (r *request) ref(segments ...string) string {
	return r.base.Ref(append([]string{"uws", r.id}, segments...)...)
}

// found returns the job in the path, if the caller may see it, and may change
// it where change is set.
func (h *Handler) found(r *request, change bool) (*job, error) {
	j, err := r.find(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	if !r.maySee(j) || change && !r.mayChange(j) {
		return nil, forbidden("the job is somebody else's")
	}
	return j, nil
}

// of returns a handler that reads the job in the path.
func (h *Handler) of(do func(http.ResponseWriter, *request, *job) error) func(http.ResponseWriter, *request) error {
	return func(w http.ResponseWriter, r *request) error {
		j, err := h.found(r, false)
		if err != nil {
			return err
		}
		return do(w, r, j)
	}
}

// maySee reports whether the caller may read a job. Only the identifier
// protects a job without an owner, if it was made here.
func (r *request) maySee(j *job) bool {
	c, owner := r.caller, j.owner()
	if owner == "" {
		return c.Admin || !c.Own || isMade(j.id)
	}
	return c.Admin || owner == c.Name
}

func (r *request) mayChange(j *job) bool {
	if j.bad != nil {
		return r.caller.Admin || r.caller.Delete
	}
	return r.maySee(j) && (r.caller.Admin || r.caller.Delete || j.owner() != "" || isMade(j.id))
}

// value returns a parameter of the query; the case of its name does not matter.
func (r *request) value(name string) (string, bool) {
	for _, p := range r.query {
		if strings.EqualFold(p.name, name) {
			return p.value, true
		}
	}
	return "", false
}

// A row is a [web.Route] of UWS.
type row struct {
	method, path string // below /uws/QUEUE
	need         web.Need
	waits        web.Waits
	do           func(http.ResponseWriter, *request) error
}

// Routes returns the routes of UWS (UWS 1.1, 2.2.1). One client makes, sets up,
// starts, follows and destroys a job; the handler knows whose job it is. A path
// with a slash at its end is the same resource: some clients write one.
func (h *Handler) Routes() []web.Route {
	submit, own := web.Here(web.Submit), web.Need{Right: web.Read, Of: web.Own}
	var routes []web.Route
	for _, t := range []row{
		{"GET", "/{part:capabilities|availability}", web.Need{}, web.AtOnce, h.vosi},
		{"GET", "/sync", submit, web.AtOnce, h.sync},
		{"POST", "/sync", submit, web.AtOnce, h.sync},
		{"GET", "/sync/{job}", own, web.Always, h.of(h.syncWait)},
		{"GET", "/async", own, web.AtOnce, h.jobs},
		{"POST", "/async", submit, web.AtOnce, h.create},
		{"GET", "/async/{job}", own, web.OrEarlier, h.of(h.job)},
		{"POST", "/async/{job}", submit, web.AtOnce, h.change},
		{"DELETE", "/async/{job}", submit, web.AtOnce, h.destroyed},
		{"GET", "/async/{job}/{part:phase|executionduration|destruction|parameters}", own, web.AtOnce, h.of(h.part)},
		{"GET", "/async/{job}/{part:quote|owner|error|results}", own, web.AtOnce, h.of(h.part)},
		{"POST", "/async/{job}/{part:phase|executionduration|destruction|parameters}", submit, web.AtOnce, h.change},
		{"GET", "/async/{job}/results/{name}", own, web.AtOnce, h.of(h.result)},
		{"GET", "/async/{job}/parameters/{name}", own, web.AtOnce, h.of(h.parameter)},
		{"PUT", "/async/{job}/parameters/{name}", submit, web.AtOnce, h.putParameter},
	} {
		serve := func(w http.ResponseWriter, r *http.Request) error { return h.serve(w, r, t.do) }
		for _, end := range []string{"", "/"} {
			routes = append(routes, web.Route{Method: t.method, Path: "/uws/{queue}" + t.path + end, Need: t.need,
				Waits: t.waits, Fail: h.fail, Serve: serve})
		}
	}
	return append(routes, web.Route{Method: "GET", Path: "/uws/{rest:.*}", Need: web.Otherwise, Fail: h.fail})
}

// serve answers a request about a queue.
func (h *Handler) serve(w http.ResponseWriter, raw *http.Request, do func(http.ResponseWriter, *request) error) error {
	q, err := h.svc.Ask(raw.PathValue("queue"))
	if errors.Is(err, content.ErrUnread) {
		return err
	}
	if err != nil {
		return h.unknown(w, raw)
	}
	r := &request{Request: raw, view: viewOf(q), base: h.base(raw), id: q.ID(), pages: h.o.Page != nil,
		caller: h.o.Caller(raw, q.ID())}
	info := q.Info()
	r.limits = quota.LimitsOf(raw.Context(), &info)
	if r.query, err = parseForm(raw.URL.RawQuery); err != nil {
		return bad("query: %v", err)
	}
	w.Header().Set("Cache-Control", "no-cache")
	return do(w, r)
}

func bad(format string, a ...any) error {
	return web.Errorf(http.StatusBadRequest, format, a...)
}

func forbidden(format string, a ...any) error {
	return web.Errorf(http.StatusForbidden, format, a...)
}

func tooLarge(format string, a ...any) error {
	return web.Errorf(http.StatusRequestEntityTooLarge, format, a...)
}

func notFound(text string) error { return &web.Error{Status: http.StatusNotFound, Message: text} }

// fail answers with an error, in plain text: clients show it to people.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, hidden := web.ErrorOf(err)
	switch {
	case hidden:
		if h.o.Log != nil && r.Context().Err() == nil {
			h.o.Log(r, err)
		}
		e = &web.Error{Status: e.Status, Message: strings.ToLower(http.StatusText(e.Status))}
	case !errors.As(err, new(*web.Error)) && (e.Status == http.StatusBadRequest || e.Status == http.StatusConflict):
		e.Status = http.StatusForbidden // the queue rejects it (UWS 1.1, 2.2.3)
	}
	web.GiveUp(w, r, bodyIdle)
	header := w.Header()
	header.Del("Location")
	header.Set("Cache-Control", "no-store")
	if h.o.Page != nil && browses(r) {
		h.sendPage(w, e.Status, &Page{Base: h.base(r), Body: web.FailureOf(header, r, e)})
		return
	}
	text(w, e.Status, e.Error()+"\n")
}

func text(w http.ResponseWriter, status int, s string) {
	send(w, status, "text/plain; charset=utf-8", []byte(s))
}

func send(w http.ResponseWriter, status int, mediaType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // nobody is left to be told of an error
}

const mediaXML = "application/xml"

func sendXML(w http.ResponseWriter, d *document) { send(w, http.StatusOK, mediaXML, d.buf.Bytes()) }

// see sends the client to the outcome of its request.
func see(w http.ResponseWriter, where string) error {
	w.Header().Set("Location", where)
	text(w, http.StatusSeeOther, where+"\n")
	return nil
}

// settings are the properties of a queue for UWS, see [home.UWS], and its
// property limits: of each user, such as pending=100,active=1000,upload=1000000000,run=3600,
// life=720: jobs PENDING, jobs QUEUED or EXECUTING, bytes of the payloads of both, seconds
// and hours in the place of uwsMaxExecutionDuration and uwsMaxDestruction; 0: no limit. The
// default is pending=1000,active=10000,upload=68719476736 of jobs made here, and for the
// destruction a year after the creation, or uwsDestruction if that is more or 0.
type settings struct {
	old         bool // version 1.0: no attribute or element of 1.1
	opaque      bool // the body is one opaque parameter
	duration    int64
	maxDuration int64
	life        time.Duration // 0: for ever
	maxLife     time.Duration // 0: no limit
	archive     bool
	takes       time.Duration // expected duration of a job; 0: unknown
}

const (
	defaultLife = 720 // hours
	maxInt      = 1<<31 - 1
)

// settingsOf returns the settings of a queue. The culling age is the default for
// uwsDestruction.
func settingsOf(info *home.QueueInfo) settings {
	usual := int64(defaultLife)
	if info.CullingAge > 0 {
		usual = min(info.CullingAge, 1_000_000)
	}
	u := &info.UWS
	s := settings{
		old:         u.Version == "1.0",
		opaque:      u.JDL == "payload",
		archive:     u.Archive == "true",
		duration:    u.ExecutionDuration.Or(0),
		maxDuration: u.MaxExecutionDuration.Or(0),
		life:        time.Duration(u.Destruction.Or(usual)) * time.Hour,
		maxLife:     time.Duration(u.MaxDestruction.Or(0)) * time.Hour,
		takes:       time.Duration(u.Quote.Or(0)) * time.Second,
	}
	s.clamp()
	return s
}

// clamp limits what is granted to clients that ask for nothing.
func (s *settings) clamp() {
	s.duration = s.clampDuration(s.duration)
	if s.maxLife > 0 && (s.life == 0 || s.life > s.maxLife) {
		s.life = s.maxLife
	}
}

// clampDuration returns the seconds granted for n.
func (s *settings) clampDuration(n int64) int64 {
	if s.maxDuration > 0 && (n == 0 || n > s.maxDuration) {
		return s.maxDuration
	}
	return min(n, maxInt)
}

// shortLife is granted for a destruction in the past: time to see the effect.
const shortLife = time.Minute

// clampDestruction returns the destruction granted for t.
func (s *settings) clampDestruction(t, created, now time.Time) time.Time {
	if s.maxLife > 0 && t.After(created.Add(s.maxLife)) {
		t = created.Add(s.maxLife)
	}
	if !t.After(now) {
		t = now.Add(shortLife)
	}
	return stamp(t)
}

// usual are the limits of a user in a queue if neither the user nor the queue has others.
// Jobs submitted by other ways do not count for them. A destruction is not later than a
// year after the creation then, unless the queue keeps jobs longer by itself.
var usual = queuejob.Limits{Pending: 1000, Active: 10_000, Upload: 64 << 30}

const usualLife = 8760 * time.Hour

// within returns the settings with the limits of a user in the place of those of
// the queue.
func (s settings) within(l queuejob.Limits) settings {
	if l.Run != 0 {
		s.maxDuration = max(l.Run, 0)
	}
	switch {
	case l.Life != 0:
		s.maxLife = time.Duration(max(l.Life, 0)) * time.Hour
	case s.maxLife == 0 && s.life > 0:
		s.maxLife = max(usualLife, s.life)
	}
	s.clamp()
	return s
}

// admit claims what a user asks for, or rejects the request with 403 (UWS 1.1,
// 2.2.3.1).
func (h *Handler) admit(r *request, owner string, ask quota.Use) (done func(), err error) {
	done, err = h.o.Quota.Admit(r.q, owner, r.limits, usual, ask)
	if e, ok := errors.AsType[*web.Error](err); ok {
		err = forbidden("%s", e.Message)
	}
	return done, err
}

// bytes returns the size of the payload that a job will have, about.
func (f *filled) bytes(params []pair) (n int64) {
	for _, u := range f.uploads {
		n += u.draft.Size()
	}
	if len(f.uploads) == 0 {
		n = int64(len(formatForm(params)))
	}
	return n
}

// limitsInWords returns the limits of the caller for a page.
func (h *Handler) limitsInWords(r *request) (words []string, err error) {
	use, err := h.o.Quota.Use(r.q, r.caller.Name, r.limits)
	if err != nil {
		return nil, err
	}
	granted, limits := r.set.within(r.limits), r.limits.Over(usual)
	for _, one := range []struct {
		has, most int64
		what      string
	}{
		{use.Pending, limits.Pending, "jobs PENDING"},
		{use.Active, limits.Active, "jobs QUEUED or EXECUTING"},
		{use.Upload, limits.Upload, "octets in all of them"},
	} {
		if one.most > 0 {
			words = append(words, fmt.Sprintf("%d of %d %s", one.has, one.most, one.what))
		}
	}
	if granted.maxDuration > 0 {
		words = append(words, fmt.Sprintf("%d seconds of execution", granted.maxDuration))
	}
	if granted.maxLife > 0 {
		words = append(words, fmt.Sprintf("%.0f hours until destruction", granted.maxLife.Hours()))
	}
	return words, nil
}
