package main

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/fault"
)

// newLog returns the daemon's log on standard error. Format is console, json,
// or empty for console on a terminal and json elsewhere.
func newLog(w *os.File, level, format string) (zerolog.Logger, error) {
	lv, err := parseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	zerolog.SetGlobalLevel(lv) // it may change while the daemon runs
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	var out io.Writer = w
	switch {
	case format == "console", format == "" && isTerminal(w):
		out = zerolog.ConsoleWriter{Out: w, NoColor: !isTerminal(w), TimeFormat: "15:04:05.000"}
	case format != "json" && format != "":
		return zerolog.Nop(), fault.Usagef("log format %.40q is neither json nor console", format)
	}
	return zerolog.New(out).With().Timestamp().Logger(), nil
}

func parseLevel(text string) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(strings.ToLower(text))
	if err != nil || text == "" {
		return level, fault.Usagef("log level %.40q is none of debug, info, warn, error, disabled", text)
	}
	return level, nil
}
