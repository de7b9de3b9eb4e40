package main

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// newLog returns the daemon's log on standard error. Format is console, json,
// or empty for console on a terminal and json elsewhere.
func newLog(w *os.File, level, format string) (zerolog.Logger, error) {
	lv, err := zerolog.ParseLevel(strings.ToLower(level))
	if err != nil || level == "" {
		return zerolog.Nop(), usagef("log level %.40q is none of debug, info, warn, error, disabled", level)
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	var out io.Writer = w
	switch {
	case format == "console", format == "" && terminal(w):
		out = zerolog.ConsoleWriter{Out: w, NoColor: !terminal(w), TimeFormat: "15:04:05.000"}
	case format != "json" && format != "":
		return zerolog.Nop(), usagef("log format %.40q is neither json nor console", format)
	}
	return zerolog.New(out).Level(lv).With().Timestamp().Logger(), nil
}

// A lineLog passes what net/http says of single connections on to the log.
type lineLog struct{ log zerolog.Logger }

func (l lineLog) Write(p []byte) (int, error) {
	l.log.Warn().Str("text", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}

// A changeLog logs a failure that recurs on every tick when it begins, once a
// minute while it lasts, and when it ends, with how often the task has failed
// since it began.
type changeLog struct {
	log    zerolog.Logger
	what   string
	last   string    // what was told
	told   time.Time // when
	failed int
}

// note takes the outcome of one tick.
func (c *changeLog) note(err error, now time.Time) {
	if err == nil {
		if c.failed > 0 {
			c.log.Info().Str("task", c.what).Int("failures", c.failed).Msg("works again")
		}
		c.last, c.failed = "", 0
		return
	}
	c.failed++
	if text := err.Error(); text != c.last || now.Sub(c.told) >= time.Minute {
		c.log.Error().Err(err).Str("task", c.what).Int("failures", c.failed).Msg("failed")
		c.last, c.told = text, now
	}
}
