package publisher

import (
	"errors"
	"math"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// Changes differs after each event of any queue.
func (p *Publisher) Changes() uint64 {
	some, now := p.svc.changed(math.MaxUint64)
	for _, q := range some { // of a service that does not count
		const prime = 1099511628211
		now = now*prime + uint64(q.Seq())
	}
	return now
}

// BaseURI returns the beginning of all published references, without a slash
// at the end.
func (p *Publisher) BaseURI() string { return string(p.src.Base) }

// Dialect returns the version of ResourceSync of all documents.
func (p *Publisher) Dialect() sitemap.Dialect { return p.src.Dialect }

// CapabilityList returns the URI of the Capability List of a set; queue is
// the cleaned identifier of the queue.
func (p *Publisher) CapabilityList(queue string, s names.Set) string {
	return p.src.Base.Queue(queue).Doc(s, names.CapabilityList.Of())
}

// ResourceLists returns the URIs of the Resource Lists of both sets of a queue;
// queue is its cleaned identifier.
func (p *Publisher) ResourceLists(queue string) (uris []string) {
	for s := range names.Set(names.Sets) {
		uris = append(uris, p.src.Base.Queue(queue).Doc(s, names.ResourceList.Of()))
	}
	return uris
}

// Sitemaps returns the URIs of the Sitemaps of the sets of a queue, which have no terms of
// ResourceSync. A set without resources has none: sitemaps.org wants an entry.
func (p *Publisher) Sitemaps(q Queue) (uris []string) {
	for s := range names.Set(names.Sets) {
		if s != names.Pending || q.State().Pending > 0 {
			uris = append(uris, p.src.Base.Queue(q.ID()).Doc(s, names.Sitemap.Of()))
		}
	}
	return uris
}

// Site returns the names of everything published.
func (p *Publisher) Site() names.Site { return p.src.Base }

// DescriptionState differs for each state of the Source Description. It takes as
// long as there are queues.
func (p *Publisher) DescriptionState() string { return p.description().State() }

// A View shows a set to senders of notifications. Its methods are safe for
// concurrent use. A queue with a View may be at rest.
type View struct {
	p    *Publisher
	of   set.Subject
	kind names.Set
}

// View returns the view of a set; id is the cleaned identifier of its queue. The
// error may be a [ledger.ErrNoQueue].
func (p *Publisher) View(id string, s names.Set) (View, error) {
	q, err := p.svc.queue(id)
	if errors.Is(err, job.ErrBadName) || err == nil && q.ID() != id {
		err = ledger.ErrNoQueue
	}
	if err != nil {
		return View{}, err
	}
	return View{p, p.src.Subject(q), s}, nil
}

// use opens the queue for a function.
func (v View) use(do func(*follower, documents) error) error {
	f, err := v.p.use(v.of.Queue)
	if err != nil {
		return err
	}
	defer f.release()
	return do(f, documents{f.sets[v.kind], v.p})
}

// Queue returns the queue of the set.
func (v View) Queue() Queue { return v.of.Queue }

// URI returns the reference of a document of the set.
func (v View) URI(k names.Kind) string { return v.of.Refs.Doc(v.kind, k.Of()) }

// Current reports whether the queue is still the one of its name.
func (v View) Current() bool {
	q, err := v.p.svc.queue(v.of.Queue.ID())
	return err == nil && q == v.of.Queue
}

// Position returns the last event of the queue.
func (v View) Position() names.Position {
	st := v.of.Queue.State()
	return names.Position{Seq: st.Seq, At: v.of.OrCreated(st.LastEvent)}
}

// State differs for each state of a document of the set; "" if there is no such
// document.
func (v View) State(k names.Kind) (state string, err error) {
	err = v.use(func(f *follower, s documents) error {
		r, err := s.find(k.Of())
		if r != nil && err == nil {
			r.Born = f.Born
			state = r.State()
		}
		return err
	})
	return state, err
}

// Excerpt returns the entries after a position, at most max bytes of them. It
// begins with the oldest if the lists do not reach back so far, or if the queue
// does not have the position: it is of a former queue of the name, or of a newer
// copy of the home.
//
// Events without entries move the position and not its time: the From of the next
// excerpt is the time of the position of this one.
func (v View) Excerpt(after names.Position, max int) (x Excerpt, err error) {
	err = v.use(func(_ *follower, s documents) error {
		x, err = s.excerpt(after, max)
		return err
	})
	return x, err
}

// Newest returns the last entries, at most max bytes of them.
func (v View) Newest(max int) (x Excerpt, err error) {
	err = v.use(func(_ *follower, s documents) error {
		x, err = s.newest(max)
		return err
	})
	return x, err
}
