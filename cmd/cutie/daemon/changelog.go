package daemon

import (
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// A lineLog passes the messages of net/http about connections on to the log.
type lineLog struct{ log zerolog.Logger }

func (l lineLog) Write(p []byte) (int, error) {
	l.log.Warn().Str("text", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}

// A changeLog logs a failure on every tick only when it begins, once a minute
// while it lasts, and when there was none for a while, with the number of failures.
type changeLog struct {
	log    zerolog.Logger
	task   string
	last   string    // what was told
	told   time.Time // when
	fault  time.Time // of the last failure
	failed int
}

// settled is the time without a failure after which a task works again: on a nearly full disk
// it fails and succeeds in turn.
const settled = 10 * time.Second

// note takes the outcome of one tick.
func (c *changeLog) note(err error, now time.Time) {
	if err == nil {
		if c.failed > 0 && now.Sub(c.fault) < settled {
			return
		}
		if c.failed > 0 {
			c.log.Info().Str("task", c.task).Int("failures", c.failed).Msg("works again")
		}
		c.last, c.failed = "", 0
		return
	}
	c.failed++
	c.fault = now
	if text := err.Error(); text != c.last || now.Sub(c.told) >= time.Minute {
		c.log.Error().Err(err).Str("task", c.task).Int("failures", c.failed).Msg("failed")
		c.last, c.told = text, now
	}
}

// A fullness logs the beginning and the end of a full disk, once each. The end comes after
// some time with free space.
type fullness struct {
	log   zerolog.Logger
	since time.Time // full since then; zero: it is not
	last  time.Time // it was full
}

// look notes whether the disk is full at a time.
func (f *fullness) look(full bool, now time.Time) {
	switch {
	case full && f.since.IsZero():
		f.since = now
		f.log.Error().Str("cure", "make space, such as with cutie cull: cutie help operating").Msg("the disk is full: submissions and results are refused")
	case !full && !f.since.IsZero() && now.Sub(f.last) >= settled:
		f.log.Info().Dur("ms", f.last.Sub(f.since)).Msg("the disk has free space again")
		f.since = time.Time{}
	}
	if full {
		f.last = now
	}
}
