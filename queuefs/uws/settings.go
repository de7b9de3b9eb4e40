package uws

import (
	"errors"
	"fmt"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/quota"
	"cutie/queuefs/web"
)

// settings are the properties of a queue for UWS, see [queuefs.UWS], and its
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
		old:         u.Version == "1.0",
		opaque:      u.JDL == "payload",
		archive:     u.Archive == "true",
		duration:    u.ExecutionDuration.Or(0),
		maxDuration: u.MaxExecutionDuration.Or(0),
		life:        time.Duration(u.Destruction.Or(usual)) * time.Hour,
		maxLife:     time.Duration(u.MaxDestruction.Or(0)) * time.Hour,
		takes:       time.Duration(u.Quote.Or(0)) * time.Second,
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

// usual are the limits of a user in a queue if neither the user nor the queue has others.
// Jobs submitted by other ways do not count for them. A destruction is not later than a
// year after the creation then, unless the queue keeps jobs longer by itself.
var usual = queuefs.Limits{Pending: 1000, Active: 10_000, Upload: 64 << 30}

const usualLife = 8760 * time.Hour

// within returns the settings with the limits of a user in the place of those of
// the queue.
func (s settings) within(l queuefs.Limits) settings {
	if l.Run != 0 {
		s.maxDuration = max(l.Run, 0)
	}
	switch {
	case l.Life != 0:
		s.maxLife = time.Duration(max(l.Life, 0)) * time.Hour
	case s.maxLife == 0 && s.life > 0:
		s.maxLife = max(usualLife, s.life)
	}
	s.clamp()
	return s
}

// admit claims what a user asks for, or rejects the request with 403 (UWS 1.1,
// 2.2.3.1).
func (h *Handler) admit(r *request, owner string, ask quota.Use) (done func(), err error) {
	done, err = h.o.Quota.Admit(r.q, owner, r.limits, usual, ask)
	if e, ok := errors.AsType[*web.Error](err); ok {
		err = forbidden("%s", e.Message)
	}
	return done, err
}

// bytes returns the size of the payload that a job will have, about.
func (f *filled) bytes(params []pair) (n int64) {
	for _, u := range f.uploads {
		n += u.draft.Size()
	}
	if len(f.uploads) == 0 {
		n = int64(len(formatForm(params)))
	}
	return n
}

// limitsInWords returns the limits of the caller for a page.
func (h *Handler) limitsInWords(r *request) (words []string, err error) {
	use, err := h.o.Quota.Use(r.q, r.caller.Name, r.limits)
	if err != nil {
		return nil, err
	}
	granted, limits := r.set.within(r.limits), r.limits.Over(usual)
	for _, one := range []struct {
		has, most int64
		what      string
	}{
		{use.Pending, limits.Pending, "jobs PENDING"},
		{use.Active, limits.Active, "jobs QUEUED or EXECUTING"},
		{use.Upload, limits.Upload, "octets in all of them"},
	} {
		if one.most > 0 {
			words = append(words, fmt.Sprintf("%d of %d %s", one.has, one.most, one.what))
		}
	}
	if granted.maxDuration > 0 {
		words = append(words, fmt.Sprintf("%d seconds of execution", granted.maxDuration))
	}
	if granted.maxLife > 0 {
		words = append(words, fmt.Sprintf("%.0f hours until destruction", granted.maxLife.Hours()))
	}
	return words, nil
}
