package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Live pages are looked at every two seconds. A stream ends after a minute: a user without
// a right any more sees a queue for no longer than that.
const (
	liveEvery    = 2 * time.Second
	liveLifetime = time.Minute
	liveIdle     = 30 * time.Second
)

// openHistory opens the figures behind the charts. The error says why they begin anew.
func (d *daemon) openHistory() (*dashboard.History, error) {
	dir, err := durable.OpenDir(filepath.Join(d.svc.Dir(), "log"), nil)
	if err != nil {
		return nil, err
	}
	return dashboard.OpenHistory(dir)
}

// largeJob is the octets of a submission that people should be able to make.
const largeJob = 16 << 20

// newBoard returns the pages for operators.
func (d *daemon) newBoard(leaving context.Context, past *dashboard.History) *dashboard.Board {
	return &dashboard.Board{
		Service:   d.svc,
		History:   past,
		Published: d.push.published(d.pub),
		Hub: &dashboard.Hub{Every: liveEvery, Lifetime: liveLifetime, Idle: liveIdle, Watchers: max(1, d.Limits.Conns/2), Panicked: func(p any) {
			d.Log.Error().Interface("panic", p).Str("stack", string(debug.Stack())).Msg("live page panicked")
		}},
		Trouble: func() (all []dashboard.Trouble) {
			if t := troubleOf(ready(leaving, d.svc, d.pub, d.unwritten.Load()), d.svc); t.Text != "" {
				all = append(all, t)
			}
			if n := len(d.svc.Lost()); n > 0 {
				all = append(all, dashboard.Trouble{Text: fmt.Sprintf("%d queues are not served: their directories are lost.", n), Topic: dashboard.OnTrouble})
			}
			for _, text := range d.node.trouble() {
				all = append(all, dashboard.Trouble{Text: text, Topic: dashboard.OnTrouble})
			}
			return all
		},
	}
}

// troubleOf says in words for everyone why requests are refused, or will be soon; the zero
// Trouble if they are not. err is that of ready.
func troubleOf(err error, storage disk) dashboard.Trouble {
	switch {
	case errors.Is(err, queuefs.ErrNoSpace):
		return dashboard.Trouble{Text: "The disk is full: submissions and results are refused, the rest goes on, and nothing is lost.", Topic: dashboard.OnFullDisk}
	case errors.Is(err, errStorage):
		return dashboard.Trouble{Text: err.Error(), Topic: dashboard.OnFailedSync}
	case err != nil:
		return dashboard.Trouble{Text: err.Error(), Topic: dashboard.OnTrouble}
	case !storage.HasSpace(largeJob):
		return dashboard.Trouble{Text: "The disk is nearly full: large submissions are refused, the rest goes on, and nothing is lost.", Topic: dashboard.OnFullDisk}
	}
	return dashboard.Trouble{}
}

// both returns a hook that calls two others.
func both(one, two func(*queuefs.Job)) func(*queuefs.Job) {
	return func(j *queuefs.Job) {
		one(j)
		two(j)
	}
}
