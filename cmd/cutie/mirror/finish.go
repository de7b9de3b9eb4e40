package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/replay"
)

// When an original is lost its mirror may know events without all their files, and have
// the files of later ones. The takeover replays them all. Each job with files missing, and
// queue-info.txt, then have one more event, so that followers of the original do not wait
// for these files, nor keep them.

// A loss is the part of a report on files that never came.
type loss struct {
	event    queuefs.Seq   // last one of the original that was replayed; 0: none was
	last     queuefs.JobID // highest one of the backlog
	gone     []string      // jobs without a payload
	bare     []string      // pending jobs without their job file, on hold
	former   []string      // other jobs with a former job file
	noResult []string      // JOB/NAME
	settings bool          // those in force are former ones
}

// finish replays all events of the backlog.
func (b *backlog) finish(ctx context.Context, now time.Time) (l loss, err error) {
	for _, e := range b.events {
		l.last = max(l.last, e.Job)
	}
	for n := b.ready(maxChange); n > 0; n = b.ready(maxChange) {
		if err := b.replay(ctx, n); err != nil {
			return l, err
		}
	}
	for n := len(b.events); n > 0; {
		all, err := b.end(n, now)
		if err != nil {
			return l, err
		}
		err = b.f.q.Replay(ctx, all.events, all.text)
		if errors.Is(err, queuefs.ErrTooBig) {
			spilled, err := b.spill(n)
			if err != nil {
				return l, err
			}
			if !spilled {
				n /= 2 // the others are lost
			}
			continue
		}
		if err != nil {
			return l, err
		}
		all.last, all.event = l.last, b.events[n-1].Seq
		b.forget(n)
		return all.loss, nil
	}
	return l, nil
}

// An ended part of a backlog may be replayed as a whole.
type ended struct {
	loss
	events []queuefs.ReplayEvent
	text   []byte // queue-info.txt of the last event of it
}

// end adds the further events to the first n.
func (b *backlog) end(n int, now time.Time) (*ended, error) {
	a := &ended{}
	a.events, a.text = b.first(n)
	of := map[queuefs.JobID][]*event{}
	lives := map[queuefs.JobID]*life{}
	var order []queuefs.JobID
	for _, e := range b.events[:n] {
		if lives[e.Job] == nil {
			lives[e.Job] = &life{}
			order = append(order, e.Job)
		}
		lives[e.Job].follow(e)
		of[e.Job] = append(of[e.Job], e)
	}
	seq, at := b.events[n-1].Seq, b.events[n-1].Time
	if now = now.UTC().Truncate(time.Microsecond); now.After(at) {
		at = now
	}
	for _, id := range order {
		if !lives[id].lacks() {
			continue
		}
		seq, at = seq+1, at.Add(time.Microsecond)
		e := queuefs.ReplayEvent{}
		e.Event = queuefs.Event{Seq: seq, Time: at, Kind: job.Update, Job: id}
		if id == 0 {
			a.keepSettings(b.f.q, of[id], &e)
		} else if err := a.endJob(b.f.q, lives[id], of[id], &e); err != nil {
			return nil, err
		}
		a.events = append(a.events, e)
	}
	return a, nil
}

// keepSettings makes an event of former settings with a note.
func (a *ended) keepSettings(q *queuefs.Queue, of []*event, e *queuefs.ReplayEvent) {
	text, facts := q.InfoFile()
	for _, before := range of {
		if before.Text != nil {
			text = before.Text
		}
	}
	e.Text = replay.NoteFormer(text, e.Time)
	e.File = queuefs.Facts{Length: int64(len(e.Text)), SHA256: sha256.Sum256(e.Text), Type: facts.Type, Modified: e.Time}
	a.text, a.settings = e.Text, true
}

// endJob makes an event of a job with files missing.
func (a *ended) endJob(q *queuefs.Queue, l *life, of []*event, e *queuefs.ReplayEvent) error {
	last, name := l.last, e.Job.String()
	e.From, e.To = last.To, last.To
	if l.came != nil && !l.came.payload {
		e.Kind, e.To = job.Cull, 0
		a.gone = append(a.gone, name)
		return nil
	}
	j, was, err := formerJob(q, of)
	if err != nil {
		return err
	}
	there, lost := resultsOf(j.Results, of)
	if last.Text == nil {
		replay.Place(&j, was, last.To, last.Time, e.Time)
		if j.Results = nil; last.To == queuefs.Consumed {
			j.Results = there
		}
		if last.To == queuefs.Pending {
			a.bare, e.Kind = append(a.bare, name), job.Hold
		} else {
			a.former = append(a.former, name)
		}
	} else {
		j.Results = slices.DeleteFunc(slices.Clone(j.Results), func(r job.Result) bool { return slices.Contains(lost, r.Name) })
	}
	for _, r := range lost {
		a.noResult = append(a.noResult, name+"/"+r)
	}
	if len(lost) > 0 {
		e.Event.Results = &job.ResultChange{Went: lost}
	}
	if j.Seq = e.Seq; e.Kind == job.Update {
		j.Updated = e.Time
	}
	e.Text = j.AppendText(nil)
	return nil
}

// formerJob returns a job by its newest job file, with its status there; without any a job
// made of its payload, and 0.
func formerJob(q *queuefs.Queue, of []*event) (j queuefs.Job, was queuefs.Status, err error) {
	for _, e := range slices.Backward(of) {
		if e.Text != nil {
			j, err = job.Parse(e.Text)
			return j, j.Status, err
		}
		if e.From == 0 {
			p := &e.Payload
			return job.Job{ID: e.Job, Status: job.Pending, Submitted: p.Modified, Size: p.Length,
				Digests: []digest.Value{digest.NewValue(digest.SHA256, p.SHA256[:])}}, 0, nil
		}
	}
	j, err = q.Job(of[0].Job)
	return j, j.Status, err
}

// resultsOf returns the results of a job after events, and the names of those without
// their file. before are of a job file from before the events, or from among them.
func resultsOf(before []job.Result, of []*event) (there []job.Result, lost []string) {
	there = slices.Clone(before)
	for _, e := range of {
		if e.To != queuefs.Consumed {
			there, lost = nil, nil
		}
		c := e.Event.Results
		if c == nil {
			continue
		}
		there = slices.DeleteFunc(there, func(r job.Result) bool { return replaced(r.Name, c) })
		lost = slices.DeleteFunc(lost, func(name string) bool { return replaced(name, c) })
		for _, r := range c.Came {
			if len(e.ReplayEvent.Results) > 0 {
				there = append(there, r)
			} else {
				lost = append(lost, r.Name)
			}
		}
	}
	return there, lost
}
