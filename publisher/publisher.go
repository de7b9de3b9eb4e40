package publisher

import (
	"sync/atomic"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs/web"
	"cutie/sitemap"
)

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	svc      engine
	src      *set.Source
	cursor   *store.Cursor
	gone     *store.Removed
	server   server
	router   *web.Router
	work     work
	topics   atomic.Pointer[Topics] // stand in Capability Lists; may be nil
	read     chan struct{}          // an open list is read; see KeepUp
	scrubber *rereader
	followers
}

// Topics are the topics of notifications, as Capability Lists name them.
type Topics struct {
	Tag     string                                          // differs with the Entries
	Entries func(queue string, s names.Set) []sitemap.Entry // of a set
	Newest  func(uri string) ([]byte, error)                // document at the URI of a topic
}

// removed returns when a queue that is not there was removed, and whether one of the
// name was.
func (p *Publisher) removed(id string) (time.Time, bool) {
	if p.knows(id) {
		return p.Now().UTC(), true // just now, and Forget is to come
	}
	return p.gone.At(id)
}

// Failure returns why nothing is published now; nil while it is.
func (p *Publisher) Failure() error { return p.src.Failure() }

// Now returns the time by the clock of the Source.
func (p *Publisher) Now() time.Time { return p.src.Now() }

// Queues returns the published queues.
func (p *Publisher) Queues() []Queue { return p.svc.queues() }

// Announce makes Capability Lists name topics from then on.
func (p *Publisher) Announce(t Topics) { p.topics.Store(&t) }
