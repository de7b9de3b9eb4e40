package main

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
)

// A waiting is the option --wait. Its number may stand in an argument of its own, as
// with other options, although it may be missing.
type waiting struct {
	text  string
	flags *pflag.FlagSet
	at    int // how many arguments stand before the option
}

// endless is --wait without a number.
const endless = "forever"

func (w *waiting) String() string { return w.text }
func (w *waiting) Type() string   { return "string" }

func (w *waiting) Set(s string) error {
	w.text, w.at = s, w.flags.NArg()
	return nil
}

// split returns the arguments without the number after --wait, and the number. A lone
// argument is the queue.
func (w *waiting) split(args []string) (rest []string, text string) {
	if w.text != endless || len(args) < 2 || w.at >= len(args) {
		return args, w.text
	}
	if _, err := parseSeconds(args[w.at]); err != nil {
		return args, w.text
	}
	return slices.Delete(slices.Clone(args), w.at, w.at+1), args[w.at]
}

// forever is the wait without an end.
const forever = time.Duration(1<<63 - 1)

func parseWait(s string) (time.Duration, error) {
	switch s {
	case "":
		return 0, nil
	case endless:
		return forever, nil
	}
	d, err := parseSeconds(s)
	if err != nil || d < 0 {
		return 0, fault.Usagef("--wait=%.40s: not a number of seconds", s)
	}
	return d, nil
}
