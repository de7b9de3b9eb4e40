package main

import (
	"strconv"
	"strings"
	"time"

	"cutie/cmd/cutie/fault"
)

// whenLayouts are the forms of a time by the clock here.
var whenLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// parseWhen reads the time of an option, the zero time if it is empty: RFC 3339, a
// date with or without a time by the clock here, or a time from now, in days too.
func parseWhen(option, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	for _, layout := range whenLayouts {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 100*366 {
			return now.Add(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fault.Usagef("--%s %.40q is neither a time such as 2026-11-25T08:00 nor one from now such as 90m or 7d", option, s)
}
