package main

import (
	"testing"
	"time"
)

func TestExpires(t *testing.T) {
	now := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	for text, want := range map[string]string{
		"30d":        "2026-12-21T01:02:03Z",
		"12h":        "2026-11-21T13:02:03Z",
		"1h30m":      "2026-11-21T02:32:03Z",
		"2026-11-22": "2026-11-22T00:00:00Z",
		"never":      "0001-01-01T00:00:00Z",
	} {
		if at, err := parseExpires(text, now); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: got %v, %v, want %s", text, at, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "0d", "-3h", "100000000d", "2026-11-21", "2026-13-01", "tomorrow"} {
		if at, err := parseExpires(text, now); err == nil {
			t.Errorf("%q: got %v, want an error", text, at)
		}
	}
}
