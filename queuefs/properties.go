package queuefs

import (
	"cmp"
	"crypto/sha256"
	"fmt"
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
