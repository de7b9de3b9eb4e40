package publisher

import "cutie/publisher/set"

// A Queue is the part of *queuefs.Queue for a Source.
type Queue = set.Queue

// Service is the part of *queuefs.Service for a Source. With its method Changed, too, a
// Tick looks at changed queues alone.
type Service[Q Queue] interface {
	Dir() string
	Queues() []Q
	Queue(name string) (Q, error)
}

// engine is a Service with queues as interfaces.
type engine struct {
	dir    string
	queues func() []Queue
	queue  func(id string) (Queue, error)

	// changed returns the queues with changes after a count, all for 0, and the count
	// for the next call.
	changed func(after uint64) ([]Queue, uint64)
}

func adapt[Q Queue](svc Service[Q]) engine {
	as := func(all []Q) []Queue {
		out := make([]Queue, len(all))
		for i, q := range all {
			out[i] = q
		}
		return out
	}
	queues := func() []Queue { return as(svc.Queues()) }
	changed := func(uint64) ([]Queue, uint64) { return queues(), 0 }
	if svc, ok := any(svc).(interface {
		Changed(after uint64) ([]Q, uint64)
	}); ok {
		changed = func(after uint64) ([]Queue, uint64) {
			some, now := svc.Changed(after)
			return as(some), now
		}
	}
	return engine{
		dir:     svc.Dir(),
		queues:  queues,
		changed: changed,
		queue: func(id string) (Queue, error) {
			q, err := svc.Queue(id)
			if err != nil {
				return nil, err
			}
			return q, nil
		},
	}
}
