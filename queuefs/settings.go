package queuefs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/snapshot"
)

// SetQueue changes the properties of a queue (Cutie 0.3, 6.4): edit gets them from
// queue-info.txt and changes them. They hold, and are on stable storage, when
// SetQueue returns. Comments, order and unknown elements stay in the file. A
// damaged file was reported before; it is moved to corrupt/, and edit gets the
// properties in force. ID, Identifier and Created cannot change. A changed file is
// an [job.Update] of no job. Errors are ledger.ErrNoQueue, job.ErrBadName, ErrQueueExists if
// another queue has the name, the error of edit, and those of storage. After an
// error the old properties hold, but the file may have changed: the next Reload
// takes it in. The path of a callback becomes a secret, see [Queue.Callback].
func (s *Service) SetQueue(ctx context.Context, name string, edit func(*home.QueueInfo) error) (home.QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return home.QueueInfo{}, err
	}
	if err := s.beginChange(); err != nil {
		return home.QueueInfo{}, err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	q, err := s.Ask(name)
	if err == nil {
		err = q.original.Refuse()
	}
	if err != nil {
		return home.QueueInfo{}, err
	}
	now, err := q.baseSettings()
	if content.Transient(err) {
		return home.QueueInfo{}, fmt.Errorf("%s/%s: %w: %w", q.ID(), home.QueueInfoName, content.ErrUnread, durable.Bare(err))
	}
	if err != nil {
		return home.QueueInfo{}, fmt.Errorf("%s/%s: %w: %w; mend the file first", q.ID(), home.QueueInfoName, job.ErrConflict, durable.Bare(err))
	}
	if now.Names()[0] != q.Names()[0] {
		return home.QueueInfo{}, fmt.Errorf("%s/%s: %w: other hands have changed the identifier; put it back first", q.ID(), home.QueueInfoName, job.ErrBadName)
	}
	info, was := now.Info(), now.Rules().Callback
	if err := edit(&info); err != nil {
		return home.QueueInfo{}, err
	}
	if info.ID != q.ID() || info.Identifier != now.Names()[0] {
		return home.QueueInfo{}, fmt.Errorf("%w: the identifier of queue %s cannot change; create a queue of the new name and move the jobs there", job.ErrBadName, q.ID())
	}
	if !info.Created.Equal(now.Created()) {
		return home.QueueInfo{}, fmt.Errorf("%w: when queue %s was created cannot change", job.ErrBadName, q.ID())
	}
	if err := info.Check(); err != nil {
		return home.QueueInfo{}, err
	}
	if err := s.queues.Free(info.Name, q); err != nil {
		return home.QueueInfo{}, err
	}
	if info.Callback != was || was != home.PublicURL(was) { // else it is as before, even if its URL is lost
		if info.Callback, err = s.keepCallback(q.ID(), info.Callback); err != nil {
			return home.QueueInfo{}, ledger.StorageError(err)
		}
	}
	written, err := q.infoFile.Set(now.Reading, info.Elements())
	if err != nil {
		return home.QueueInfo{}, ledger.StorageError(err)
	}
	now = q.settingsOf(written)
	if err := q.takeProperties(now); err != nil {
		return home.QueueInfo{}, err
	}
	s.queues.Renamed()
	if info.Callback != was {
		err = ledger.StorageError(s.index.Table.SettleCallback(q.ID(), info.Callback))
	}
	return now.Info(), err
}

// OwnRows writes what a backup has to take along beside the files of the home, as
// [snapshot.Store.PackOwn] does. URLs of callbacks are in it, which are secrets.
func (s *Service) OwnRows(w io.Writer) error { return s.index.PackOwn(w) }

