package ledger

import (
	"errors"
	"io"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

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
