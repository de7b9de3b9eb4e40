// Package properties has queue-info.txt in force: reading it, the event of its change,
// and the last known properties in the place of a damaged file.
package properties

import (
	"cmp"
	"crypto/sha256"
	"errors"
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

// A Queue has the properties of one queue. The caller serializes changes.
type Queue struct {
	*Home
	File   home.File[home.QueueInfo]
	Ledger *ledger.Ledger
	Commit func(build func(*ledger.Batch) error) error // as [ledger.Ledger.Commit]
}

// A Home has the things common to all queues.
type Home struct {
	Files  func(d *durable.Dir, id string) home.File[home.QueueInfo]
	Now    func() time.Time
	Report func(path, text string) // called with damage found
}

// Base returns the settings to begin a change with: those of the file, or, if it
// is damaged and was reported, those in force.
func (p *Queue) Base() (*home.Settings, error) {
	now, err := p.Read()
	if hold := p.Ledger.Settings(); err != nil && !content.Transient(err) && hold.Bad != "" {
		return hold, nil
	}
	return now, err
}

// Read reads queue-info.txt.
func (p *Queue) Read() (*home.Settings, error) {
	r, err := p.File.Read()
	return p.Of(r), err
}

// Of returns the settings of a reading. If it has no time of creation, the
// known one stays.
func (p *Queue) Of(r home.Reading[home.QueueInfo]) *home.Settings {
	var created time.Time
	if s := p.Ledger.Settings(); s != nil {
		created = s.Created()
	}
	return home.NewSettings(r, created)
}

// Take puts the settings of a new reading of the file in force.
func (p *Queue) Take(n *home.Settings) error {
	err := p.Adopt(n)
	if err == nil {
		p.File.Take(n.Reading)
	}
	return err
}

// A change of queue-info.txt is an event of its own: an Update of no job. Its
// record has the facts of the file in the place of those of a payload. The file
// is on stable storage before the record is. The index knows the file in the
// last such event, so a change by other hands, or one before a crash, becomes
// an event when it is seen.

// Adopt puts the settings in force at the instant of their event. If there
// cannot be an event now, nothing changes in memory; the file is read again at
// the next Reload. The caller holds properties, or opens the home.
func (p *Queue) Adopt(n *home.Settings) error {
	known := false
	err := p.Commit(func(b *ledger.Batch) error {
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
		p.Ledger.Use(n)
	}
	return err
}

// Announce makes an event of a queue-info.txt changed since the last event of
// it. If neither index nor journal know of one, the file is taken as it stands. A file
// that cannot be read has none.
func (p *Queue) Announce() error {
	s := p.Ledger.Settings()
	if s.Unread != nil {
		return nil
	}
	p.Ledger.Note(func(x *index.Index) {
		if x.Info == ([sha256.Size]byte{}) {
			x.Info, x.Changed = s.SHA256, true
		}
	})
	return p.Adopt(s)
}

// Announced reports whether the file in force has had its event.
func (p *Queue) Announced() (done bool) {
	p.Ledger.Look(func(x *index.Index) { done = x.Info == p.Ledger.Settings().SHA256 })
	return done
}

// A damaged queue-info.txt neither keeps a home from opening nor takes its queue
// out of service: the last known properties hold, by their copy in the index.
// Without a copy the queue takes no jobs and hands out none until an operator sets
// its properties.

// Known is Read during the opening of a home, whose index has f of the queue; with trust a
// file that is as it was at the last checkpoint is not read. A damaged file is reported.
// One that cannot be read now may be good, and is reported, too: the settings have Unread,
// and the queue stays shut until Known can read the file.
func (p *Queue) Known(f *snapshot.File, trust bool) (n *home.Settings, err error) {
	var kept snapshot.Settings
	if trust {
		if kept, err = f.Settings(); err != nil {
			return nil, err
		}
	}
	r, err := p.File.ReadUnless(kept.Stamp, kept.Text)
	n = p.Of(r)
	if err == nil {
		err = p.own(n.Names()[0], f)
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
	now := p.Now()
	if r.Written.IsZero() {
		r.Written = now
	}
	instead, lost := durable.Bare(err).Error()+"; the last known properties hold", durable.Bare(err).Error()+"; nothing is known of its properties, so the queue is closed and paused"
	if content.Transient(err) {
		r.Unread = durable.Bare(err)
		instead = "cannot be read now: " + r.Unread.Error() + "; the queue is shut until it can"
		lost = instead
	}
	r, e = p.File.Instead(r, kept.Text, instead)
	made := kept.Text == nil || e != nil
	if made {
		info := home.NewQueue(p.Ledger.ID(), cmp.Or(kept.Created, now))
		info.Closed, info.Paused = true, now
		if r, e = p.File.Instead(r, info.Text(), lost); e != nil {
			return n, e
		}
	}
	n = home.NewSettings(r, kept.Created)
	n.Made = made
	p.Report(home.QueueInfoPath(p.Ledger.ID()), n.Bad)
	return n, nil
}

// own refuses the properties of another queue: the file has come here by mistake.
func (p *Queue) own(identifier string, f *snapshot.File) error {
	if id, err := job.CleanQueueID(identifier); err == nil && id == p.Ledger.ID() {
		return nil
	}
	kept, err := f.Settings()
	if err != nil || kept.Text == nil {
		return err
	}
	if was, err := home.ParseQueue(p.Ledger.ID(), kept.Text); err != nil || was.Identifier == identifier {
		return nil
	}
	return fmt.Errorf("identifier %.80q: it is the file of another queue", identifier)
}

// Replayed uses the properties of the last event in the journal in the place of a
// damaged file: they are later than the copy in the index.
func (p *Queue) Replayed() error {
	now, text := p.Ledger.Settings(), p.Ledger.Replayed()
	if now.Bad == "" || text == nil || string(text) == string(now.Text) {
		return nil
	}
	bad := now.Bad
	if now.Unread == nil {
		why, _, _ := strings.Cut(now.Bad, "; ")
		bad = why + "; the last known properties hold"
	}
	r, err := p.File.Instead(now.Reading, text, bad)
	if err == nil {
		p.Ledger.Use(home.NewSettings(r, now.Created()))
	}
	return err
}

// A Service has the properties of the service: cutie-info.txt, and its copy in the index.
type Service struct {
	File   *home.File[home.ServiceInfo]
	Index  *snapshot.Store
	Report func(path, text string) // called with damage found

	bad string // why the copy holds; "" if the file does
}

// ErrInfo is the error for a damaged cutie-info.txt without a copy.
var ErrInfo = errors.New("properties of the service damaged")

// Open reads the file when the home is opened. A damaged file does not keep it shut if
// the index has a copy. With keep the copy is brought up to the file.
func (s *Service) Open(keep bool) (home.Reading[home.ServiceInfo], error) {
	r, err := s.File.Read()
	if err != nil && content.Transient(err) {
		return r, err
	}
	copied, e := s.Index.Service()
	switch {
	case e != nil:
		return r, e
	case err != nil && copied == nil:
		return r, fmt.Errorf("%s: %w: %w", home.InfoName, ErrInfo, durable.Bare(err))
	case err != nil:
		s.bad = durable.Bare(err).Error() + "; the last known properties hold"
		s.Report(home.InfoName, s.bad)
		if r, err = s.File.Instead(r, copied, s.bad); err != nil {
			return r, err
		}
	case copied != nil && string(copied) != string(r.Text):
		s.Report(home.InfoName, "edited by other hands: "+home.Differences(copied, r.Text))
	}
	s.File.Take(r)
	if keep && string(copied) != string(r.Text) {
		err = s.Index.KeepService(r.Text)
	}
	return r, err
}

// Mend writes a damaged file again by its copy; nil if it was not damaged.
func (s *Service) Mend() (*home.Problem, error) {
	if s.bad == "" {
		return nil, nil
	}
	to, err := s.File.SetAside()
	if err != nil {
		return nil, err
	}
	copied, err := s.Index.Service()
	if err != nil {
		return nil, err
	}
	if _, err := s.File.Replace(copied); err != nil {
		return nil, err
	}
	text := s.bad + "; written again"
	if to != "" {
		text = s.bad + "; moved to " + to + ", and written again"
	}
	return &home.Problem{Path: home.InfoName, Text: text}, nil
}

// Check tells of a damaged or edited queue-info.txt. Repairing sets a damaged one aside
// and writes the properties in force. mended says that the problem is none any more;
// found is nil without one. closed says that the home was closed in order: after a crash a
// file without its event may be that of a change on its way, which the next opening takes in.
func (p *Queue) Check(repair, closed bool) (found *home.Problem, mended bool, err error) {
	hold, path := p.Ledger.Settings(), home.QueueInfoPath(p.Ledger.ID())
	bad := hold.Bad
	edited := false
	p.Ledger.Look(func(x *index.Index) { edited = x.Info != [sha256.Size]byte{} && x.Info != hold.SHA256 })
	switch {
	case bad == "" && edited && closed:
		return &home.Problem{Path: path, Text: "edited by other hands, and not taken in yet"}, false, nil
	case bad == "":
		return nil, false, nil
	case !repair || hold.Unread != nil:
		p := durable.Damage(path, bad, hold.Unread != nil)
		return &p, false, nil
	}
	to, err := p.File.SetAside()
	if err != nil {
		return nil, false, err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := p.File.Replace(hold.Text)
	if err != nil {
		return nil, false, err
	}
	if err := p.Take(p.Of(written)); err != nil {
		return nil, false, err
	}
	return &home.Problem{Path: path, Text: bad}, true, nil
}
