package publisher

import (
	"errors"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/sitemap"
)

// Topics are the topics of notifications, as Capability Lists name them.
type Topics struct {
	Tag     string                                          // differs with the Entries
	Entries func(queue string, s names.Set) []sitemap.Entry // of a set
}

// Announce makes Capability Lists name topics from then on.
func (p *Publisher) Announce(t Topics) { p.topics.Store(&t) }

// Queues returns the published queues.
func (p *Publisher) Queues() []Queue { return p.svc.queues() }

// BaseURI returns the beginning of all published references, without a slash
// at the end.
func (p *Publisher) BaseURI() string { return string(p.site) }

// CapabilityList returns the URI of the Capability List of a set; queue is
// the cleaned identifier of the queue.
func (p *Publisher) CapabilityList(queue string, s names.Set) string {
	return p.site.Queue(queue).Doc(s, names.CapabilityList.Of())
}

// ResourceLists returns the URIs of the Resource Lists of both sets of a queue;
// queue is its cleaned identifier.
func (p *Publisher) ResourceLists(queue string) (uris []string) {
	for s := range names.Set(names.Sets) {
		uris = append(uris, p.site.Queue(queue).Doc(s, names.ResourceList.Of()))
	}
	return uris
}

// Sitemaps returns the URIs of the Sitemaps of both sets of a queue, which have no
// terms of ResourceSync; queue is its cleaned identifier.
func (p *Publisher) Sitemaps(queue string) (uris []string) {
	for s := range names.Set(names.Sets) {
		uris = append(uris, p.site.Queue(queue).Doc(s, names.Sitemap.Of()))
	}
	return uris
}

// Site returns the names of everything published.
func (p *Publisher) Site() names.Site { return p.site }

// DescriptionState differs for each state of the Source Description. It takes as
// long as there are queues.
func (p *Publisher) DescriptionState() string { return p.description().State() }

// A View shows a set to senders of notifications. Its methods are safe for
// concurrent use.
type View struct{ set *set }

// View returns the view of a set; id is the cleaned identifier of its queue. The
// error may be a [queuefs.ErrNoQueue].
func (p *Publisher) View(id string, s names.Set) (View, error) {
	q, err := p.svc.queue(id)
	if errors.Is(err, queuefs.ErrBadName) || err == nil && q.ID() != id {
		err = queuefs.ErrNoQueue
	}
	if err != nil {
		return View{}, err
	}
	f, err := p.follower(q)
	if err != nil {
		return View{}, err
	}
	return View{f.sets[s]}, nil
}

// Queue returns the queue of the set.
func (v View) Queue() Queue { return v.set.q }

// URI returns the reference of a document of the set.
func (v View) URI(k names.Kind) string { return v.set.uri(k) }

// Current reports whether the queue is still the one of its name.
func (v View) Current() bool {
	q, err := v.set.p.svc.queue(v.set.q.ID())
	return err == nil && q == v.set.q
}

// Position returns the last event of the queue.
func (v View) Position() entries.Position {
	st := v.set.q.State()
	return entries.Position{Seq: st.Seq, At: v.set.orCreated(st.LastEvent)}
}

// State differs for each state of a document of the set; "" if there is no such
// document.
func (v View) State(k names.Kind) (string, error) {
	r, err := v.set.find(k.Of())
	if r == nil || err != nil {
		return "", err
	}
	r.Born = v.set.born
	return r.State(), nil
}

// Excerpt returns the entries after a position, at most max bytes of them. It
// begins with the oldest if the lists do not reach back so far, or if the queue
// does not have the position: it is of a former queue of the name, or of a newer
// copy of the home.
//
// Events without entries move the position and not its time: the From of the next
// excerpt is the time of the position of this one.
func (v View) Excerpt(after entries.Position, max int) (Excerpt, error) {
	return v.set.excerpt(after, max)
}

// Newest returns the last entries, at most max bytes of them.
func (v View) Newest(max int) (Excerpt, error) { return v.set.newest(max) }
