package publisher

import (
	"context"
	"time"
)

// Between two Ticks thousands of changes may come, and the next reader of an open Change
// List waits until all of them are in it. While somebody reads one, the lists are kept up
// to date, and each reader waits for few. Without readers the changes wait for the Tick:
// many at once cost less each.
const (
	keptFor   = 2 * time.Second       // after the last reading of an open list
	keptEach  = 20 * time.Millisecond // from one look to the next, at least
	keptShare = 8                     // looks take an eighth of the time, at most
)

// reading is the wish of a reader of an open list; see KeepUp.
func (p *Publisher) reading() {
	select {
	case p.read <- struct{}{}:
	default: // it is known
	}
}

// KeepUp keeps the lists up to date while open Change Lists are read, until ctx ends. An
// error of a list is left to the next Tick.
func (p *Publisher) KeepUp(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.read:
		}
		for end := time.Now().Add(keptFor); time.Now().Before(end); {
			began := time.Now()
			_ = p.catchUp(false)
			pause.Reset(max(keptEach, (keptShare-1)*time.Since(began)))
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			select {
			case <-p.read:
				end = time.Now().Add(keptFor)
			default:
			}
		}
	}
}
