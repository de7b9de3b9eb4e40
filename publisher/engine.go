package publisher

import (
	"context"
	"time"

	"cutie/queuefs"
)

// Service is the part of *queuefs.Service for a Source.
type Service[Q Queue] interface {
	Dir() string
	Queues() []Q
	Queue(name string) (Q, error)
}

// Queue is the part of *queuefs.Queue for a Source. All methods show committed
// events only. Seq, State, Pages, PageVersion, Page, Status and
// InfoFile read memory.
type Queue interface {
	ID() string
	Seq() queuefs.Seq
	Wait(ctx context.Context, after queuefs.Seq) error
	State() queuefs.QueueState
	Events(after queuefs.Seq, max int) ([]queuefs.Event, error)
	Pages() int
	PageVersion(p int) (version queuefs.Seq, at time.Time, pending, total int)
	Page(p int, dst []queuefs.Entry) (entries []queuefs.Entry, version queuefs.Seq, at time.Time)
	Status(id queuefs.JobID) (queuefs.Status, time.Time)
	InfoFile() ([]byte, queuefs.Facts)
	JobFile(id queuefs.JobID, st queuefs.Status) ([]byte, queuefs.Facts, error)
	Payload(id queuefs.JobID) (*queuefs.Payload, error)
}

// engine is a Service with queues as interfaces.
type engine struct {
	dir    string
	queues func() []Queue
	queue  func(id string) (Queue, error)
}

func adapt[Q Queue](svc Service[Q]) engine {
	return engine{
		dir: svc.Dir(),
		queues: func() []Queue {
			all := svc.Queues()
			out := make([]Queue, len(all))
			for i, q := range all {
				out[i] = q
			}
			return out
		},
		queue: func(id string) (Queue, error) {
			q, err := svc.Queue(id)
			if err != nil {
				return nil, err
			}
			return q, nil
		},
	}
}
