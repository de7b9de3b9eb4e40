package queuefs

import (
	"fmt"

	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
)

// Unsettled reports whether opening the home for changes would change it: it was not closed
// in order, somebody has changed its files, or leases or holds have ended. It is for homes
// opened with [Options.Look]; what they show is then from before these changes.
func (s *Service) Unsettled() bool { return s.unsettled }

// looked loads what else readers see of a home that nobody else changes, and finds out
// whether it is unsettled.
func (s *Service) looked(c indexfile.Checkpoint, indexed, lost bool, known *found, was map[*Queue]loaded) error {
	s.unsettled = !c.Clean || !indexed || lost || known.Torn >= 0 || len(known.fresh)+len(known.Unlisted) > 0
	for _, q := range s.Queues() {
		if q.Mirror().Live() {
			continue
		}
		if l := was[q]; l.scanned || l.changed || l.fresh {
			s.unsettled = true
		}
		if err := q.findLeases(); err != nil {
			return fmt.Errorf("queue %s: leases: %w", q.ID(), err)
		}
		now := s.now()
		q.look(func(x *index.Index) { s.unsettled = s.unsettled || x.Leases.Passed(now) || x.Holds.Passed(now) })
	}
	return nil
}
