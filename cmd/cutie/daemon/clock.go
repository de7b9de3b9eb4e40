package daemon

import (
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
)

// A clock watches the clock of the machine. Events are dated by it, and later than
// the event before: after a clock set ahead they are dated in the future until it
// has caught up.
type clock struct {
	log    zerolog.Logger
	latest time.Time     // the latest time seen, by the clock or in an event
	begun  time.Time     // of the process, with its monotonic reading
	offset time.Duration // of the clock from what has passed, at the last look
	looked bool
	behind bool // logged
}

// oddTime is the least difference worth a line in the log.
const oddTime = time.Minute

// newClock begins with the last events of all queues.
func newClock(svc *queuefs.Service, log zerolog.Logger) *clock {
	c := &clock{log: log, begun: time.Now()}
	for _, q := range svc.Queues() {
		if at := q.State().LastEvent; at.After(c.latest) {
			c.latest = at
		}
	}
	return c
}

// now looks now.
func (c *clock) now() error {
	c.look(time.Now(), time.Since(c.begun))
	return nil
}

// look logs oddities of a time, when so much has passed since begun.
func (c *clock) look(now time.Time, passed time.Duration) {
	now = now.Round(0) // without its monotonic reading
	offset := now.Sub(c.begun.Round(0)) - passed
	if ahead := offset - c.offset; c.looked && ahead > oddTime {
		c.log.Warn().Dur("ms", ahead).Time("now", now).Msg("the clock was set ahead; events are dated by it")
	}
	c.offset, c.looked = offset, true
	switch lag := c.latest.Sub(now); {
	case lag > oddTime && !c.behind:
		c.behind = true
		c.log.Warn().Dur("ms", lag).Time("now", now).Time("latest", c.latest).
			Msg("the clock is behind; events are dated after the latest time until it has caught up")
	case lag <= 0 && c.behind:
		c.behind = false
		c.log.Info().Time("now", now).Msg("the clock has caught up")
	}
	if now.After(c.latest) {
		c.latest = now
	}
}
