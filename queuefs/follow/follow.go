// Package follow has the duties of a follower of the engine. A follower derives something
// from the events of all queues: the publisher derives documents, callbacks derive
// messages. The engine calls its followers in turn around each checkpoint, when a queue
// goes, and before culling.
package follow

import "time"

// A Follower derives something from the events of all queues. Flush brings it
// up to the last event, as files that need not be synced; Synced is called when
// they are on stable storage, and then the journal up to there may be released.
type Follower interface {
	Flush() error
	Synced() error
}

// A Forgetter is a [Follower] with something for each queue. Forget is called
// after a queue was removed, and before one of the same name is made:
// everything known under the name is of another queue. It may be called again,
// and never during Flush or Synced.
type Forgetter interface {
	Forget(queue string) error
}

// A Keeper is a [Follower] that reads payloads and job files later than events.
// Needs returns an instant: culling leaves alone the jobs of the queue changed
// after it. The zero time releases all jobs. Sooner or later Needs must return
// the zero time or a later instant, without another event.
type Keeper interface {
	Needs(queue string) time.Time
}

// All are several followers as one, called in turn.
type All []Follower

func (fs All) Flush() error {
	for _, f := range fs {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (fs All) Synced() error {
	for _, f := range fs {
		if err := f.Synced(); err != nil {
			return err
		}
	}
	return nil
}

// Forget calls the [Forgetter]s.
func (fs All) Forget(queue string) error {
	for _, f := range fs {
		if f, ok := f.(Forgetter); ok {
			if err := f.Forget(queue); err != nil {
				return err
			}
		}
	}
	return nil
}

// Needs is the earliest instant of the [Keeper]s.
func (fs All) Needs(queue string) (least time.Time) {
	for _, f := range fs {
		if f, ok := f.(Keeper); ok {
			if t := f.Needs(queue); !t.IsZero() && (least.IsZero() || t.Before(least)) {
				least = t
			}
		}
	}
	return least
}
