package uws

import (
	"strconv"
	"strings"
	"time"
)

// A control is a request about the job itself (UWS 1.1, 2.2.3), apart from its
// parameters.
type control struct {
	run, abort, delete bool
	runID              *string
	duration           *int64
	destruction        *time.Time
}

// takeControl takes the control parameters out of params. ACTION is one only
// for a job in the list.
func takeControl(params []pair, exists bool) (c control, rest []pair, err error) {
	for _, p := range params {
		value := strings.TrimSpace(p.value)
		switch name := strings.ToUpper(p.name); {
		case name == "PHASE":
			switch strings.ToUpper(value) {
			case "RUN":
				c.run = true
			case "ABORT":
				c.abort = true
			default:
				return c, nil, bad("PHASE is %.40q, neither RUN nor ABORT", value)
			}
		case name == "ACTION" && exists:
			if !strings.EqualFold(value, "DELETE") {
				return c, nil, bad("ACTION is %.40q, not DELETE", value)
			}
			c.delete = true
		case name == "RUNID":
			if len(p.value) > maxLabel {
				return c, nil, bad("RUNID has more than %d octets", maxLabel)
			}
			c.runID = &p.value
		case name == "EXECUTIONDURATION":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return c, nil, bad("EXECUTIONDURATION is %.40q, not a number of seconds", value)
			}
			c.duration = &n
		case name == "DESTRUCTION":
			t, err := parseTime(value)
			if err != nil {
				return c, nil, bad("DESTRUCTION: %v", err)
			}
			c.destruction = &t
		default:
			if err := checkName(p.name); err != nil {
				return c, nil, bad("%v", err)
			}
			rest = append(rest, p)
		}
	}
	if c.run && c.abort {
		return c, nil, bad("PHASE is both RUN and ABORT")
	}
	return c, rest, nil
}

// isControl reports whether name is a control parameter.
func isControl(name string) bool {
	switch strings.ToUpper(name) {
	case "PHASE", "ACTION", "RUNID", "EXECUTIONDURATION", "DESTRUCTION":
		return true
	}
	return false
}
