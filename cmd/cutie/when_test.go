package main

import (
	"testing"
	"time"
)

func TestTimesToCome(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	local := func(h, m, s int) time.Time { return time.Date(2026, 11, 25, h, m, s, 0, time.Local) }
	for s, want := range map[string]time.Time{
		"":                          {},
		"2026-11-25T08:00:00Z":      time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC),
		"2026-11-25T08:00:00+02:00": time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC),
		"2026-11-25T08:00:00.5Z":    time.Date(2026, 11, 25, 8, 0, 0, 5e8, time.UTC),
		"2026-11-25T08:00Z":         time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC),
		"2026-11-25":                local(0, 0, 0),
		"2026-11-25T08:30":          local(8, 30, 0),
		"2026-11-25 08:30:15":       local(8, 30, 15),
		"90m":                       now.Add(90 * time.Minute),
		"7d":                        now.Add(7 * 24 * time.Hour),
	} {
		if got, err := parseWhen("until", s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"soon", "5", "-5m", "0s", "0d", "-1d", "99999d", "25.11.2026", "2026-13-01"} {
		if got, err := parseWhen("until", s, now); err == nil {
			t.Errorf("%q: got %v", s, got)
		}
	}
}
