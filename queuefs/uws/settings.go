package uws

import (
	"time"

	"cutie/queuefs"
)

// settings are the properties of a queue for UWS, see [queuefs.UWSProperties], and its
// property limits: of each user, such as pending=100,active=1000,upload=1000000000,run=3600,
// life=720: jobs PENDING, jobs QUEUED or EXECUTING, bytes of the payloads of both, seconds
// and hours in the place of uwsMaxExecutionDuration and uwsMaxDestruction; 0: no limit. The
// default is pending=1000,active=10000,upload=68719476736 of jobs made here, and for the
// destruction a year after the creation, or uwsDestruction if that is more or 0.
type settings struct {
	old         bool // version 1.0: no attribute or element of 1.1
	opaque      bool // the body is one opaque parameter
	duration    int64
	maxDuration int64
	life        time.Duration // 0: for ever
	maxLife     time.Duration // 0: no limit
	archive     bool
	takes       time.Duration // expected duration of a job; 0: unknown
}

const (
	defaultLife = 720 // hours
	maxInt      = 1<<31 - 1
)

// settingsOf returns the settings of a queue. The culling age is the default for
// uwsDestruction.
func settingsOf(info *queuefs.QueueInfo) settings {
	usual := int64(defaultLife)
	if info.CullingAge > 0 {
		usual = min(info.CullingAge, 1_000_000)
	}
	u := &info.UWS
	s := settings{
		old:         u.Is("uwsVersion"),
		opaque:      u.Is("uwsJdl"),
		archive:     u.Is("uwsArchive"),
		duration:    u.Number("uwsExecutionDuration", 0),
		maxDuration: u.Number("uwsMaxExecutionDuration", 0),
		life:        time.Duration(u.Number("uwsDestruction", usual)) * time.Hour,
		maxLife:     time.Duration(u.Number("uwsMaxDestruction", 0)) * time.Hour,
		takes:       time.Duration(u.Number("uwsQuote", 0)) * time.Second,
	}
	s.clamp()
	return s
}

// clamp limits what is granted to clients that ask for nothing.
func (s *settings) clamp() {
	s.duration = s.clampDuration(s.duration)
	if s.maxLife > 0 && (s.life == 0 || s.life > s.maxLife) {
		s.life = s.maxLife
	}
}

// clampDuration returns the seconds granted for n.
func (s *settings) clampDuration(n int64) int64 {
	if s.maxDuration > 0 && (n == 0 || n > s.maxDuration) {
		return s.maxDuration
	}
	return min(n, maxInt)
}

// shortLife is granted for a destruction in the past: time to see the effect.
const shortLife = time.Minute

// clampDestruction returns the destruction granted for t.
func (s *settings) clampDestruction(t, created, now time.Time) time.Time {
	if s.maxLife > 0 && t.After(created.Add(s.maxLife)) {
		t = created.Add(s.maxLife)
	}
	if !t.After(now) {
		t = now.Add(shortLife)
	}
	return stamp(t)
}
