package queuefs

import (
	"context"
	"fmt"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/record"
)

// SetQueue changes the properties of a queue (Cutie 0.3, 6.4): edit gets them from
// queue-info.txt and changes them. They hold, and are on stable storage, when
// SetQueue returns. Comments, order and unknown elements stay in the file. A
// damaged file was reported before; it is moved to corrupt/, and edit gets the
// properties in force. ID, Identifier and Created cannot change. A changed file is
// an [Update] of no job. Errors are ErrNoQueue, ErrBadName, ErrQueueExists if
// another queue has the name, the error of edit, and those of storage. After an
// error the old properties hold, but the file may have changed: the next Reload
// takes it in. The path of a callback becomes a secret, see [Queue.Callback].
func (s *Service) SetQueue(ctx context.Context, name string, edit func(*QueueInfo) error) (QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return QueueInfo{}, err
	}
	if err := s.beginChange(); err != nil {
		return QueueInfo{}, err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	q, err := s.Ask(name)
	if err == nil {
		err = q.original.Refuse()
	}
	if err != nil {
		return QueueInfo{}, err
	}
	now, err := q.properties.Base()
	if content.Transient(err) {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: %w", q.ID(), home.QueueInfoName, ErrUnread, durable.Bare(err))
	}
	if err != nil {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: %w; mend the file first", q.ID(), home.QueueInfoName, ErrConflict, durable.Bare(err))
	}
	if now.Names()[0] != q.Names()[0] {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: other hands have changed the identifier; put it back first", q.ID(), home.QueueInfoName, ErrBadName)
	}
	info, was := now.Info(), now.Rules().Callback
	if err := edit(&info); err != nil {
		return QueueInfo{}, err
	}
	if info.ID != q.ID() || info.Identifier != now.Names()[0] {
		return QueueInfo{}, fmt.Errorf("%w: the identifier of queue %s cannot change; create a queue of the new name and move the jobs there", ErrBadName, q.ID())
	}
	if !info.Created.Equal(now.Created()) {
		return QueueInfo{}, fmt.Errorf("%w: when queue %s was created cannot change", ErrBadName, q.ID())
	}
	if err := info.Check(); err != nil {
		return QueueInfo{}, err
	}
	if s.queues.Taken(info.Name, q) {
		return QueueInfo{}, fmt.Errorf("name %.80q: %w", info.Name, ErrQueueExists)
	}
	callbacks := &s.properties.callbacks
	if info.Callback != was || was != home.PublicURL(was) { // else it is as before, even if its URL is lost
		if info.Callback, err = s.keepCallback(q.ID(), info.Callback); err != nil {
			return QueueInfo{}, storageError(err)
		}
	}
	written, err := q.properties.File.Set(now.Reading, info.Elements())
	if err != nil {
		return QueueInfo{}, storageError(err)
	}
	now = q.properties.Of(written)
	if err := q.takeProperties(now); err != nil {
		return QueueInfo{}, err
	}
	s.queues.Renamed()
	if info.Callback != was {
		err = storageError(callbacks.Settle(q.ID(), info.Callback))
	}
	return now.Info(), err
}

// takeProperties puts new properties in force. The record of their event has no text of
// a large file, which a home in a store needs.
func (q *Queue) takeProperties(n *home.Settings) error {
	if len(n.Text) > home.MaxJournaled {
		if err := q.svc.stored.Note(record.HomeChange{Kind: record.QueueInfo, Queue: q.ID(), Text: string(n.Text)}); err != nil {
			return storageError(err)
		}
	}
	return q.properties.Take(n)
}

// noteService puts cutie-info.txt into the journal of a home in a store.
func (s *Service) noteService(text []byte) error {
	return s.stored.Note(record.HomeChange{Kind: record.ServiceInfo, Text: string(text)})
}

// SetService changes name, description, supportURI, defaultCatalog,
// tombstoneAge or baseURI of the service (Cutie 0.3, 6.2): edit gets the
// properties from cutie-info.txt. They are on stable storage and in force when
// SetService returns, except BaseURI: published documents keep their references
// until the home is opened again. Comments, order and unknown elements stay in
// the file.
func (s *Service) SetService(ctx context.Context, edit func(*ServiceInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	file := s.properties.service.File
	r, err := file.Read()
	if err != nil && r.Text == nil {
		return storageError(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; mend the file first", home.InfoName, err)
	}
	info, was := *r.Value, *r.Value
	if err := edit(&info); err != nil {
		return err
	}
	if info.Identifier != was.Identifier || info.Scheme != was.Scheme || !info.Created.Equal(was.Created) {
		return fmt.Errorf("%w: only name, description, supportURI, defaultCatalog, tombstoneAge and baseURI of the service can change", ErrBadName)
	}
	if err := info.Check(); err != nil {
		return err
	}
	if r, err = file.Set(r, info.Changeable()); err != nil {
		return storageError(err)
	}
	file.Take(r)
	s.takeInfo(r)
	if err := s.noteService(r.Text); err != nil {
		return storageError(err)
	}
	return s.index.KeepService(r.Text)
}

// takeInfo puts the properties that may change while the home is open in force. It
// returns those from before, and the baseURI that the file had.
func (s *Service) takeInfo(r home.Reading[ServiceInfo]) (was ServiceInfo, base string) {
	l := &s.known
	l.mu.Lock()
	defer l.mu.Unlock()
	was, base = l.info, l.base
	l.info.Take(r.Value)
	l.info.Modified, l.base = r.Written, r.Value.BaseURI
	return was, base
}
