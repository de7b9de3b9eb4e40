package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/replay"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// When an original is lost its mirror may know events without all their files, and have
// the files of later ones. The takeover replays them all. Each job with files missing, and
// queue-info.txt, then have one more event, so that followers of the original do not wait
// for these files, nor keep them.

// A loss is the part of a report on files that never came.
type loss struct {
	event    job.Seq  // last one of the original that was replayed; 0: none was
	last     job.ID   // highest one of the backlog
	gone     []string // jobs without a payload
	bare     []string // pending jobs without their job file, on hold
	former   []string // other jobs with a former job file
	noResult []string // JOB/NAME
	settings bool     // those in force are former ones
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
		if errors.Is(err, job.ErrTooBig) {
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
	events []replay.Event
	text   []byte // queue-info.txt of the last event of it
}

// end adds the further events to the first n.
func (b *backlog) end(n int, now time.Time) (*ended, error) {
	a := &ended{}
	a.events, a.text = b.first(n)
	of := map[job.ID][]*event{}
	lives := map[job.ID]*life{}
	var order []job.ID
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
		e := replay.Event{}
		e.Event = job.Event{Seq: seq, Time: at, Kind: job.Update, Job: id}
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
func (a *ended) keepSettings(q *queuefs.Queue, of []*event, e *replay.Event) {
	text, facts := q.InfoFile()
	for _, before := range of {
		if before.Text != nil {
			text = before.Text
		}
	}
	e.Text = replay.NoteFormer(text, e.Time)
	e.File = job.Facts{Length: int64(len(e.Text)), SHA256: sha256.Sum256(e.Text), Type: facts.Type, Modified: e.Time}
	a.text, a.settings = e.Text, true
}

// endJob makes an event of a job with files missing.
func (a *ended) endJob(q *queuefs.Queue, l *life, of []*event, e *replay.Event) error {
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
		if j.Results = nil; last.To == job.Consumed {
			j.Results = there
		}
		if last.To == job.Pending {
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
func formerJob(q *queuefs.Queue, of []*event) (j job.Job, was job.Status, err error) {
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
		if e.To != job.Consumed {
			there, lost = nil, nil
		}
		c := e.Event.Event.Results
		if c == nil {
			continue
		}
		there = slices.DeleteFunc(there, func(r job.Result) bool { return replaced(r.Name, c) })
		lost = slices.DeleteFunc(lost, func(name string) bool { return replaced(name, c) })
		for _, r := range c.Came {
			if len(e.Event.Results) > 0 {
				there = append(there, r)
			} else {
				lost = append(lost, r.Name)
			}
		}
	}
	return there, lost
}

// TakeoverPath is where an administrator makes live queues of mirrors: of one with its
// name behind it, or of all.
const TakeoverPath = "/takeover"

// DropPath is where an administrator has a mirror removed, with its jobs; the daemon then
// begins it anew if it still follows the Source. The name of the queue follows the path.
const DropPath = "/mirror"

// A Taken is the report of a takeover.
type Taken struct {
	state.Typed
	Queues []TakenQueue `json:"queues"`
}

// A TakenQueue is one queue of it.
type TakenQueue struct {
	Queue       string    `json:"queue"`
	Source      string    `json:"source"`
	LastEvent   uint64    `json:"lastEvent"`            // of the original, here
	LastTime    time.Time `json:"lastTime,omitzero"`    // of that event
	LastContact time.Time `json:"lastContact,omitzero"` // later events are not known
	Unseen      uint64    `json:"unseenEvents,omitempty"`
	UnseenJobs  []string  `json:"unseenJobs,omitempty"`     // of events known, with payloads that never came
	Bare        []string  `json:"bare,omitempty"`           // pending jobs without their job file, on hold
	Former      []string  `json:"former,omitempty"`         // other jobs with a job file of before their last event
	NoResult    []string  `json:"noResult,omitempty"`       // results that never came
	Settings    bool      `json:"formerSettings,omitempty"` // the original had later settings
	Pending     int64     `json:"pending"`
	Consumed    int64     `json:"consumed"`
	Unfinished  []string  `json:"unfinished,omitempty"` // consumed, out of work, and without an outcome
	Requeued    int       `json:"requeued,omitempty"`
	Before      bool      `json:"before,omitempty"` // it was taken over before
}

// maxUnfinished is how many unfinished jobs a report names. Those with files that never came
// are named all: the backlog has them in memory.
const maxUnfinished = 1000

// Routes are the routes of the takeover.
func (k *Keeper) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodPost, Path: TakeoverPath, Need: web.Everywhere(web.Admin), Serve: k.takeAll},
		{Method: http.MethodPost, Path: TakeoverPath + "/{queue}", Need: web.Here(web.Admin), Serve: k.takeOne},
		{Method: http.MethodDelete, Path: DropPath + "/{queue}", Need: web.Here(web.Admin), Serve: k.drop},
		{Method: http.MethodGet, Path: PartsPath + "/{queue}", Need: web.Here(web.Read), Serve: k.sendParts},
		{Method: http.MethodPost, Path: AuditPath + "/{queue}", Need: web.Here(web.Admin), Waits: web.IfAsked, Serve: k.auditNow},
	}
}

