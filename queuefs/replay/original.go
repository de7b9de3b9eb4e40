package replay

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// ErrMirror is the error for a change of a mirror by others than its original.
var ErrMirror = errors.New("is a mirror")

// An Original is the queue of another home with the events of a mirror. Until the takeover
// a mirror changes by them alone. It is safe for concurrent use; the zero Original, with a
// Ledger, is of a queue never mirrored.
type Original struct {
	Ledger *ledger.Ledger
	Files  *home.Mirrors

	mu  sync.Mutex // of replays, and of changes of the file
	of  atomic.Pointer[home.Mirror]
	now atomic.Pointer[home.Progress]
}

// Load takes the contents of the file; nil: there is none.
func (o *Original) Load(m *home.Mirror) {
	o.of.Store(m)
	o.Ledger.SetMirrored(m.Live())
}

// Find is Load for a queue whose index was read. If the index alone knows of a mirror it
// stays one, which is safe, and the result is false.
func (o *Original) Find(m *home.Mirror) (ok bool) {
	if ok = m != nil || !o.Ledger.Mirrored(); !ok {
		m = &home.Mirror{Bad: "the file is missing"}
	}
	o.Load(m)
	return ok
}

// Mirror returns the contents of the file, not to be changed; nil without one.
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
	if err := o.Files.Write(o.Ledger.ID(), &m); err != nil {
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
