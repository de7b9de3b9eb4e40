package queuefs

import (
	"errors"
	"slices"

	"cutie/queuefs/journal/segment"
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
	if len(q.events) == 0 || after+1 < q.firstSeq || after+1 >= q.firstSeq+Seq(len(q.events)) {
		q.mu.RUnlock()
		return nil, ErrGone
	}
	from := q.events[after+1-q.firstSeq:]
	places := slices.Clone(from[:min(len(from), max)])
	q.mu.RUnlock()
	events := make([]Event, 0, len(places))
	r := eventReader{log: q.svc.log}
	for i, at := range places {
		// Small records stand close to each other: read many at a time.
		dense := i+1 < len(places) && places[i+1] > at && places[i+1]-at < eventBlock/16
		e, err := r.read(at, dense)
		if errors.Is(err, segment.ErrReleased) {
			return events, ErrGone
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// An eventReader reads records whose places grow, block by block.
type eventReader struct {
	log *segment.Log
	buf []byte
	at  segment.Position // of buf[0]
	rec record
}

const eventBlock = 64 << 10

func (r *eventReader) read(at segment.Position, dense bool) (Event, error) {
	// The fixed part, the names and the length of the text are enough.
	const need = recFixed + maxQueueID + maxLabel + 64
	if at < r.at || at.Add(need) > r.at.Add(len(r.buf)) || r.buf == nil {
		n := int64(need)
		if dense {
			n = eventBlock
		}
		n = min(n, r.log.Available(at))
		if r.buf = r.buf[:0]; int64(cap(r.buf)) < n {
			r.buf = make([]byte, n)
		}
		r.buf = r.buf[:n]
		if err := r.log.ReadAt(r.buf, at); err != nil {
			r.buf = nil
			return Event{}, err
		}
		r.at = at
	}
	if err := r.rec.get(r.buf[at-r.at:]); err != nil {
		return Event{}, err
	}
	return r.rec.event(), nil
}
