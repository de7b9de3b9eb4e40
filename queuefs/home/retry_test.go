package home_test

import (
	"testing"
	"time"

	"cutie/queuefs/home"
)

func TestWaitsGrowToTheLongest(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		info           home.QueueInfo
		attempt        int
		failed, lapsed time.Duration
	}{
		{home.QueueInfo{}, 1, 10 * s, 0},
		{home.QueueInfo{}, 3, 40 * s, 0},
		{home.QueueInfo{}, 1 << 30, time.Hour, 0},
		{home.QueueInfo{RetryDelay: s}, 1, s, s},
		{home.QueueInfo{RetryDelay: s}, 4, 8 * s, 8 * s},
		{home.QueueInfo{RetryDelay: s, RetryFactor: 1}, 1 << 30, s, s},
		{home.QueueInfo{RetryDelay: 2 * s, RetryFactor: 3, RetryMax: 60 * s}, 3, 18 * s, 18 * s},
		{home.QueueInfo{RetryDelay: 2 * s, RetryFactor: 3, RetryMax: 60 * s}, 5, 60 * s, 60 * s},
		{home.QueueInfo{RetryDelay: 2 * time.Hour}, 1, time.Hour, time.Hour},
		{home.QueueInfo{RetryDelay: home.MaxLease, RetryFactor: 100, RetryMax: home.MaxLease}, 9, home.MaxLease, home.MaxLease},
	} {
		if got := [2]time.Duration{c.info.RetryFailed(c.attempt), c.info.RetryLapsed(c.attempt)}; got != [2]time.Duration{c.failed, c.lapsed} {
			t.Errorf("%+v, attempt %d: got %v want %v and %v", c.info, c.attempt, got, c.failed, c.lapsed)
		}
	}
}
