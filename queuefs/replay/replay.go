// Package replay makes records of the events of another home: a mirror appends
// the events of its original to its own journal, with their numbers and times.
//
//	Change List of the original ──▶ Event ──▶ Records ──▶ ledger.Commit
//
// Of a job with several events in one change the last one alone needs its job file; the
// others have length and digest by the list. So a reader of the index never meets a job
// without its job file, though the original may have replaced some.
package replay

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/table"
)

// An Event is an event of the original, with its files.
type Event struct {
	job.Event
	Text    []byte            // job file, or queue-info.txt; nil: it gave way to a later one
	Data    []byte            // payload of a submission
	Temp    string            // temporary file with it, synced; "" if Data has it, or the job is gone by the end
	Results map[string]string // temporary files of new results, synced, by name
}

// ErrDiverged: the original and the mirror tell different histories.
var ErrDiverged = errors.New("the mirror and its original have different events")

// errIncomplete is the error for events leaving a job without its job file.
var errIncomplete = errors.New("the last event of a job comes without its job file")

// facts are of payload and results, before an event.
type facts struct {
	record.Payload
	results bool
	pending bool // Text of the last event is missing
}

// Records adds the records of events to a change, in their order. Events the queue has
// already are passed over. Numbers between events, in no list, become events of nothing.
// now is for their times. use are the settings of the last event of queue-info.txt, nil
// without one.
func Records(b *ledger.Batch, events []Event, use *home.Settings, now time.Time) error {
	last := b.Index().Minted()
	jobs := map[job.ID]*facts{}
	for i := range events {
		e := &events[i]
		if e.Seq <= last.Seq {
			continue
		}
		if err := inReach(b.Index(), now, e); err != nil {
			return err
		}
		if err := mint(b, e); err != nil {
			return err
		}
		f := jobs[e.Job]
		if f == nil {
			f = known(b.Index(), events[i:])
			jobs[e.Job] = f
		}
		r := &record.Record{Kind: e.Kind, From: e.From, To: e.To, Seq: e.Seq, Time: e.Time.UnixMicro(), Job: e.Job}
		var err error
		if e.Job == 0 {
			f.settings(r, e)
		} else {
			err = f.job(r, e)
		}
		if err != nil {
			return fmt.Errorf("event %d of %v: %w", e.Seq, e.Job, err)
		}
		b.Add(r)
	}
	for id, f := range maps.All(jobs) {
		if f.pending {
			return fmt.Errorf("%v: %w", id, errIncomplete)
		}
	}
	if use != nil {
		b.Use(use)
	}
	return nil
}

// Events of an original in its right mind leave no larger gaps of numbers, and are no
// further ahead of now: an index has memory for all numbers up to the last one.
const (
	maxGap   = 1 << 20
	maxYears = 10
)

// inReach refuses numbers and times out of reach.
func inReach(x *index.Index, now time.Time, e *Event) error {
	n := x.Minted()
	switch {
	case e.Seq > n.Seq+maxGap || e.Seq > job.MaxSeq:
		return fmt.Errorf("%w: event %d comes after event %d", ErrDiverged, e.Seq, n.Seq)
	case e.Job > n.Job+maxGap:
		return fmt.Errorf("%w: event %d is of %v, after %v", ErrDiverged, e.Seq, e.Job, n.Job)
	case e.Time.After(now.AddDate(maxYears, 0, 0)):
		return fmt.Errorf("%w: event %d is of %s", ErrDiverged, e.Seq, job.FormatTime(e.Time))
	}
	x.Skip(index.Numbers{Job: e.Job})
	return nil
}

// mint gives out the number and the time of an event, and the numbers before it.
func mint(b *ledger.Batch, e *Event) error {
	x, at := b.Index(), e.Time.UnixMicro()
	for x.Minted().Seq+1 < e.Seq {
		seq, us := x.Mint(0)
		b.Add(&record.Record{Kind: job.Phase, Seq: seq, Time: us})
	}
	if _, us := x.Mint(at); us != at {
		return fmt.Errorf("%w: event %d of %s is not after the one before it", ErrDiverged, e.Seq, job.FormatTime(e.Time))
	}
	return nil
}

