package queuefs

import (
	"errors"
	"fmt"
	"strings"

	"cutie/queuefs/compare"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/snapshot"
)

// Compare compares all queues with their files and adds to r. With Repair it mends
// differences where possible. Nobody may use the service meanwhile.
func (s *Service) Compare(r *compare.Report, o compare.Options) error {
	if !s.opts.Look {
		if err := s.fileNow(); err != nil {
			return err
		}
	}
	if o.Repair {
		mended, err := s.properties.service.Mend()
		if err != nil {
			return err
		}
		if mended != nil {
			r.Tell(true, *mended)
		}
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.checkSettings(r, o.Repair); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		o := o
		if q.Mirror().Live() {
			o.Repair, o.Restore = false, false // only its original changes it
		}
		if m := q.Mirror(); m != nil && m.Bad != "" {
			r.Tell(false, Problem{Path: home.MirrorsDir + "/" + q.ID(), Text: m.Bad + "; the queue stays a mirror until cutie failover mirror takes it over"})
		}
		if _, err := q.Callback(); err != nil {
			path := home.CallbacksDir + "/" + q.ID()
			r.Tell(false, durable.Damage(path, strings.TrimPrefix(err.Error(), path+": "), !errors.Is(err, durable.ErrDamaged)))
		}
		damaged, err := q.tombstones.Verify(o.Repair)
		if err != nil {
			return fmt.Errorf("queue %s: tombstones: %w", q.ID(), err)
		}
		if damaged && s.index.Closed() { // a crash may tear the end
			r.Tell(o.Repair, Problem{Path: snapshot.Path(q.ID(), indexfile.TombstonesName), Text: "tombstones do not verify; others are kept"})
		}
		if err := q.comparer().Check(r, o); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return nil
}

// fileNow brings all files up to the journal, as far as there is space.
func (s *Service) fileNow() error {
	at := s.shared.Journal.Stats().Next
	err := s.makeSpace()
	for _, q := range s.Queues() {
		if err == nil {
			_, err = q.fileUpTo(at, s.space.InTime)
		}
	}
	if errors.Is(storageError(err), ErrNoSpace) {
		return nil
	}
	return err
}

// checkSettings reports a damaged queue-info.txt, and mends it to repair.
func (q *Queue) checkSettings(r *compare.Report, repair bool) error {
	q.svc.properties.Lock()
	defer q.svc.properties.Unlock()
	found, mended, err := q.properties.Check(repair, q.svc.index.Closed())
	if found != nil {
		r.Tell(mended, *found)
	}
	return err
}
