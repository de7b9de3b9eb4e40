package daemon

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestTheLogSaysWhatIsOddAboutTheClock(t *testing.T) {
	var log bytes.Buffer
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	c := &clock{log: zerolog.New(&log), begun: at, latest: at.Add(time.Hour)}
	var passed time.Duration
	for _, tt := range []struct {
		clock, passed time.Duration
		want          string
	}{
		{0, 0, "the clock is behind"}, // an event is dated an hour later
		{30 * time.Minute, 30 * time.Minute, ""},
		{29 * time.Minute, 29 * time.Minute, ""},
		{2 * time.Minute, 2 * time.Minute, "the clock has caught up"},
		{time.Second, time.Second, ""},
		{-30 * time.Second, time.Second, ""},
		{-10 * time.Minute, time.Second, "the clock is behind"},
		{time.Second, time.Second, ""},
		{time.Hour, time.Hour, "the clock has caught up"},
		{time.Hour, time.Second, "the clock was set ahead"},
		{time.Second, time.Second, ""},
	} {
		log.Reset()
		at, passed = at.Add(tt.clock), passed+tt.passed
		c.look(at, passed)
		if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("after %v: got %q, want %q", tt.clock, got, tt.want)
		}
	}
}
