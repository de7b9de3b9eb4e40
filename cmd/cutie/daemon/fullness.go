package daemon

import (
	"time"

	"github.com/rs/zerolog"
)

// A fullness logs once that the disk is full, and once that it is not any more: there was
// free space for a while.
type fullness struct {
	log   zerolog.Logger
	since time.Time // full since then; zero: it is not
	last  time.Time // it was full
}

// look notes whether the disk is full at a time.
func (f *fullness) look(full bool, now time.Time) {
	switch {
	case full && f.since.IsZero():
		f.since = now
		f.log.Error().Str("cure", "make space, such as with cutie cull: cutie help operating").Msg("the disk is full: submissions and results are refused")
	case !full && !f.since.IsZero() && now.Sub(f.last) >= settled:
		f.log.Info().Dur("ms", f.last.Sub(f.since)).Msg("the disk has free space again")
		f.since = time.Time{}
	}
	if full {
		f.last = now
	}
}
