package queuefs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/ledger"
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
// takes it in.
func (s *Service) SetQueue(ctx context.Context, name string, edit func(*QueueInfo) error) (QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return QueueInfo{}, err
	}
	if err := s.begin(); err != nil {
		return QueueInfo{}, err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	q, err := s.Queue(name)
	if err != nil {
		return QueueInfo{}, err
	}
	now, err := q.base()
	if err != nil {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: %w; mend the file first", q.ID(), home.QueueInfoName, ErrConflict, bare(err))
	}
	if now.Info.Identifier != q.info().Identifier {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: other hands have changed the identifier; put it back first", q.ID(), home.QueueInfoName, ErrBadName)
	}
	info := now.Info
	if err := edit(&info); err != nil {
		return QueueInfo{}, err
	}
	if info.ID != now.Info.ID || info.Identifier != now.Info.Identifier {
		return QueueInfo{}, fmt.Errorf("%w: the identifier of queue %s cannot change; create a queue of the new name and move the jobs there", ErrBadName, q.ID())
	}
	if !info.Created.Equal(now.Info.Created) {
		return QueueInfo{}, fmt.Errorf("%w: when queue %s was created cannot change", ErrBadName, q.ID())
	}
	if err := info.Check(); err != nil {
		return QueueInfo{}, err
	}
	if s.named(info.Name, q) {
		return QueueInfo{}, fmt.Errorf("name %.80q: %w", info.Name, ErrQueueExists)
	}
	written, err := q.file.Set(now.Reading, info.Elements())
	if err != nil {
		return QueueInfo{}, storageError(err)
	}
	now = q.settingsOf(written)
	if err := q.takeSettings(now); err != nil {
		return QueueInfo{}, err
	}
	return now.Info, nil
}

