package ledger

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
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
	// A submission finds no results: those of later records are asked for with these. Most
	// records of a home that stopped with files behind are submissions.
	if r.Job != 0 && r.Kind != job.Phase && r.Kind != job.Submit {
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

// Parts reads the job file of a job from the journal, and its payload if wanted. The
// view must have them there.
func (l *Ledger) Parts(v *View, wanted bool) (text, payload []byte, err error) {
	n, beside := v.FileLength, v.Journaled.Payload == v.Journaled.File
	if wanted && beside {
		n += int(v.Size)
	}
	r, err := l.recordAt(v.Journaled.File, v.MediaType, n)
	switch {
	case err != nil:
	case wanted && beside:
		payload = r.Payload.Data
	case wanted:
		payload, err = l.Payload(v)
	}
	if err == nil && (r.File.Text == nil || wanted && int64(len(payload)) != v.Size) {
		err = record.ErrForm
	}
	return r.File.Text, payload, err
}

// Payload reads the payload of a job from its record. The job file there is hardly
// ever longer than the one of now, so one read will do.
func (l *Ledger) Payload(v *View) ([]byte, error) {
	at := v.Journaled.Payload
	r, err := l.recordAt(at, v.MediaType, v.FileLength+int(v.Size))
	if err != nil || int64(len(r.Payload.Data)) == v.Size && r.Payload.Data != nil {
		return r.Payload.Data, err
	}
	data := make([]byte, v.Size)
	n, err := l.shared.Journal.ReadAt(data, at, r.PayloadAt())
	if err == io.EOF {
		err = nil // the caller sees the length
	}
	return data[:n], err
}

// recordAt reads a record of the queue as far as its names and n bytes of text and
// payload.
func (l *Ledger) recordAt(at journal.LSN, mediaType string, n int) (r record.Record, err error) {
	// Most records name no file.
	if r, err = l.readRecord(at, record.MaxFixed+len(l.id)+len(mediaType)+n); err == record.ErrForm || err == nil && n > 0 && r.File.Text == nil {
		r, err = l.readRecord(at, record.MaxHead+record.MaxResultNames+n)
	}
	return r, err
}

// readRecord reads a record, or of a large one up to n bytes.
func (l *Ledger) readRecord(at journal.LSN, n int) (r record.Record, err error) {
	if n <= firstRead {
		if data := l.shared.ahead.record(l.shared.Journal, at); data != nil {
			err = r.Parse(data)
			return r, err
		}
	}
	buf := make([]byte, n)
	k, err := l.shared.Journal.ReadAt(buf, at, 0)
	if err == nil || err == io.EOF {
		err = r.Parse(buf[:k])
	}
	return r, err
}

// Last returns the number of the last event, 0 before the first.
func (l *Ledger) Last() job.Seq {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.idx.Last().Seq
}

// Events returns up to max events after one, oldest first, from the journal. If it
// does not reach back that far the error is [ErrGone].
func (l *Ledger) Events(after job.Seq, max int) ([]job.Event, error) {
	l.mu.RLock()
	if after >= l.idx.Last().Seq {
		l.mu.RUnlock()
		return nil, nil
	}
	at, ok := l.idx.History.After(after, max)
	l.mu.RUnlock()
	if !ok {
		return nil, ErrGone
	}
	events := make([]job.Event, 0, len(at))
	buf := make([]byte, record.MaxHead)
	var r record.Record
	for _, at := range at {
		n, err := l.shared.Journal.ReadAt(buf, at, 0)
		if err == nil || err == io.EOF {
			err = r.Parse(buf[:n])
		}
		if err == record.ErrForm && n == len(buf) { // of many results
			r, err = l.readRecord(at, record.MaxHead+record.MaxResultNames)
		}
		if err == nil && r.Lacks() {
			r, err = l.readRecord(at, record.MaxHead+record.MaxResultNames+r.File.TextSize())
		}
		if errors.Is(err, journal.ErrReleased) {
			return events, ErrGone
		}
		if err != nil {
			return events, err
		}
		events = append(events, r.Event())
	}
	return events, nil
}

// A Journaled is an event with the parts in its record.
type Journaled struct {
	job.Event
	Text    []byte // job file as the event left it, or queue-info.txt; nil without one
	Payload []byte // of a job that came; nil where it is a file
}

// Journaled returns up to max events after one, oldest first, with up to size bytes of
// parts, but at least one event. If the journal does not reach back that far the error is
// [ErrGone].
func (l *Ledger) Journaled(after job.Seq, max, size int) ([]Journaled, error) {
	l.mu.RLock()
	if after >= l.idx.Last().Seq {
		l.mu.RUnlock()
		return nil, nil
	}
	at, ok := l.idx.History.After(after, max)
	l.mu.RUnlock()
	if !ok {
		return nil, ErrGone
	}
	events := make([]Journaled, 0, len(at))
	for _, at := range at {
		if len(events) > 0 && size <= 0 {
			break
		}
		r, err := l.wholeRecord(at)
		if errors.Is(err, journal.ErrReleased) {
			err = ErrGone
		}
		if err != nil {
			return events, err
		}
		e := Journaled{Event: r.Event(), Payload: r.Payload.Data}
		if !r.File.Passed && r.File.Size > 0 {
			e.Text = r.File.Text
		}
		events = append(events, e)
		size -= len(e.Text) + len(e.Payload) + 64
	}
	return events, nil
}

// firstRead has most records with their parts.
const firstRead = 4 << 10

// wholeRecord reads a record with all its parts.
func (l *Ledger) wholeRecord(at journal.LSN) (r record.Record, err error) {
	for n := firstRead; ; n += record.MaxResultNames {
		if r, err = l.readRecord(at, n); err == record.ErrForm && n == firstRead {
			continue // of many results
		}
		if err != nil {
			return r, err
		}
		whole := r.PayloadAt()
		if r.Flags&record.Inline != 0 {
			whole += int(r.Payload.Size)
		}
		if whole > n && r.Payload.Data == nil {
			return l.readRecord(at, whole)
		}
		return r, nil
	}
}

// An ahead reads records ahead. Consumers, and the files of jobs, go through the journal
// in order, each at its own place, so a block of small records takes the place of a read
// of each. Readers may keep parts of a record, and must not change them.
type ahead struct {
	mu      sync.Mutex
	streams [4]stream // places of readers
	clock   uint64
}

// A stream is the place of a reader in the journal.
type stream struct {
	next  journal.LSN      // after the last record read
	block []journal.Record // without gaps in the numbers
	later journal.LSN      // no block is read before: records are large
	busy  bool             // a block is being read
	used  uint64           // by the clock
}

const (
	blockBytes   = 192 << 10 // of a block, at most, unless it is one record
	blockRecords = 16        // with fewer there is no gain
	nearRecords  = 64        // records that readers of one stream may be apart
)

// record returns a record read ahead, to be read only, or nil if the caller is to read
// it for itself.
func (a *ahead) record(j journal.Journal, at journal.LSN) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stream(at)
	if data := s.find(at); data != nil {
		return data
	}
	if at < s.next || s.busy {
		return nil
	}
	follows := s.next != 0
	s.next = at + 1
	if !follows || at < s.later {
		return nil
	}
	s.busy = true
	a.mu.Unlock()
	block := readBlock(j, at)
	a.mu.Lock()
	s.busy = false
	if n := len(block); n < blockRecords {
		if n > 0 {
			s.later = at + nearRecords
		}
		return nil
	}
	s.block, s.next = block, block[len(block)-1].LSN+1
	return s.find(at)
}

