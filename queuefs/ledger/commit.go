package ledger

import (
	"errors"
	"slices"
	"sync/atomic"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// A Batch collects the records of one change while its build runs.
type Batch struct {
	x    *index.Index
	now  int64
	recs []*record.Record
	use  *home.Settings
}

// Index is what is known now, for reading and for minting numbers of jobs.
func (b *Batch) Index() *index.Index { return b.x }

// Next mints the number and the time (µs) of the next event.
func (b *Batch) Next() (job.Seq, int64) { return b.x.Mint(b.now) }

// Add adds a record to the change.
func (b *Batch) Add(r *record.Record) { b.recs = append(b.recs, r) }

// Job adds the record of a job as it is after the event; from is its status before,
// and us the time of the event. The facts of the payload are from the index.
func (b *Batch) Job(j *job.Job, kind job.Kind, from job.Status, us int64) *record.Record {
	r := &record.Record{Kind: kind, From: from, Seq: j.Seq, Time: us, Job: j.ID, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
	r.Mark(j)
	r.SetType(j.MediaType)
	r.Sums(b.x, j.ID)
	r.SetText(j.AppendText(make([]byte, 0, 640+len(j.Sidecar))))
	b.Add(r)
	return r
}

// Use puts settings in force at the instant the change becomes visible.
func (b *Batch) Use(s *home.Settings) { b.use = s }

// A change is the records of one call, journaled all or none.
type change struct {
	recs   []*record.Record
	use    *home.Settings
	ticket journal.Ticket
	shown  atomic.Bool
}

// Commit journals the records that build adds, and returns when they are on stable
// storage and visible. build runs with the lock held, must not wait, and is called
// again if the journal was not ready. Without records nothing happens. If Commit
// fails nothing has happened, except that after [ErrFailed] the outcome is unknown
// until the home is opened again. Without storage for the records the error is a
// [*ReserveError]. The caller has entered the gate, and so may finish while it closes.
func (l *Ledger) Commit(build func(b *Batch) error) error {
	if err := l.shared.Gate.Err(); err != nil {
		return errors.Join(ErrFailed, err)
	}
	for {
		c, room, err := l.append(build)
		switch {
		case err == journal.ErrUnready:
			if err := l.shared.Journal.Reserve(room.use, room.records, room.size); err != nil {
				return &ReserveError{StorageError(err)}
			}
			continue
		case errors.Is(err, journal.ErrFenced), errors.Is(err, journal.ErrFailed):
			l.shared.Gate.Fail(err) // nothing can be added any more
			return StorageError(err)
		case err != nil:
			return StorageError(err)
		case c == nil:
			return nil
		}
		durable, err := c.ticket.Wait()
		if err != nil {
			l.shared.Gate.Fail(err)
			return StorageError(err)
		}
		if !c.shown.Load() {
			l.Show(durable)
		}
		return nil
	}
}

// A room is what a change needs in the journal.
type room struct {
	use           journal.Use
	records, size int
}

// append puts the records of build into the journal. Without records the change is
// nil.
func (l *Ledger) append(build func(b *Batch) error) (c *change, need room, err error) {
	e := record.NewEncoder()
	defer e.Free()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.gone {
		return nil, need, l.noQueue()
	}
	saved := l.idx.Minted()
	b := Batch{x: l.idx, now: l.shared.Micro()}
	if err := build(&b); err != nil || len(b.recs) == 0 {
		if err != nil {
			l.idx.Unmint(saved)
		}
		return nil, need, err
	}
	need = room{use: useOf(b.recs), records: len(b.recs)}
	for _, r := range b.recs {
		if r.Queue = l.id; !r.File.Passed {
			r.File.Size = len(r.File.Text)
		}
		need.size += e.Add(r)
	}
	t, err := l.shared.Journal.Append(need.use, e.Records)
	if err != nil {
		l.idx.Unmint(saved)
		return nil, need, err
	}
	for _, r := range b.recs {
		r.Payload.Data, r.Result = nil, nil
	}
	c = &change{recs: b.recs, use: b.use, ticket: t}
	l.pending = append(l.pending, c)
	return c, need, nil
}

// useOf returns the use of the records: the largest claim of them all.
func useOf(recs []*record.Record) journal.Use {
	use := journal.Frees
	for _, r := range recs {
		switch {
		case r.Kind == job.Submit || r.Flags&record.Result != 0:
			return journal.Adds
		case r.Kind != job.Cull:
			use = journal.Changes
		}
	}
	return use
}

// Show makes the changes before the record durable visible, in their order.
func (l *Ledger) Show(durable journal.LSN) {
	l.mu.Lock()
	n := l.show(durable)
	l.mu.Unlock()
	if n > 0 {
		l.Wake()
		l.shared.Happened.Raise()
	}
}

// show is Show with mu held. It returns how many changes it has made visible.
func (l *Ledger) show(durable journal.LSN) int {
	n := 0
	for n < len(l.pending) && l.pending[n].ticket.First < durable {
		c := l.pending[n]
		for i, r := range c.recs {
			l.apply(r, c.ticket.First+journal.LSN(i), false, false)
			l.watch.Wake(r.Job)
		}
		if c.use != nil {
			l.use(c.use)
		}
		c.shown.Store(true)
		n++
	}
	if n > 0 {
		l.pending = slices.Delete(l.pending, 0, n)
		l.serve()
		l.Touch() // under the lock: who sees the events knows of the change, too
	}
	return n
}

// Follow applies a record of another owner of the journal, and puts use in force unless
// it is nil. Changes of this process before it are visible then.
func (l *Ledger) Follow(r *record.Record, at journal.LSN, use *home.Settings) {
	r.FindHold()
	l.mu.Lock()
	l.show(at)
	l.apply(r, at, false, false)
	if use != nil {
		l.use(use)
	}
	l.watch.Wake(r.Job)
	l.Touch()
	l.mu.Unlock()
	l.Wake()
	l.shared.Happened.Raise()
}

// Replay applies a record read from the journal when the home is opened. Files of the
// job may be in any state; hasResults reports whether it has a directory of results.
func (l *Ledger) Replay(r *record.Record, at journal.LSN, hasResults func(job.ID) bool) {
	had := false
	if r.Job != 0 && r.Kind != job.Phase {
		var version job.Seq
		l.Look(func(x *index.Index) { version = x.Version(r.Job) })
		had = version >= r.Seq && hasResults(r.Job)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(r, at, true, had)
}

// Remember keeps the LSN of an event from before the checkpoint.
func (l *Ledger) Remember(r *record.Record, at journal.LSN) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(r, at)
}

// apply brings what is known to the state after the record at: in normal use when it
// is durable, and again when the journal is replayed. had reports whether the job may
// have results beside those the index knows. l.mu is held.
func (l *Ledger) apply(r *record.Record, at journal.LSN, replayed, had bool) {
	switch {
	case r.Kind == job.Phase:
		l.idx.Changed = true
	case r.Job == 0: // a changed queue-info.txt
		l.idx.Info, l.idx.Changed = r.Payload.SHA256, true
		if replayed {
			if l.life.settings = nil; r.File.Text != nil {
				text := string(r.File.Text)
				l.life.settings = &text
			}
		}
	default:
		c := r.Change(at, replayed)
		before := l.idx.Apply(&c)
		l.forget(r.Job)
		had = had || before.Results
		switch {
		case l.backlog.passed(r, &before, had):
			l.idx.SetPassed(r.Job)
			l.count(-1)
		case l.backlog.follow(r, at, before.Behind, had):
			l.count(1)
		}
	}
	l.note(r, at)
}

// note keeps the LSN of the event.
func (l *Ledger) note(r *record.Record, at journal.LSN) {
	l.idx.History.Note(r.Seq, at)
	l.idx.Reach(index.Numbers{Job: r.Job, Seq: r.Seq, Time: r.Time})
}