// bare returns an error without the path of the home: the state of a queue is public.
func bare(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// base returns the settings to begin a change with: those of the file, or, if it
// is damaged and was reported, those in force.
func (q *Queue) base() (*home.Settings, error) {
	now, err := q.readSettings()
	if hold := q.ledger.Settings(); err != nil && !content.Transient(err) && hold.Bad != "" {
		return hold, nil
	}
	return now, err
}

// readSettings reads queue-info.txt.
func (q *Queue) readSettings() (*home.Settings, error) {
	r, err := q.file.Read()
	return q.settingsOf(r), err
}

// settingsOf returns the settings of a reading. If it has no time of creation, the
// known one stays.
func (q *Queue) settingsOf(r home.Reading[QueueInfo]) *home.Settings {
	var created time.Time
	if s := q.ledger.Settings(); s != nil {
		created = s.Info.Created
	}
	return home.NewSettings(r, created)
}

// takeSettings puts the settings of a new reading of the file in force.
func (q *Queue) takeSettings(n *home.Settings) error {
	err := q.adopt(n)
	if err == nil {
		q.file.Take(n.Reading)
	}
	return err
}

// maxSettings is up to where a queue-info.txt travels in the journal, in bytes.
const maxSettings = 16 << 10

// A change of queue-info.txt is an event of its own: an Update of no job. Its
// record has the facts of the file in the place of those of a payload. The file
// is on stable storage before the record is. The index knows the file in the
// last such event, so a change by other hands, or one before a crash, becomes
// an event when it is seen.

// adopt puts the settings in force at the instant of their event. If there
// cannot be an event now, nothing changes in memory; the file is read again at
// the next Reload. The caller holds properties, or opens the home.
func (q *Queue) adopt(n *home.Settings) error {
	known := false
	err := q.commit(func(b *ledger.Batch) error {
		if known = b.Index().Info == n.Facts.SHA256; known {
			return nil
		}
		f := &n.Facts
		r := &record.Record{Kind: Update, Payload: record.Payload{Size: f.Length, SHA256: f.SHA256, MediaType: f.Type, Submitted: f.Modified.UnixMicro()}}
		r.Seq, r.Time = b.Next()
		if len(n.Text) <= maxSettings {
			r.SetText(n.Text)
		}
		b.Add(r)
		b.Use(n)
		return nil
	})
	if err == nil && known {
		q.ledger.Use(n)
	}
	return err
}

// announce makes an event of a queue-info.txt changed since the last event of
// it. If neither index nor journal know of one, the file is taken as it stands.
func (q *Queue) announce() error {
	s := q.ledger.Settings()
	q.ledger.Note(func(x *index.Index) {
		if x.Info == ([sha256.Size]byte{}) {
			x.Info, x.Changed = s.Facts.SHA256, true
		}
	})
	return q.adopt(s)
}

// announced reports whether the file in force has had its event.
func (q *Queue) announced() (done bool) {
	q.look(func(x *index.Index) { done = x.Info == q.ledger.Settings().Facts.SHA256 })
	return done
}

// A damaged queue-info.txt neither keeps a home from opening nor takes its queue
// out of service: the last known properties hold, by their copy in the index.
// Without a copy the queue takes no jobs and hands out none until an operator sets
// its properties.

// knownSettings is readSettings during the opening of a home. A damaged file is
// reported.
func (q *Queue) knownSettings() (*home.Settings, error) {
	r, err := q.file.Read()
	n := q.settingsOf(r)
	if err == nil {
		err = q.own(&n.Info)
	}
	if err == nil && n.Dated() || content.Exhausted(err) {
		return n, err
	}
	kept, created, e := q.svc.index.Settings(q.ID())
	if e != nil {
		return n, e
	}
	if err == nil {
		n.Date(created)
		return n, nil
	}
	now := micro(q.svc.now())
	if r.Written.IsZero() {
		r.Written = now
	}
	r, e = q.file.Instead(r, kept, bare(err).Error()+"; the last known properties hold")
	made := kept == nil || e != nil
	if made {
		info := home.NewQueue(q.ID(), cmp.Or(created, now))
		info.Closed, info.Paused = true, now
		if r, e = q.file.Instead(r, info.Text(), bare(err).Error()+"; nothing is known of its properties, so the queue is closed and paused"); e != nil {
			return n, e
		}
	}
	n = home.NewSettings(r, created)
	n.Made = made
	q.svc.report(home.QueueInfoPath(q.ID()), n.Bad)
	return n, nil
}

// own refuses the properties of another queue: the file has come here by mistake.
func (q *Queue) own(info *QueueInfo) error {
	if id, err := CleanQueueID(info.Identifier); err == nil && id == q.ID() {
		return nil
	}
	kept, _, err := q.svc.index.Settings(q.ID())
	if err != nil || kept == nil {
		return err
	}
	if was, err := home.ParseQueue(q.ID(), kept); err != nil || was.Identifier == info.Identifier {
		return nil
	}
	return fmt.Errorf("identifier %.80q: it is the file of another queue", info.Identifier)
}

// replayed uses the properties of the last event in the journal in the place of a
// damaged file: they are later than the copy in the index.
func (q *Queue) replayed() error {
	now, text := q.ledger.Settings(), q.ledger.Replayed()
	if now.Bad == "" || text == nil || string(text) == string(now.Text) {
		return nil
	}
	why, _, _ := strings.Cut(now.Bad, "; ")
	r, err := q.file.Instead(now.Reading, text, why+"; the last known properties hold")
	if err == nil {
		q.ledger.Use(home.NewSettings(r, now.Info.Created))
	}
	return err
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
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	file := s.properties.service
	r, err := file.Read()
	if err != nil && r.Text == nil {
		return storageError(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; mend the file first", home.InfoName, err)
	}
	info, was := r.Value, r.Value
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
	return s.index.KeepService(r.Text)
}

// takeInfo puts the properties that may change while the home is open in force. It
// returns those from before, and the baseURI that the file had.
func (s *Service) takeInfo(r home.Reading[ServiceInfo]) (was ServiceInfo, base string) {
	l := &s.list
	l.mu.Lock()
	defer l.mu.Unlock()
	was, base = l.info, l.base
	l.info.Take(&r.Value)
	l.info.Modified, l.base = r.Written, r.Value.BaseURI
	return was, base
}