// known returns the facts before the first one of the events, of a job.
func known(x *index.Index, events []Event) *facts {
	f, e := &facts{}, &events[0]
	j, ok := x.Job(e.Job)
	switch {
	case ok:
		f.results = j.Results
		f.Payload = record.Payload{Size: j.Size, Submitted: j.Submitted, SHA256: j.SHA256, MD5: j.MD5, MediaType: j.MediaType}
	case e.Payload.Length != 0 || e.Payload.SHA256 != [32]byte{}:
		p := &e.Payload
		f.Payload = record.Payload{Size: p.Length, Submitted: p.Modified.UnixMicro(), SHA256: p.SHA256, MD5: p.MD5}
		if p.Type != job.DefaultMediaType {
			f.MediaType = p.Type
		}
	case e.Job != 0: // the copy did not have it; the payload stays
		for i := range events {
			if later := &events[i]; later.Job == e.Job && later.Text != nil {
				if j, err := job.Parse(later.Text); err == nil {
					f.of(&j)
				}
				break
			}
		}
	}
	return f
}

// settings is an event of queue-info.txt.
func (f *facts) settings(r *record.Record, e *Event) {
	r.Payload = record.Payload{Size: e.File.Length, SHA256: e.File.SHA256, MediaType: e.File.Type, Submitted: e.File.Modified.UnixMicro()}
	if f.pending = e.Text == nil; !f.pending && len(e.Text) <= home.MaxJournaled {
		r.SetText(e.Text)
	}
}

func (f *facts) job(r *record.Record, e *Event) error {
	if e.Text != nil {
		j, err := job.Parse(e.Text)
		if err != nil {
			return err
		}
		if j.ID != e.Job || j.Seq != e.Seq || j.Status != e.To {
			return fmt.Errorf("%w: its job file is of %v, event %d, %v", ErrDiverged, j.ID, j.Seq, j.Status)
		}
		f.of(&j)
		r.Mark(&j)
	}
	r.Payload = f.Payload
	if e.From == 0 {
		switch {
		case e.Temp != "":
			r.Flags, r.Temp = r.Flags|record.InTemp, e.Temp
		case e.Data != nil:
			r.Flags, r.Payload.Data = r.Flags|record.Inline, e.Data
		}
	}
	f.pending = false
	switch {
	case e.To == 0:
		r.SetText(nil)
		f.results = false
	case e.Text != nil:
		r.SetText(e.Text)
	default:
		f.pending = true
		var came []job.Result
		if e.Event.Results != nil {
			came = e.Event.Results.Came
		}
		f.results = e.To == job.Consumed && (f.results || len(came) > 0)
		if r.Pass(&e.File, came); f.results {
			r.Flags |= record.Results
		}
	}
	return f.place(r, e)
}

// of takes the facts in a job file.
func (f *facts) of(j *job.Job) {
	f.Size, f.Submitted, f.MD5, f.results = j.Size, j.Submitted.UnixMicro(), j.MD5(), len(j.Results) > 0
	if f.MediaType = j.MediaType; len(f.MediaType) > job.MaxLabel {
		f.MediaType = ""
	}
	if sum, err := hex.DecodeString(j.Digest(digest.SHA256).Hex); err == nil && len(sum) == len(f.SHA256) {
		copy(f.SHA256[:], sum)
	}
}

// place names the new and the gone results, and the file of one that came.
func (f *facts) place(r *record.Record, e *Event) error {
	c := e.Event.Results
	if c == nil {
		return nil
	}
	if len(e.Results) > 1 {
		return fmt.Errorf("%d results came with one event", len(e.Results))
	}
	for name, temp := range e.Results {
		r.Flags |= record.Result
		r.Temp = temp + "/" + name
		return nil
	}
	r.NameResults(c)
	return nil
}

// ErrMirror is the error for a change of a mirror by others than its original.
var ErrMirror = errors.New("is a mirror")

// An Original is the queue of another home with the events of a mirror. Until the takeover
// a mirror changes by them alone. It is safe for concurrent use; the zero Original, with a
// Ledger, is of a queue never mirrored.
type Original struct {
	Ledger *ledger.Ledger
	Table  *table.Table

	mu  sync.Mutex // of replays, and of changes of the row
	of  atomic.Pointer[home.Mirror]
	now atomic.Pointer[home.Progress]
}

// Load takes the contents of the row; nil: there is none.
func (o *Original) Load(m *home.Mirror) {
	o.of.Store(m)
	o.Ledger.SetMirrored(m.Live())
}

// Find is Load for a queue whose index was read. If the index alone knows of a mirror it
// stays one, which is safe, and the result is false.
func (o *Original) Find(m *home.Mirror) (ok bool) {
	if ok = m != nil || !o.Ledger.Mirrored(); !ok {
		m = &home.Mirror{Bad: "there is no row"}
	}
	o.Load(m)
	return ok
}

// Mirror returns the contents of the row, not to be changed; nil without one.
func (o *Original) Mirror() *home.Mirror { return o.of.Load() }

