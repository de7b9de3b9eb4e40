package queuefs

import (
	"errors"
	"io"

	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// Seq returns the number of the last event, 0 before the first.
func (q *Queue) Seq() Seq {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.Last().Seq
}

// Events returns the events after the given one, oldest first, at most max of
// them (1000 if max is 0). They are read from the journal. If it does not reach
// back that far the error is [ErrGone].
func (q *Queue) Events(after Seq, max int) ([]Event, error) {
	if max <= 0 {
		max = 1000
	}
	q.mu.RLock()
	if after >= q.idx.Last().Seq {
		q.mu.RUnlock()
		return nil, nil
	}
	places, ok := q.idx.History.After(after, max)
	q.mu.RUnlock()
	if !ok {
		return nil, ErrGone
	}
	events := make([]Event, 0, len(places))
	buf := make([]byte, record.MaxHead)
	var r record.Record
	for _, at := range places {
		n, err := q.svc.log.ReadAt(buf, at, 0)
		if err == nil || err == io.EOF {
			err = r.Parse(buf[:n])
		}
		if errors.Is(err, journal.ErrReleased) {
			return events, ErrGone
		}
		if err != nil {
			return events, err
		}
		events = append(events, r.Event())
	}
	return events, nil
}
