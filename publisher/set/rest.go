package set

import (
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// State is how far the publishing of a set is.
type State struct {
	Queue    string
	Set      names.Set
	Event    job.Seq       // last event of the queue
	Read     job.Seq       // last event in the lists; a request brings them up to date
	Lag      time.Duration // between these two; 0 if they are one
	Open     int           // entries of the open Change List
	Lists    int           // closed Change Lists
	Waiting  int           // closed Change Lists without packages
	Packages int           // of Change Dumps
	Dumps    int           // Resource Dumps
	Octets   int64         // bytes of lists, packages and dumps
	Lost     int           // damaged files that were set aside since the set was opened
	Left     int           // files that packages of changes lack: they were gone when these were made
	Err      error         // why the last package or dump was not made; nil if it was
}

// Resting returns the state of a set of a queue at rest.
func Resting(l *Line) State {
	return State{Queue: l.Queue, Set: l.Set, Event: l.Open.Read, Read: l.Open.Read, Open: l.Open.Entries,
		Lists: l.Files.Lists, Packages: l.Files.Packages, Dumps: l.Files.Dumps, Octets: l.Files.Octets + l.Open.Length, Left: l.Files.Left}
}

// State returns the state of the set; now is that of its queue.
func (s *Set) State(now *ledger.State) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{Queue: s.Queue.ID(), Set: s.Kind, Event: now.Seq, Read: min(s.at.Read, now.Seq),
		Open: s.at.Entries, Lists: len(s.files.Lists), Waiting: len(s.unpacked()), Packages: len(s.files.Packages), Dumps: len(s.files.Dumps),
		Octets: s.files.Octets() + s.at.Length, Left: s.files.Left(), Lost: s.lost, Err: s.made.failure()}
	if st.Read < st.Event {
		st.Lag = max(0, now.LastEvent.Sub(s.at.Until))
	}
	return st
}

// Line returns how far the set is.
func (s *Set) Line() Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line()
}

func (s *Set) line() Line {
	l := Line{Queue: s.Queue.ID(), Set: s.Kind, Open: s.at, SHA256: s.text.Word(), List: Last(s.files.Lists).Last, Package: Last(s.files.Packages).Last,
		Files: Files{Lists: len(s.files.Lists), Packages: len(s.files.Packages), Dumps: len(s.files.Dumps), Octets: s.files.Octets(), Left: s.files.Left()}}
	if one := s.files.Dump(0); one != nil {
		l.Dump = one.Seq
	}
	return l
}

// Rest returns the line of the set, and when it has work without another event, zero:
// never. It is not ok if the set has not read all events up to seq, or has work that is
// known in memory alone.
func (s *Set) Rest(seq job.Seq, now time.Time) (line Line, due time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Read != seq || !s.rests(now) {
		return line, due, false
	}
	return s.line(), s.nextWork(now), true
}

// rests reports whether the files of the set and its line tell everything of it. mu is held.
func (s *Set) rests(now time.Time) bool {
	m := &s.made
	ahead := s.Terms().Period > 0 && s.at.Since.After(now) // its age is known here alone
	_, more := s.uncompressed()
	return !ahead && len(s.unpacked()) == 0 && !more && !m.dumping && m.wanted == 0 && m.failure() == nil
}

// nextWork returns when the set has work without another event; zero: never. mu is
// held.
func (s *Set) nextWork(now time.Time) (due time.Time) {
	due = s.Closing(&s.at, len(s.files.Lists), s.Since())
	terms := s.Terms()
	last := s.files.Dump(0)
	switch {
	case s.due() || s.made.unswept:
		due = Sooner(due, now)
	case terms.DumpPeriod > 0 && last != nil && s.outdated(last):
		due = Sooner(due, last.Made.Add(terms.DumpPeriod))
	}
	if terms.Keep == 0 {
		return due
	}
	// Of documents that are too old by now none can go without other work.
	expire := func(t time.Time) {
		if t = t.Add(terms.Keep); t.After(now) {
			due = Sooner(due, t.Add(time.Nanosecond))
		}
	}
	for _, one := range s.files.Dumps {
		expire(one.Made)
	}
	for i := range s.files.Lists {
		expire(s.files.Lists[i].Until)
	}
	return due
}

// Sooner returns the earlier time; a zero one is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// An open Change List with entries closes by age: when it is as old as its set was when it
// began, after leastAge at the earliest and after the period of the Source at the latest.
// So a new set has its first package after a minute, and an old one has 24 a day.
const leastAge = time.Minute

// Closing returns when an open list is to be closed for its age; zero: never. lists is how
// many closed lists the set has, since when it began.
func (s *Source) Closing(l *OpenList, lists int, since time.Time) time.Time {
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
	first job.Seq
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
