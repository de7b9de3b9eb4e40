package set

import (
	"time"

	"cutie/publisher/store"
	"cutie/queuefs"
)

// An open Change List with entries closes by age: when it is as old as its set was when it
// began, after leastAge at the earliest and after the period of the Source at the latest.
// So a new set has its first package after a minute, and an old one has 24 a day.
const leastAge = time.Minute

// Closing returns when an open list is to be closed for its age; zero: never. lists is how
// many closed lists the set has, since when it began.
func (s *Source) Closing(l *store.OpenList, lists int, since time.Time) time.Time {
	if s.Terms().Period == 0 || l.Entries == 0 {
		return time.Time{}
	}
	return l.Since.Add(s.mayStay(l.Since, lists, since))
}

// mayStay returns for how long a list that began at some time may stay open. The first
// list of a set is that of a new one, for however long its queue had no events. A set that
// began later than its list is an old one: the clock was ahead.
func (s *Source) mayStay(began time.Time, lists int, since time.Time) time.Duration {
	period := s.Terms().Period
	age := began.Sub(since)
	switch {
	case lists == 0:
		age = 0
	case age < 0:
		age = period
	}
	return min(period, max(age, leastAge))
}

// A beginning is when the open list from event first on got its first entry.
type beginning struct {
	first queuefs.Seq
	at    time.Time // by the clock of this process
}

// Due returns since when the open list is too old; false if it is not. Dates of events do
// not count: after a clock that was ahead they lie in the future.
func (s *Set) Due(now time.Time) (at time.Time, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Terms().Period == 0 || s.at.Entries == 0 {
		return at, false
	}
	began := &s.made.began
	if began.first != s.at.First {
		*began = beginning{s.at.First, now.Add(-max(0, now.Sub(s.at.Since)))}
	}
	if now.Before(began.at) {
		began.at = now // the clock was set back
	}
	at = began.at.Add(s.mayStay(began.at, len(s.files.Lists), s.Since()))
	return at, !now.Before(at)
}
