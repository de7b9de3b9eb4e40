package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"cutie/cmd/cutie/board"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/history"
	"cutie/cmd/cutie/live"
	"cutie/queuefs"
)

// historyFile is the history of the figures in log/ of a home.
const historyFile = "history"

// Live pages are looked at every two seconds. A stream ends after a minute: a user without
// a right any more sees a queue for no longer than that.
const (
	liveEvery    = 2 * time.Second
	liveLifetime = time.Minute
	liveIdle     = 30 * time.Second
)

// largeJob is the octets of a submission that people should be able to make.
const largeJob = 16 << 20

// newBoard returns the room of the pages for operators. past is nil without a history.
func (d *daemon) newBoard(leaving context.Context, past *history.History) *board.Board {
	return &board.Board{
		Service:   d.svc,
		History:   past,
		Published: d.push.published(d.pub),
		Hub: &live.Hub{Every: liveEvery, Lifetime: liveLifetime, Idle: liveIdle, Watchers: max(1, d.Limits.Conns/2), Panicked: func(p any) {
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

// sampling is the loop behind the charts.
func sampling(past *history.History, s *board.Sampler) []loop {
	if past == nil {
		return nil
	}
	return []loop{{"charts", board.SampleEvery, s.Sample}}
}

// both returns a hook that calls two others.
func both(one, two func(*queuefs.Job)) func(*queuefs.Job) {
	return func(j *queuefs.Job) {
		one(j)
		two(j)
	}
}
