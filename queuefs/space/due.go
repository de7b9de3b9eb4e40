package space

import "time"

// In calm the files follow the journal within a second. In a burst they wait, up to
// the bound of [Space.Lagging]. From there on files are written in the background, oldest
// first, and every change writes as many as it causes, unless they are few; at twice the
// bound submissions wait.
const (
	CalmRate = 1 << 20          // bytes of journal a second, below which it is calm
	fewJobs  = 5000             // whose files a burst does not notice
	calmAge  = 30 * time.Second // between checkpoints in calm, or with few files to write,
	calmSize = 256 << 20        // or so many bytes of journal
)

// A seen is the journal at one instant.
type seen struct {
	at      time.Time
	written int64 // bytes
}

// Due reports whether a checkpoint is due, whether it is calm since the last call, and
// the bytes of journal written. last is the time of the last checkpoint. One caller at a
// time calls it.
func (s *Space) Due(now, last time.Time) (due, calm bool, written int64) {
	log, was := s.Shared.Journal.Stats(), s.seen
	elapsed := now.Sub(was.at).Seconds()
	calm = elapsed <= 0 || float64(log.Written-was.written)/elapsed < CalmRate
	s.seen = seen{now, log.Written}
	age := now.Sub(last)
	light := calm || s.Shared.Behind.Load() <= fewJobs
	due = s.Lagging()
	if s.Behind() > 0 {
		short := log.Short && age >= time.Second // released segments are the next ones
		due = due || short || age < 0 || age >= MaxAge || light && (age >= calmAge || s.Behind() >= calmSize)
	}
	s.Keep()
	return due, calm, log.Written
}
