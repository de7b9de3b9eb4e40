package uws

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Caller is who asks, and what they may do with a queue.
type Caller struct {
	Name   string // "" for one without a name
	Delete bool   // may change jobs without an owner that were not made here, and sees all without an owner in lists
	Own    bool   // has to do only with jobs that are the caller's, and with those without an owner whose name the caller was told
	Admin  bool   // sees and may do everything
}

// Options are the limits of a [Handler]. Zero values mean the defaults.
type Options struct {
	// Caller says who asks about a queue; nil: whoever asks may do everything.
	Caller     func(r *http.Request, queue string) Caller
	MaxBody    int64         // octets of a request; 0: 16 GiB; beyond it 413
	MaxWait    time.Duration // longest wait for a change; 0: 55 s
	MaxPending int           // jobs of a queue that are on hold; 0: 100,000; beyond it 403
	BodyIdle   time.Duration // how long a body may make no progress; 0: 30 s; then 408
	Now        func() time.Time
	Log        func(r *http.Request, err error) // told of errors that are not shown to the caller; nil: nobody is
}

// A Handler serves the queues of a service. It is safe for concurrent use.
type Handler struct {
	svc    *queuefs.Service
	o      Options
	router *web.Router

	closing context.Context // ends when nobody is to wait any longer
	close   context.CancelFunc
	waiting atomic.Int64 // clients that wait for a job

	mu      sync.Mutex
	lists   map[string]*jobList
	strange []error // what former versions left and could not be read; Tick returns it once
}

// New returns a Handler before svc, which is not in use yet. Jobs of a home of a
// former version are moved into their queues.
func New(svc *queuefs.Service, o Options) (*Handler, error) {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<30)
	o.MaxWait = cmp.Or(o.MaxWait, 55*time.Second)
	o.MaxPending = cmp.Or(o.MaxPending, 100_000)
	o.BodyIdle = cmp.Or(o.BodyIdle, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Caller == nil {
		o.Caller = func(*http.Request, string) Caller { return Caller{Admin: true} }
	}
	h := &Handler{svc: svc, o: o, lists: map[string]*jobList{}}
	h.closing, h.close = context.WithCancel(context.Background())
	h.router = web.NewRouter(h.fail, h.Routes()...)
	for _, q := range svc.Queues() {
		_, _ = h.list(q) // else requests for the queue say why not, and try again
	}
	return h, nil
}

// Close lets go of everybody who waits.
func (h *Handler) Close() error {
	h.close()
	return nil
}

func (h *Handler) now() time.Time { return stamp(h.o.Now()) }

// A request is one with what its path names.
type request struct {
	*http.Request
	q      *queuefs.Queue
	list   *jobList
	set    settings
	caller Caller
	query  []pair // in the order they came
}

// ref returns the URL of something of the queue.
func (h *Handler) ref(q *queuefs.Queue, segments ...string) string {
	return state.NewBase(h.svc.Info().BaseURI).Ref(append([]string{"uws", q.ID()}, segments...)...)
}

// found returns the job that the path names, which the caller may see, and
// change if that is asked for; then its lock is held.
func (h *Handler) found(r *request, change bool) (*job, error) {
	j, err := r.list.find(r.set, r.PathValue("job"))
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

// maySee tells whether the caller may read a job. One that nobody owns and that
// was made here is known only to those who were told of it, and to those who may
// read the events of the queue.
func (r *request) maySee(j *job) bool {
	c, owner := r.caller, j.owner()
	if owner == "" {
		return c.Admin || !c.Own || isMade(j.id)
	}
	return c.Admin || owner == c.Name
}

func (r *request) mayChange(j *job) bool {
	return r.maySee(j) && (r.caller.Admin || r.caller.Delete || j.owner() != "" || isMade(j.id))
}

// value returns a parameter of the query, whatever its case.
func (r *request) value(name string) (string, bool) {
	for _, p := range r.query {
		if strings.EqualFold(p.name, name) {
			return p.value, true
		}
	}
	return "", false
}
