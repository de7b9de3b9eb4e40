package rest

import (
	"slices"

	"cutie/queuefs"
)

// meet adds new queues, from their first event on, and drops removed ones.
func (s *stream) meet() error {
	queues := s.h.svc.Queues()
	if slices.EqualFunc(s.follows, queues, func(f follow, q *queuefs.Queue) bool { return f.q == q }) {
		return nil
	}
	seqs := make(map[*queuefs.Queue]queuefs.Seq, len(s.follows))
	for _, f := range s.follows {
		seqs[f.q] = f.seq
	}
	s.follows, s.unnamed = nil, true
	for _, q := range queues {
		// Of a new queue, all events.
		s.follows = append(s.follows, follow{q, max(seqs[q], q.State().Before)})
	}
	return s.fits()
}