// stream returns the stream of a record, or begins one in the place of another.
func (a *ahead) stream(at journal.LSN) *stream {
	a.clock++
	oldest := -1
	for i := range a.streams {
		s := &a.streams[i]
		if s.next != 0 && (s.find(at) != nil || at+nearRecords >= s.next && at < s.next+nearRecords) {
			s.used = a.clock
			return s
		}
		if !s.busy && (oldest < 0 || s.used < a.streams[oldest].used) {
			oldest = i
		}
	}
	if oldest < 0 {
		return &stream{busy: true}
	}
	a.streams[oldest] = stream{used: a.clock}
	return &a.streams[oldest]
}

// find returns a record of the block, or nil.
func (s *stream) find(at journal.LSN) []byte {
	if len(s.block) == 0 || at < s.block[0].LSN || at-s.block[0].LSN >= journal.LSN(len(s.block)) {
		return nil
	}
	return s.block[at-s.block[0].LSN].Data
}

// readBlock reads a block of records from one on. It returns none near the end of the
// journal, where more will come, and few if records are large. The records have one
// allocation, of no more bytes than they are.
func readBlock(j journal.Journal, at journal.LSN) (block []journal.Record) {
	if j.Stats().Next < at+blockRecords {
		return nil
	}
	mem := scratches.Get().(*scratch)
	defer scratches.Put(mem)
	bytes, lengths := mem.bytes[:0], mem.lengths[:0]
	for r, err := range j.Read(at) {
		n := len(lengths)
		if err != nil || r.LSN != at+journal.LSN(n) || n > 0 && len(bytes)+len(r.Data) > blockBytes {
			break
		}
		bytes, lengths = append(bytes, r.Data...), append(lengths, len(r.Data))
	}
	mem.lengths = lengths
	if cap(bytes) <= 2*blockBytes {
		mem.bytes = bytes
	}
	data := slices.Clone(bytes)
	block = make([]journal.Record, len(lengths))
	for i, n := range lengths {
		block[i] = journal.Record{LSN: at + journal.LSN(i), Data: data[:n:n]}
		data = data[n:]
	}
	return block
}

