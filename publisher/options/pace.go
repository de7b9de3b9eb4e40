package options

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Pace is how fast everything is read: Rate bytes a second, or once in each Period.
// The zero Pace is never.
type Pace struct {
	Rate   int64
	Period time.Duration
}

// String prints the pace as [ParsePace] reads it.
func (p Pace) String() string {
	switch {
	case p.Rate > 0:
		return strconv.FormatInt(p.Rate, 10)
	case p.Period > 0:
		return p.Period.String()
	}
	return "0"
}

// ParsePace reads a duration like 168h or 7d, a rate in bytes a second like 1000000,
// 500kB or 10MB, or 0 for never.
func ParsePace(s string) (p Pace, err error) {
	text := strings.TrimSuffix(s, "/s")
	unit := int64(1)
	for _, u := range []struct {
		name  string
		times int64
	}{{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = n, u.times
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= 1<<50/unit {
		return Pace{Rate: n * unit}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
			return Pace{Period: time.Duration(n) * 24 * time.Hour}, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return Pace{Period: d}, nil
	}
	return Pace{}, fmt.Errorf("%.40q is no rate such as 10MB, and no period such as 7d", s)
}
