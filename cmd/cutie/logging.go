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

// A changeLog logs a failure that recurs on every tick once, and its end.
type changeLog struct {
	log  zerolog.Logger
	what string
	last string
}

// note takes the outcome of one tick.
func (c *changeLog) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.last:
		return
	case text == "":
		c.log.Info().Str("task", c.what).Msg("works again")
	default:
		c.log.Error().Err(err).Str("task", c.what).Msg("failed")
	}
	c.last = text
}
