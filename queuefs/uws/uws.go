package uws

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
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
	MaxBody   int64         // octets of a request; 0: 16 GiB; beyond it 413
	MaxListed int           // jobs looked at for a list; 0: 10,000; more are in further parts
	Pages     Pages         // nil: no HTML
	Quota     *quota.Keeper // counts the jobs of users; nil: its own
	Now       func() time.Time
	Log       func(r *http.Request, err error) // gets errors not shown to the client; nil: none does
}

// A Handler serves the queues of a service. It is safe for concurrent use.
type Handler struct {
	svc    *queuefs.Service
	o      Options
	router *web.Router

	closing context.Context // ends with Close
	close   context.CancelFunc
	waiting atomic.Int64 // clients waiting for a job

	changing [256]sync.Mutex // see lock

	ticking sync.Mutex
	limits  map[*queuefs.Queue]map[queuefs.JobID]limit // of jobs in work, since the last Tick
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
	h.router = web.NewRouter(h.fail, h.Routes()...)
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
	base   state.Base     // begins references
	id     string         // of the queue
	limits queuefs.Limits // of the caller, where set; else usual
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
	if errors.Is(err, errNoJob) {
		return nil, notFound("job not found")
	}
	if err != nil {
		return nil, err
	}
	if !r.maySee(j) || change && !r.mayChange(j) {
		return nil, forbidden("the job is somebody else's")
	}
	return j, nil
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