func (k *Keeper) takeOne(w http.ResponseWriter, r *http.Request) error {
	q, err := k.svc.Ask(r.PathValue("queue"))
	if err != nil {
		return err
	}
	if q.Mirror() == nil {
		return fmt.Errorf("%s: %w: it is no mirror", q.ID(), job.ErrConflict)
	}
	return k.takeover(w, r, []*queuefs.Queue{q})
}

func (k *Keeper) takeAll(w http.ResponseWriter, r *http.Request) error {
	var queues []*queuefs.Queue
	for _, q := range k.svc.Queues() {
		if q.Mirror().Live() {
			queues = append(queues, q)
		}
	}
	return k.takeover(w, r, queues)
}

func (k *Keeper) takeover(w http.ResponseWriter, r *http.Request, queues []*queuefs.Queue) error {
	query := r.URL.Query()
	for name := range query {
		if name != "force" && name != "requeue-unfinished" {
			return web.Errorf(http.StatusBadRequest, "takeover has no parameter %.40q; it has force and requeue-unfinished", name)
		}
	}
	if !query.Has("force") {
		if err := k.refuseAlive(r.Context(), queues); err != nil {
			return err
		}
	}
	report := Taken{Typed: state.TakeoverClass.Typed(), Queues: []TakenQueue{}}
	for _, q := range queues {
		t, err := k.take(r.Context(), q, query.Has("requeue-unfinished"))
		if err != nil {
			return err
		}
		report.Queues = append(report.Queues, t)
	}
	return web.AnswerJSON(w, &report)
}

func (k *Keeper) drop(w http.ResponseWriter, r *http.Request) error {
	q, err := k.svc.Ask(r.PathValue("queue"))
	if err == nil {
		err = k.svc.DropMirror(r.Context(), q.ID())
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	if f := k.followers[q.ID()]; f != nil {
		f.stop() // it begins anew
	}
	k.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// refuseAlive refuses a takeover while an original answers: each job would be handed out
// twice.
func (k *Keeper) refuseAlive(ctx context.Context, queues []*queuefs.Queue) error {
	asked := map[string]bool{}
	for _, q := range queues {
		m := q.Mirror()
		base := m.Base()
		if !m.Live() || base == "" || asked[base] {
			continue
		}
		asked[base] = true
		if Answers(ctx, base) {
			return fmt.Errorf("%w: %s, the original of %s, still answers, and with two homes each job would be handed out twice; stop it first, or take over with force",
				job.ErrConflict, base, q.ID())
		}
	}
	return nil
}

// Answers reports whether a Source still answers at a base URI. A proxy with
// nobody behind it does not count.
func Answers(ctx context.Context, base string) bool {
	client := source.NewClient(source.Options{Origin: source.OriginOf(base), Tries: 1, Timeout: 5 * time.Second})
	err := client.Get(ctx, source.Request{URI: base + wellknown.Path}, func(*source.Answer) error { return nil })
	var status *source.StatusError
	return err == nil || errors.As(err, &status) && status.Status != http.StatusBadGateway && status.Status != http.StatusServiceUnavailable
}

// take takes a queue over, and reports.
func (k *Keeper) take(ctx context.Context, q *queuefs.Queue, requeue bool) (t TakenQueue, err error) {
	before := !q.Mirror().Live()
	progress := q.Original().Progress()
	var l loss
	if !before {
		b, release := k.hold(q)
		defer release()
		l = k.finish(ctx, b)
	}
	m, err := q.Takeover(ctx, l.last, l.event)
	if err != nil {
		return t, err
	}
	st := q.State()
	t = TakenQueue{Queue: q.ID(), Source: m.Source, LastEvent: uint64(m.Last), LastContact: m.Until, Before: before}
	if !before {
		t.LastTime = st.LastEvent
		if progress.Known > m.Last {
			t.Unseen = uint64(progress.Known - m.Last)
		}
		t.UnseenJobs, t.Bare, t.Former, t.NoResult, t.Settings = l.gone, l.bare, l.former, l.noResult, l.settings
	}
	for {
		some := q.Unfinished(maxUnfinished)
		if !requeue {
			for _, id := range some {
				t.Unfinished = append(t.Unfinished, id.String())
			}
		}
		if !requeue || len(some) == 0 {
			break
		}
		for _, id := range some {
			if _, err := q.Requeue(ctx, id); err != nil {
				return t, err
			}
			t.Requeued++
		}
	}
	st = q.State()
	t.Pending, t.Consumed = st.Pending, st.Consumed
	return t, nil
}

// finish replays the backlog of a mirror. If it cannot, the queue is taken over without it.
func (k *Keeper) finish(ctx context.Context, b *backlog) loss {
	if b == nil {
		return loss{}
	}
	l, err := b.finish(ctx, time.Now())
	if err != nil {
		k.o.Tell(b.f.id, "events of the original without all their files are lost: "+err.Error())
	}
	for _, e := range b.events {
		if name := e.Job.String(); e.Job != 0 && !slices.Contains(l.gone, name) && len(l.gone) < maxUnfinished {
			l.gone = append(l.gone, name)
		}
	}
	b.discard()
	return l
}
