package queuefs

import (
	"context"
	"crypto/sha256"
	"fmt"

	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// SetQueue changes the properties of a queue (Cutie 0.3, 6.4): edit gets them from
// queue-info.txt and changes them. They hold, and are on stable storage, when
// SetQueue returns. Comments, order and unknown elements stay in the file. A
// damaged file was reported before; it is moved to corrupt/, and edit gets the
// properties in force. ID, Identifier and Created cannot change. A changed file is
// an [Update] of no job. Errors are ErrNoQueue, ErrBadName, ErrQueueExists if
// another queue has the name, the error of edit, and those of storage. After an
// error the old properties hold, but the file may have changed: the next Reload
// takes it in.
func (s *Service) SetQueue(ctx context.Context, name string, edit func(*QueueInfo) error) (QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return QueueInfo{}, err
	}
	if err := s.begin(); err != nil {
		return QueueInfo{}, err
	}
	defer s.end()
	s.set.Lock()
	defer s.set.Unlock()
	q, err := s.Queue(name)
	if err != nil {
		return QueueInfo{}, err
	}
	now, err := q.base()
	if err != nil {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w; mend the file first", q.id, home.QueueInfoName, err)
	}
	if now.info.Identifier != q.Info().Identifier {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: other hands have changed the identifier; put it back first", q.id, home.QueueInfoName, ErrBadName)
	}
	info := now.info
	if err := edit(&info); err != nil {
		return QueueInfo{}, err
	}
	if info.ID != now.info.ID || info.Identifier != now.info.Identifier {
		return QueueInfo{}, fmt.Errorf("%w: the identifier of queue %s cannot change; create a queue of the new name and move the jobs there", ErrBadName, q.id)
	}
	if !info.Created.Equal(now.info.Created) {
		return QueueInfo{}, fmt.Errorf("%w: when queue %s was created cannot change", ErrBadName, q.id)
	}
	if err := info.Check(); err != nil {
		return QueueInfo{}, err
	}
	if s.named(info.Name, q) {
		return QueueInfo{}, fmt.Errorf("name %.80q: %w", info.Name, ErrQueueExists)
	}
	written, err := q.set.file.Set(now.Reading, info.Elements())
	if err != nil {
		return QueueInfo{}, storageError(err)
	}
	now = q.settingsOf(written)
	if err := q.takeSettings(now); err != nil {
		return QueueInfo{}, err
	}
	return now.info, nil
}

// base returns the settings to begin a change with: those of the file, or, if it
// is damaged and was reported, those in force.
func (q *Queue) base() (settings, error) {
	now, err := q.readSettings()
	if hold := q.inForce(); err != nil && !transient(err) && hold.Bad != "" {
		return hold, nil
	}
	return now, err
}

// takeSettings puts the settings of a new reading of the file in force.
func (q *Queue) takeSettings(n settings) error {
	err := q.adopt(n)
	if err == nil {
		q.set.file.Take(n.Reading)
	}
	return err
}

// inForce returns the settings in force.
func (q *Queue) inForce() settings {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.settings
}

// named reports whether a queue other than q has the name.
func (s *Service) named(name string, q *Queue) bool {
	for _, other := range s.Queues() {
		if name != "" && other != q && other.Info().Name == name {
			return true
		}
	}
	return false
}

// settings are the properties of a queue by a reading of queue-info.txt, and the
// published facts of the file.
type settings struct {
	home.Reading[QueueInfo]
	info  QueueInfo // with the time of creation, also if the file has none
	facts Facts
	made  bool // nothing was known, the properties are made up
}

// queueSettings are the settings of a queue in force.
type queueSettings struct {
	settings
	file      *home.File[QueueInfo] // by Service.set
	announced [32]byte              // SHA-256 of the file in the last event of it; zero: unknown
	next      *settings             // take force when their event is committed
}

// readSettings reads queue-info.txt.
func (q *Queue) readSettings() (settings, error) {
	r, err := q.set.file.Read()
	return q.settingsOf(r), err
}

// settingsOf returns the settings of a reading. If it has no time of creation, the
// known one stays.
func (q *Queue) settingsOf(r home.Reading[QueueInfo]) settings {
	n := settings{Reading: r, info: r.Value}
	if !n.dated() {
		n.info.Created = r.Written
		if old := q.Info(); !old.Created.IsZero() {
			n.info.Created = old.Created
		}
	}
	n.facts = Facts{Length: int64(len(r.Text)), SHA256: sha256.Sum256(r.Text), Type: job.FileType, Modified: r.Written}
	return n
}

// dated reports whether the file has the time of creation.
func (n *settings) dated() bool { return !n.Value.Created.IsZero() }

// use puts the settings in force, and serves consumers at the end of a pause.
func (q *Queue) use(n settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set.settings = n
	q.serve()
}
