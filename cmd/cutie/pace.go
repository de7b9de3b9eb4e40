package main

import (
	"strings"

	"cutie/publisher/scrub"
)

// pace is an option with the pace of reading files again.
type pace scrub.Pace

func (p *pace) Set(text string) (err error) {
	read, err := scrub.ParsePace(text)
	if err == nil {
		*p = pace(read)
	}
	return err
}

// String prints the pace, a period without its zeros.
func (p *pace) String() string {
	text := scrub.Pace(*p).String()
	if p.Period > 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "0s"), "0m")
	}
	return text
}

func (p *pace) Type() string { return "pace" }