// takeProperties puts new properties in force. The record of their event has no text of
// a large file, which a home in a store needs.
func (q *Queue) takeProperties(n *home.Settings) error {
	if len(n.Text) > home.MaxJournaled {
		if err := q.svc.stored.Note(record.HomeChange{Kind: record.QueueInfo, Queue: q.ID(), Text: string(n.Text)}); err != nil {
			return ledger.StorageError(err)
		}
	}
	return q.putInForce(n)
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
func (s *Service) SetService(ctx context.Context, edit func(*home.ServiceInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.properties.Lock()
	defer s.properties.Unlock()
	file := s.properties.service
	r, err := file.Read()
	if err != nil && r.Text == nil {
		return ledger.StorageError(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; mend the file first", home.InfoName, err)
	}
	info, was := *r.Value, *r.Value
	if err := edit(&info); err != nil {
		return err
	}
	if info.Identifier != was.Identifier || info.Scheme != was.Scheme || !info.Created.Equal(was.Created) {
		return fmt.Errorf("%w: only name, description, supportURI, defaultCatalog, tombstoneAge and baseURI of the service can change", job.ErrBadName)
	}
	if err := info.Check(); err != nil {
		return err
	}
	if r, err = file.Set(r, info.Changeable()); err != nil {
		return ledger.StorageError(err)
	}
	file.Take(r)
	s.takeInfo(r)
	if err := s.noteService(r.Text); err != nil {
		return ledger.StorageError(err)
	}
	return s.index.KeepService(r.Text)
}

// takeInfo puts the properties that may change while the home is open in force. It
// returns those from before, and the baseURI that the file had.
func (s *Service) takeInfo(r home.Reading[home.ServiceInfo]) (was home.ServiceInfo, base string) {
	l := &s.known
	l.mu.Lock()
	defer l.mu.Unlock()
	was, base = l.info, l.base
	l.info.Take(r.Value)
	l.info.Modified, l.base = r.Written, r.Value.BaseURI
	return was, base
}

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
		if q.infoFile.Moves() {
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
		case errors.Is(err, ledger.ErrNotEmpty):
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
			if _, lost := errors.AsType[*content.LostError](err); lost {
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
		return ledger.StorageError(err)
	}
	s.drop(q)
	return ledger.StorageError(s.forget(q.ID()))
}

// reload takes in a changed queue-info.txt, and tells whether it did.
func (q *Queue) reload() bool {
	if q.Shut() != nil {
		return q.reopen()
	}
	if q.Mirror().Live() {
		return false // its properties are those of the original
	}
	r, due, err := q.infoFile.Changed()
	was := q.ledger.Settings()
	if !due {
		if !q.announced() {
			// When the home was opened there was no space for the event. If
			// there is none now, it is tried again at the next call.
			_ = q.announceSettings()
		}
		return false
	}
	if err == nil && r.Value.Identifier != was.Names()[0] {
		err = fmt.Errorf("the identifier cannot change from %.80q; create a queue of the new name and move the jobs there", was.Names()[0])
	}
	if err != nil {
		q.svc.report(home.QueueInfoPath(q.ID()), err.Error()+"; the properties stay as they were")
		if !content.Transient(err) {
			q.infoFile.Take(r)
			bad := *was
			bad.Bad = durable.Bare(err).Error()
			q.ledger.Use(&bad)
		}
		return false
	}
	if q.takeProperties(q.settingsOf(r)) != nil {
		return false // tried again at the next call
	}
	return string(r.Text) != string(was.Text)
}

// reloadInfo takes in changes of cutie-info.txt by other hands. Changes that
// have to wait for the next opening are reported.
func (s *Service) reloadInfo() {
	r, due, err := s.properties.service.Changed()
	info := r.Value
	if due && err == nil {
		err = info.Check()
	}
	if !due || content.Transient(err) {
		return
	}
	s.properties.service.Take(r)
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

// baseSettings returns the settings to begin a change with: those of the file, or, if it
// is damaged and was reported, those in force.
func (q *Queue) baseSettings() (*home.Settings, error) {
	now, err := q.readSettings()
	if hold := q.ledger.Settings(); err != nil && !content.Transient(err) && hold.Bad != "" {
		return hold, nil
	}
	return now, err
}

// readSettings reads queue-info.txt.
func (q *Queue) readSettings() (*home.Settings, error) {
	r, err := q.infoFile.Read()
	return q.settingsOf(r), err
}

// settingsOf returns the settings of a reading. If it has no time of creation, the
// known one stays.
func (q *Queue) settingsOf(r home.Reading[home.QueueInfo]) *home.Settings {
	var created time.Time
	if s := q.ledger.Settings(); s != nil {
		created = s.Created()
	}
	return home.NewSettings(r, created)
}

// putInForce puts the settings of a new reading of the file in force.
func (q *Queue) putInForce(n *home.Settings) error {
	err := q.adoptSettings(n)
	if err == nil {
		q.infoFile.Take(n.Reading)
	}
	return err
}

// A change of queue-info.txt is an event of its own: an Update of no job. Its
// record has the facts of the file in the place of those of a payload. The file
// is on stable storage before the record is. The index knows the file in the
// last such event, so a change by other hands, or one before a crash, becomes
// an event when it is seen.

// adoptSettings puts the settings in force at the instant of their event. If there
// cannot be an event now, nothing changes in memory; the file is read again at
// the next Reload. The caller holds properties, or opens the home.
func (q *Queue) adoptSettings(n *home.Settings) error {
	known := false
	err := q.commit(func(b *ledger.Batch) error {
		if known = b.Index().Info == n.SHA256; known {
			return nil
		}
		f := n.Facts()
		r := &record.Record{Kind: job.Update, Payload: record.Payload{Size: f.Length, SHA256: f.SHA256, MediaType: f.Type, Submitted: f.Modified.UnixMicro()}}
		r.Seq, r.Time = b.Next()
		if len(n.Text) <= home.MaxJournaled {
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

// announceSettings makes an event of a queue-info.txt changed since the last event of
// it. If neither index nor journal know of one, the file is taken as it stands. A file
// that cannot be read has none.
func (q *Queue) announceSettings() error {
	s := q.ledger.Settings()
	if s.Unread != nil {
		return nil
	}
	q.ledger.Note(func(x *index.Index) {
		if x.Info == ([sha256.Size]byte{}) {
			x.Info, x.Changed = s.SHA256, true
		}
	})
	return q.adoptSettings(s)
}

// announced reports whether the file in force has had its event.
func (q *Queue) announced() (done bool) {
	q.ledger.Look(func(x *index.Index) { done = x.Info == q.ledger.Settings().SHA256 })
	return done
}

// A damaged queue-info.txt neither keeps a home from opening nor takes its queue
// out of service: the last known properties hold, by their copy in the index.
// Without a copy the queue takes no jobs and hands out none until an operator sets
// its properties.

// knownSettings is readSettings during the opening of a home, whose index has f of the queue; with trust a
// file that is as it was at the last checkpoint is not read. A damaged file is reported.
// One that cannot be read now may be good, and is reported, too: the settings have Unread,
// and the queue stays shut until it can be read the file.
func (q *Queue) knownSettings(f *snapshot.File, trust bool) (n *home.Settings, err error) {
	var kept snapshot.Settings
	if trust {
		if kept, err = f.Settings(); err != nil {
			return nil, err
		}
	}
	r, err := q.infoFile.ReadUnless(kept.Stamp, kept.Text)
	n = q.settingsOf(r)
	if err == nil {
		err = q.ownFile(n.Names()[0], f)
	}
	if err == nil && n.Dated() {
		return n, nil
	}
	if content.Exhausted(err) {
		return n, fmt.Errorf("%s cannot be read now, which is no damage of it: %w", home.QueueInfoName, err)
	}
	kept, e := f.Settings()
	if e != nil {
		return n, e
	}
	if err == nil {
		n.Date(kept.Created)
		return n, nil
	}
	now := job.Instant(q.svc.now())
	if r.Written.IsZero() {
		r.Written = now
	}
	instead, lost := durable.Bare(err).Error()+"; the last known properties hold", durable.Bare(err).Error()+"; nothing is known of its properties, so the queue is closed and paused"
	if content.Transient(err) {
		r.Unread = durable.Bare(err)
		instead = "cannot be read now: " + r.Unread.Error() + "; the queue is shut until it can"
		lost = instead
	}
	r, e = q.infoFile.Instead(r, kept.Text, instead)
	made := kept.Text == nil || e != nil
	if made {
		info := home.NewQueue(q.ledger.ID(), cmp.Or(kept.Created, now))
		info.Closed, info.Paused = true, now
		if r, e = q.infoFile.Instead(r, info.Text(), lost); e != nil {
			return n, e
		}
	}
	n = home.NewSettings(r, kept.Created)
	n.Made = made
	q.svc.report(home.QueueInfoPath(q.ledger.ID()), n.Bad)
	return n, nil
}

// ownFile refuses the properties of another queue: the file has come here by mistake.
func (q *Queue) ownFile(identifier string, f *snapshot.File) error {
	if id, err := job.CleanQueueID(identifier); err == nil && id == q.ledger.ID() {
		return nil
	}
	kept, err := f.Settings()
	if err != nil || kept.Text == nil {
		return err
	}
	if was, err := home.ParseQueue(q.ledger.ID(), kept.Text); err != nil || was.Identifier == identifier {
		return nil
	}
	return fmt.Errorf("identifier %.80q: it is the file of another queue", identifier)
}

// replayedSettings uses the properties of the last event in the journal in the place of a
// damaged file: they are later than the copy in the index.
func (q *Queue) replayedSettings() error {
	now, text := q.ledger.Settings(), q.ledger.Replayed()
	if now.Bad == "" || text == nil || string(text) == string(now.Text) {
		return nil
	}
	bad := now.Bad
	if now.Unread == nil {
		why, _, _ := strings.Cut(now.Bad, "; ")
		bad = why + "; the last known properties hold"
	}
	r, err := q.infoFile.Instead(now.Reading, text, bad)
	if err == nil {
		q.ledger.Use(home.NewSettings(r, now.Created()))
	}
	return err
}

// openInfo reads cutie-info.txt when the home is opened. A damaged file does not keep it shut if
// the index has a copy. With keep the copy is brought up to the file.
func (s *Service) openInfo(keep bool) (home.Reading[home.ServiceInfo], error) {
	r, err := s.properties.service.Read()
	if err != nil && content.Transient(err) {
		return r, err
	}
	copied, e := s.index.Service()
	switch {
	case e != nil:
		return r, e
	case err != nil && copied == nil:
		return r, fmt.Errorf("%s: %w: %w", home.InfoName, ErrInfo, durable.Bare(err))
	case err != nil:
		s.properties.bad = durable.Bare(err).Error() + "; the last known properties hold"
		s.report(home.InfoName, s.properties.bad)
		if r, err = s.properties.service.Instead(r, copied, s.properties.bad); err != nil {
			return r, err
		}
	case copied != nil && string(copied) != string(r.Text):
		s.report(home.InfoName, "edited by other hands: "+home.Differences(copied, r.Text))
	}
	s.properties.service.Take(r)
	if keep && string(copied) != string(r.Text) {
		err = s.index.KeepService(r.Text)
	}
	return r, err
}

// mendInfo writes a damaged file again by its copy; nil if it was not damaged.
func (s *Service) mendInfo() (*home.Problem, error) {
	if s.properties.bad == "" {
		return nil, nil
	}
	to, err := s.properties.service.SetAside()
	if err != nil {
		return nil, err
	}
	copied, err := s.index.Service()
	if err != nil {
		return nil, err
	}
	if _, err := s.properties.service.Replace(copied); err != nil {
		return nil, err
	}
	text := s.properties.bad + "; written again"
	if to != "" {
		text = s.properties.bad + "; moved to " + to + ", and written again"
	}
	return &home.Problem{Path: home.InfoName, Text: text}, nil
}

// checkFile tells of a damaged or edited queue-info.txt. Repairing sets a damaged one aside
// and writes the properties in force. mended says that the problem is none any more;
// found is nil without one. closed says that the home was closed in order: after a crash a
// file without its event may be that of a change on its way, which the next opening takes in.
func (q *Queue) checkFile(repair, closed bool) (found *home.Problem, mended bool, err error) {
	hold, path := q.ledger.Settings(), home.QueueInfoPath(q.ledger.ID())
	bad := hold.Bad
	edited := false
	q.ledger.Look(func(x *index.Index) { edited = x.Info != [sha256.Size]byte{} && x.Info != hold.SHA256 })
	switch {
	case bad == "" && edited && closed:
		return &home.Problem{Path: path, Text: "edited by other hands, and not taken in yet"}, false, nil
	case bad == "":
		return nil, false, nil
	case !repair || hold.Unread != nil:
		d := durable.Damage(path, bad, hold.Unread != nil)
		return &d, false, nil
	}
	to, err := q.infoFile.SetAside()
	if err != nil {
		return nil, false, err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := q.infoFile.Replace(hold.Text)
	if err != nil {
		return nil, false, err
	}
	if err := q.putInForce(q.settingsOf(written)); err != nil {
		return nil, false, err
	}
	return &home.Problem{Path: path, Text: bad}, true, nil
}
