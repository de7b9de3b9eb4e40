package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

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
		return fmt.Errorf("%s: %w: it is no mirror", q.ID(), queuefs.ErrConflict)
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
				queuefs.ErrConflict, base, q.ID())
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
