package uws

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"time"

	"cutie/queuefs/anvl"
)

// settings are the settings of a queue for UWS, elements of its queue-info.txt:
//
//	uwsVersion               1.1, or 1.0: no attribute or element of 1.1
//	uwsJdl                   form: parameters are fields, payload is the form or the files;
//	                         payload: the body is one opaque parameter
//	uwsExecutionDuration     seconds a job may run unless its client asks otherwise; 0, the default: no limit
//	uwsMaxExecutionDuration  seconds, the most for a client to ask; 0, the default: no limit
//	uwsDestruction           hours between creation and destruction unless the client asks otherwise; 0: never.
//	                         The default is the culling age of the queue, or 720. For jobs made here only
//	uwsMaxDestruction        hours, the most for a client to ask; 0, the default: see limits
//	limits                   of each user, such as pending=100,active=1000,upload=1000000000,run=3600,life=720:
//	                         jobs PENDING, jobs QUEUED or EXECUTING, bytes of the payloads of both, seconds
//	                         and hours in the place of uwsMaxExecutionDuration and uwsMaxDestruction;
//	                         0: no limit. The default is pending=1000,active=10000,upload=68719476736 of
//	                         jobs made here, and for the destruction a year after the creation, or
//	                         uwsDestruction if that is more or 0
//	uwsArchive               true: jobs are archived in their time, not destroyed
//	uwsQuote                 seconds a job is expected to take until some have ended
type settings struct {
	old         bool // version 1.0
	opaque      bool // JDL payload
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

// known is the last queue-info.txt.
type known struct {
	mu   sync.Mutex
	text []byte
	age  int64 // hours, CullingAge of the queue
	set  settings
	err  error // of the text; set is from the last good text
	good bool  // there was one
}

// settings returns the settings of the last good queue-info.txt, if there is
// one (usable), and the error of the present one.
func (l *jobList) settings() (set settings, usable bool, err error) {
	text, _ := l.q.InfoFile()
	age := l.q.Info().CullingAge
	k := &l.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text == nil || k.age != age || !bytes.Equal(k.text, text) {
		set, err := parseSettings(text, age)
		if err == nil {
			k.set, k.good = set, true
		} else {
			err = fmt.Errorf("queue-info.txt of %s: %w", l.q.ID(), err)
		}
		k.text, k.age, k.err = text, age, err
	}
	return k.set, k.good, k.err
}

// parseSettings reads a property file. The culling age of the queue, in hours,
// is the default for uwsDestruction.
func parseSettings(text []byte, cullingAge int64) (settings, error) {
	rec, err := anvl.ParseRecord(text)
	if err != nil {
		return settings{}, err
	}
	word := func(name, usual, other string) (is bool) {
		switch v := rec.Value(name); {
		case v == other:
			return true
		case v != "" && v != usual && err == nil:
			err = fmt.Errorf("%s is %.40q, neither %s nor %s", name, v, usual, other)
		}
		return false
	}
	number := func(name string, most, absent int64) int64 {
		v := rec.Value(name)
		if v == "" {
			return absent
		}
		n, e := strconv.ParseInt(v, 10, 64)
		if (e != nil || n < 0 || n > most) && err == nil {
			err = fmt.Errorf("%s is %.40q, not a number from 0 to %d", name, v, most)
		}
		return n
	}
	const hours = 1_000_000 // 114 years
	usual := int64(defaultLife)
	if cullingAge > 0 {
		usual = min(cullingAge, hours)
	}
	s := settings{
		old:         word("uwsVersion", "1.1", "1.0"),
		opaque:      word("uwsJdl", "form", "payload"),
		archive:     word("uwsArchive", "false", "true"),
		duration:    number("uwsExecutionDuration", maxInt, 0),
		maxDuration: number("uwsMaxExecutionDuration", maxInt, 0),
		life:        time.Duration(number("uwsDestruction", hours, usual)) * time.Hour,
		maxLife:     time.Duration(number("uwsMaxDestruction", hours, 0)) * time.Hour,
		takes:       time.Duration(number("uwsQuote", maxInt, 0)) * time.Second,
	}
	if s.old && s.archive && err == nil {
		err = fmt.Errorf("uwsArchive is true, and version 1.0 has no phase for it")
	}
	s.clamp()
	return s, err
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
