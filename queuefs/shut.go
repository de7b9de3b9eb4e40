package queuefs

import (
	"fmt"

	"cutie/queuefs/home"
)

// A queue is shut while its queue-info.txt cannot be read since the home was opened. Its
// events and files stay as they are, and nothing is written in the place of the file.
// The other queues are served. Reload opens the queue once the file can be read.

// A ShutError is an [ErrUnread] of a queue that is shut.
type ShutError struct {
	Queue string // cleaned identifier
	Err   error  // of the reading
}

func (e *ShutError) Error() string {
	return fmt.Sprintf("queue %s is shut: %s cannot be read now: %v; look at the disk, the queue opens by itself once the file can be read", e.Queue, home.QueueInfoName, e.Err)
}
func (e *ShutError) Unwrap() error        { return e.Err }
func (e *ShutError) Is(target error) bool { return target == ErrUnread }

// Shut returns a [*ShutError] if the queue is shut, else nil.
func (q *Queue) Shut() error {
	if why := q.ledger.Settings().Unread; why != nil {
		return &ShutError{q.ID(), why}
	}
	return nil
}

// Ask finds a queue for a request, as [Service.Queue] does. The error is a [*ShutError]
// if the queue is shut.
func (s *Service) Ask(name string) (*Queue, error) {
	q, err := s.Queue(name)
	if err == nil {
		err = q.Shut()
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Shut returns how many queues are shut.
func (s *Service) Shut() (n int) {
	for _, q := range s.Queues() {
		if q.Shut() != nil {
			n++
		}
	}
	return n
}

// reopen reads the properties of a queue that is shut, and reports whether it is open now.
// The caller holds properties.
func (q *Queue) reopen() bool {
	n, err := q.properties.Known(false)
	if err != nil || n.Unread != nil {
		return false // tried again at the next call
	}
	q.properties.File.Take(n.Reading)
	q.ledger.Use(n)
	if err := q.properties.Replayed(); err != nil {
		q.svc.report(home.QueueInfoPath(q.ID()), err.Error())
	}
	_ = q.properties.Announce() // tried again at the next call
	q.svc.queues.Renamed()
	q.ledger.Touch()
	q.ledger.Wake()
	q.svc.shared.Happened.Raise()
	return true
}
