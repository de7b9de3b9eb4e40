package daemon

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"cutie/cmd/cutie/board"
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
		Trouble: func() []string {
			all := d.node.trouble()
			if text := troubleOf(ready(leaving, d.svc, d.pub, d.unwritten.Load()), d.svc); text != "" {
				all = append([]string{text}, all...)
			}
			return all
		},
	}
}

// troubleOf says in words for everyone why requests are refused, or will be soon; "" if they
// are not. err is that of ready.
func troubleOf(err error, storage disk) string {
	switch {
	case errors.Is(err, queuefs.ErrNoSpace):
		return "The disk is full: submissions are refused, the rest goes on, and nothing is lost."
	case err != nil:
		return err.Error()
	case !storage.HasSpace(largeJob):
		return "The disk is nearly full: large submissions are refused, the rest goes on, and nothing is lost."
	}
	return ""
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
