package serve

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
)

// newLog returns the daemon's log on standard error. Format is console, json,
// or empty for console on a terminal and json elsewhere.
func newLog(w *os.File, level, format string) (zerolog.Logger, error) {
	lv, err := zerolog.ParseLevel(strings.ToLower(level))
	if err != nil || level == "" {
		return zerolog.Nop(), fault.Usagef("log level %.40q is none of debug, info, warn, error, disabled", level)
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.DurationFieldUnit = time.Millisecond
	var out io.Writer = w
	switch {
	case format == "console", format == "" && output.Terminal(w):
		out = zerolog.ConsoleWriter{Out: w, NoColor: !output.Terminal(w), TimeFormat: "15:04:05.000"}
	case format != "json" && format != "":
		return zerolog.Nop(), fault.Usagef("log format %.40q is neither json nor console", format)
	}
	return zerolog.New(out).Level(lv).With().Timestamp().Logger(), nil
}