// Refuse returns [ErrMirror] for a mirror.
func (o *Original) Refuse() error {
	if m := o.Mirror(); m.Live() {
		return fmt.Errorf("%s %w of %s: changes are made there, and here after a takeover", o.Ledger.ID(), ErrMirror, cmp.Or(m.Source, "a home not known any more"))
	}
	return nil
}

// Progress returns how far a mirror is.
func (o *Original) Progress() (p home.Progress) {
	if now := o.now.Load(); now != nil {
		p = *now
	}
	return p
}

// SetProgress says how far a mirror is.
func (o *Original) SetProgress(p home.Progress) { o.now.Store(&p) }

// Replay calls do unless the queue is live, then the takeover waits for its end.
func (o *Original) Replay(do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.Mirror().Live() {
		return fmt.Errorf("%s is no mirror", o.Ledger.ID())
	}
	return do()
}

// NoteAudit keeps the result of an audit.
func (o *Original) NoteAudit(a home.Audit) error {
	return o.change(func(m *home.Mirror) { m.Audit = a })
}

// Move names the successor of the original, followed from now on.
func (o *Original) Move(source, list string) error {
	return o.change(func(m *home.Mirror) { m.Source, m.List = source, list })
}

// Adopted notes the numbers of jobs possible in a new mirror.
func (o *Original) Adopted() error {
	return o.change(func(m *home.Mirror) { m.Job = LastJob(o.Ledger, m.Event) })
}

func (o *Original) change(do func(m *home.Mirror)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(do)
}

func (o *Original) write(do func(m *home.Mirror)) error {
	m := *o.Mirror()
	do(&m)
	if err := o.Table.SetMirror(o.Ledger.ID(), &m); err != nil {
		return err
	}
	o.Load(&m)
	return nil
}

// TakeOver makes the queue live at a time: its jobs get numbers behind known, and behind
// all possible ones of the original. event is the last one of the original; 0: the last one
// here. It reports whether the queue was a mirror.
func (o *Original) TakeOver(at time.Time, known job.ID, event job.Seq) (was bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.Mirror()
	if !m.Live() {
		return false, nil
	}
	if event == 0 {
		event = o.Ledger.Last()
	}
	last := max(known, o.Ledger.Numbers().Job)
	if !o.Ledger.State().LastSubmission.After(m.At) { // a submission since tells the number
		last = max(last, m.Job)
	}
	if err := o.write(func(m *home.Mirror) {
		m.Ended, m.Last, m.Until, m.Job = at, event, o.Progress().Contact, last
	}); err != nil {
		return false, err
	}
	o.Ledger.Note(func(x *index.Index) { x.Skip(index.Numbers{Job: last}) })
	return true, nil
}

// LastJob returns the highest number of a job possible after so many events: jobs later
// than the last one here may have come and gone. Each of these had three events, and the
// others one or two at least.
func LastJob(l *ledger.Ledger, events job.Seq) job.ID {
	st, last := l.State(), l.Numbers().Job
	gone := int64(last) - st.Pending - st.Consumed - st.Deleted
	used := st.Pending + 2*(st.Consumed+st.Deleted) + 3*max(gone, 0)
	return last + job.ID(max(int64(events)-used, 0)/3)
}

// NoJobFile is why a job is on hold after the loss of its original.
const NoJobFile = "its job file was not in the copy, nor whether the original handed it out"

// NoPayload is why a job is on hold after the loss of its original.
const NoPayload = "its payload was not in the copy"

// Place gives a job, with a former job file of the status was, the status of a later event.
// Of a job without a job file was is 0. A pending job is put on hold now, so that an
// operator decides.
func Place(j *job.Job, was, st job.Status, changed, now time.Time) {
	switch {
	case st == was:
	case st == job.Consumed:
		j.Enter(st)
		j.Consumed = changed
	case st == job.Deleted:
		j.Delete(changed)
	case was != 0:
		j.GoBack(changed)
	}
	if st == job.Pending {
		j.Hold(now, NoJobFile, time.Time{})
	}
}

// formerSettings begins the note of [NoteFormer].
const formerSettings = "# Settings of before the loss of the original, noted at "

// NoteFormer returns a former queue-info.txt with a note, in the place of one of before:
// the original had later settings.
func NoteFormer(text []byte, now time.Time) []byte {
	var noted []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(formerSettings)) {
			noted = append(noted, line...)
		}
	}
	noted = bytes.TrimSuffix(noted, []byte("\n"))
	return fmt.Appendf(noted, "\n%s%s; the original had later ones, which are not in the copy.\n", formerSettings, now.Format(time.RFC3339Nano))
}
