package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Reload takes in changes by other hands to queues.txt, to the queue-info.txt
// of each queue and to cutie-info.txt, and returns the queues that came, went,
// or have other properties now. From cutie-info.txt it takes name, description,
// supportURI and defaultCatalog; a change of baseURI, identifier or
// serviceScheme is reported and takes effect at the next opening. While nothing
// has changed, Reload only looks at the date of each file: call it about once a
// second. A file is read when it has held still between two calls, since an
// editor may empty it first. In a home of many queues it looks at those that somebody
// asked for since the last call, and at [lookMany] of the others in turn.
//
// A queue that is shut, see [Queue.Shut], opens when its queue-info.txt can be read.
//
// A queue new in queues.txt is served with the jobs in its directory; without a
// directory it is made. A queue missing in queues.txt is served on and reported
// as long as it has jobs; without jobs it is released, and its directory left
// as it is. A queue whose directory is lost is never made again, see [Service.Lost]; without
// its line it is forgotten. A file that makes no sense is reported, and its former contents
// stay in force.
func (s *Service) Reload(ctx context.Context) (changed []string, err error) {
	if s.Standby() {
		return nil, nil // what other hands do there stays unseen
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	changed, err = s.reloadQueues(ctx)
	s.properties.Lock()
	defer s.properties.Unlock()
	s.reloadInfo()
	for _, q := range s.queues.Turn(lookMany) {
		q.asked.Store(false)
		if q.reload() && !slices.Contains(changed, q.ID()) {
			changed = append(changed, q.ID())
		}
		if q.properties.File.Moves() {
			s.ask(q) // it must hold still
		}
	}
	return changed, err
}

// lookMany is how many queues a call of Reload looks at that nobody has asked for.
const lookMany = 200

// reloadQueues compares queues.txt with the open queues.
func (s *Service) reloadQueues(ctx context.Context) (changed []string, err error) {
	s.properties.Lock()
	ids, changed, err := s.takeInListed()
	queues := s.Queues()
	s.properties.Unlock()
	if err != nil || ids == nil {
		return changed, err
	}
	listed := make(map[string]bool, len(ids))
	for _, id := range ids {
		listed[id] = true
	}
	for _, lost := range s.Lost() {
		if listed[lost.Queue] {
			continue
		}
		s.properties.Lock()
		err := s.forgetLost(lost.Queue)
		if err != nil {
			s.properties.list.Again()
		}
		s.properties.Unlock()
		if err != nil {
			return changed, err
		}
	}
	for _, q := range queues {
		if listed[q.ID()] {
			continue
		}
		switch err := s.letGo(ctx, q); {
		case errors.Is(err, ErrNotEmpty):
			s.report(home.ListName, fmt.Sprintf("queue %s is not listed any more, but has jobs: it is served until the home is closed", q.ID()))
		case err != nil:
			s.properties.list.Again()
			return changed, err
		default:
			changed = append(changed, q.ID())
		}
	}
	s.queues.Order(ids)
	return changed, nil
}

// takeInListed serves the queues that are new in queues.txt, and returns all in
// it, or nil if it has not changed.
func (s *Service) takeInListed() (ids, changed []string, err error) {
	r, due, err := s.properties.list.Changed()
	if !due || errors.Is(err, fs.ErrNotExist) && len(s.Queues()) == 0 {
		return nil, nil, nil
	}
	if content.Transient(err) {
		return nil, nil, err
	}
	if err != nil {
		s.report(home.ListName, err.Error()+"; the queues stay as they were")
		s.properties.list.Take(r)
		return nil, nil, nil
	}
	ids = *r.Value
	whole := true
	for _, id := range ids {
		if s.open(id) != nil || s.queues.Coming(id) != nil {
			continue
		}
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return nil, changed, e
			}
			if _, lost := errors.AsType[*LostError](err); lost {
				continue // reported when it was found
			}
			s.report(home.QueuesDir+"/"+id, err.Error()+"; not served")
			whole = false
			continue
		}
		changed = append(changed, id)
	}
	if whole {
		s.properties.list.Take(r)
	}
	return ids, changed, nil
}

// letGo ends the service of a queue without jobs, taken out of queues.txt by
// other hands.
func (s *Service) letGo(ctx context.Context, q *Queue) error {
	if err := q.ledger.Seal(ctx); err != nil {
		return err
	}
	err := s.checkpointLocked(allFiles)
	if err != nil {
		q.ledger.Unseal()
		return err
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	if err := s.noteGone(q); err != nil {
		return storageError(err)
	}
	s.drop(q)
	return storageError(s.forget(q.ID()))
}

// reload takes in a changed queue-info.txt, and tells whether it did.
func (q *Queue) reload() bool {
	if q.Shut() != nil {
		return q.reopen()
	}
	if q.Mirror().Live() {
		return false // its properties are those of the original
	}
	r, due, err := q.properties.File.Changed()
	was := q.ledger.Settings()
	if !due {
		if !q.properties.Announced() {
			// When the home was opened there was no space for the event. If
			// there is none now, it is tried again at the next call.
			_ = q.properties.Announce()
		}
		return false
	}
	if err == nil && r.Value.Identifier != was.Names()[0] {
		err = fmt.Errorf("the identifier cannot change from %.80q; create a queue of the new name and move the jobs there", was.Names()[0])
	}
	if err != nil {
		q.svc.report(home.QueueInfoPath(q.ID()), err.Error()+"; the properties stay as they were")
		if !content.Transient(err) {
			q.properties.File.Take(r)
			bad := *was
			bad.Bad = durable.Bare(err).Error()
			q.ledger.Use(&bad)
		}
		return false
	}
	if q.takeProperties(q.properties.Of(r)) != nil {
		return false // tried again at the next call
	}
	return string(r.Text) != string(was.Text)
}

// reloadInfo takes in changes of cutie-info.txt by other hands. Changes that
// have to wait for the next opening are reported.
func (s *Service) reloadInfo() {
	r, due, err := s.properties.service.File.Changed()
	info := r.Value
	if due && err == nil {
		err = info.Check()
	}
	if !due || content.Transient(err) {
		return
	}
	s.properties.service.File.Take(r)
	if err != nil {
		s.report(home.InfoName, err.Error()+"; the properties stay as they were")
		return
	}
	was, base := s.takeInfo(r)
	if s.noteService(r.Text) != nil {
		return // nothing can be changed any more
	}
	if err := s.index.KeepService(r.Text); err != nil {
		s.report(home.InfoName, err.Error()+"; there is no copy of it")
	}
	if info.BaseURI != base || info.Identifier != was.Identifier || info.Scheme != was.Scheme {
		s.report(home.InfoName, "changed in baseURI, identifier or serviceScheme, which hold when the home is opened again")
	}
}