// A scratch is memory to read a block.
type scratch struct {
	bytes   []byte
	lengths []int
}

var scratches = sync.Pool{New: func() any { return &scratch{bytes: make([]byte, 0, blockBytes)} }}

// A Gate counts the calls on an open home. It closes when the home does, or for
// changes when storage fails. Its methods are safe for concurrent use. Make one with
// [NewGate].
type Gate struct {
	mu      sync.RWMutex
	err     error // storage failed
	closing bool
	calls   sync.WaitGroup
	stopped chan struct{} // closed when the home closes or fails
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{stopped: make(chan struct{})} }

// Enter registers a call; Leave must follow. The error is as for Usable.
func (g *Gate) Enter() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if err := g.usable(); err != nil {
		return err
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Usable returns [ErrFailed] after storage has failed, [ErrClosed] once the home
// closes, and else nil.
func (g *Gate) Usable() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.usable()
}

func (g *Gate) usable() error {
	switch {
	case g.err != nil:
		return errors.Join(ErrFailed, g.err)
	case g.closing:
		return ErrClosed
	}
	return nil
}

// Fail makes every later change an error: the contents of storage are unknown until
// the home is opened again.
func (g *Gate) Fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	if !g.closing {
		close(g.stopped)
	}
}

// Err returns the error given to Fail, or nil.
func (g *Gate) Err() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.err
}

// Close lets no more calls in and waits for those on their way. It returns false if
// it was called before.
func (g *Gate) Close() bool {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return false
	}
	g.closing = true
	if g.err == nil {
		close(g.stopped)
	}
	g.mu.Unlock()
	g.calls.Wait()
	return true
}

// Sleep returns nil once wake is closed, and an error if ctx ends or the gate closes
// before.
func (g *Gate) Sleep(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stopped:
		return cmp.Or(g.Usable(), ErrClosed)
	}
}

// A recent has ledgers in the order of their last changes, so that a follower of all
// queues pays for those that have changed.
type recent struct {
	mu    sync.Mutex
	count uint64  // changes, and 1
	last  *Ledger // the one changed last; its newer is nil
}

// A turn is the place of a ledger in a recent, guarded by its lock.
type turn struct {
	at           uint64 // count of the last change; 0: not in it
	newer, older *Ledger
}

// Touch notes a change of the queue that followers may want to see.
func (l *Ledger) Touch() {
	r := &l.shared.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeOut(l)
	r.count = max(r.count, 1) + 1
	l.turn = turn{at: r.count, older: r.last}
	if r.last != nil {
		r.last.turn.newer = l
	}
	r.last = l
}

// takeOut takes a ledger out; mu is held.
func (r *recent) takeOut(l *Ledger) {
	t := &l.turn
	if t.at == 0 {
		return
	}
	if t.newer != nil {
		t.newer.turn.older = t.older
	} else {
		r.last = t.older
	}
	if t.older != nil {
		t.older.turn.newer = t.newer
	}
	*t = turn{}
}

// Since returns the ledgers that have changed after the given count, and the new count
// for the next call. With 0 it returns no ledger: the caller wants all.
func (s *Shared) Since(after uint64) (changed []*Ledger, now uint64) {
	r := &s.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.last; l != nil && after > 0 && l.turn.at > after; l = l.turn.older {
		changed = append(changed, l)
	}
	return changed, max(r.count, 1)
}

// leave takes the ledger of a removed queue out.
func (l *Ledger) leave() {
	r := &l.shared.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeOut(l)
}

// An awake has ledgers with something to do.
type awake struct {
	mu  sync.Mutex
	set map[*Ledger]bool
}

func (a *awake) add(l *Ledger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set == nil {
		a.set = map[*Ledger]bool{}
	}
	a.set[l] = true
}

// those returns the ledgers for which still is true, and forgets the others.
func (a *awake) those(still func(*Ledger) bool) (some []*Ledger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.set {
		if still(l) {
			some = append(some, l)
		} else {
			delete(a.set, l)
		}
	}
	return some
}

// Unfiled returns the ledgers with files behind the journal, in no order.
func (s *Shared) Unfiled() []*Ledger {
	return s.unfiled.those(func(l *Ledger) bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return len(l.backlog.jobs) > 0
	})
}

// Timed returns the ledgers with jobs that have deadlines, or may have them in their job
// files.
func (s *Shared) Timed() []*Ledger {
	return s.timed.those(func(l *Ledger) bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.idx.Timed()
	})
}

// Wake makes the queue one of [Shared.Unfiled] and [Shared.Timed] if it is to be.
func (l *Ledger) Wake() {
	l.mu.RLock()
	unfiled, timed := len(l.backlog.jobs) > 0, l.idx.Timed()
	l.mu.RUnlock()
	if unfiled {
		l.shared.unfiled.add(l)
	}
	if timed {
		l.shared.timed.add(l)
	}
}
