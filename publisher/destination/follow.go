package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// How a Source is followed.
const (
	longPoll     = 55 * time.Second // wait of one request
	leastBetween = 20 * time.Millisecond
	checkpoint   = 5 * time.Second // between two writings of the state
	maxSilence   = time.Minute     // between two tries after errors
	lookForSets  = 10 * time.Second
	lookAgain    = time.Minute // for what was passed over, at first
	mostAgain    = time.Hour
)

// Follow brings the copy up to the Source and keeps it there until ctx ends: it waits for
// changes by requests with a late answer (Prefer: wait), or looks
// every so often where the Source answers at once. Once it was brought up, errors of the Source
// are told, and tried again; after a gap in the changes it begins anew. What was passed over is
// looked for again.
func (c *Copy) Follow(ctx context.Context, every time.Duration, synced func(*Report)) error {
	pause, again, followed := time.Duration(0), time.Duration(0), false
	for {
		err := c.followSets(ctx, every, func(r *Report) time.Duration {
			pause, followed = 0, true
			synced(r)
			if again = min(max(2*again, every, lookAgain), mostAgain); r.Skipped == 0 {
				again = 0
			}
			return again
		})
		if errors.Is(err, errSets) || errors.Is(err, errAgain) {
			if err = c.choose(ctx); err == nil {
				continue
			}
		}
		if ctx.Err() != nil || fatal(err) || !followed {
			return err
		}
		c.o.Tell(err.Error())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(max(2*pause, time.Second), maxSilence)
	}
}

// followSets brings the copy up to the Source, and follows its sets. synced returns after which
// time to look again for what was passed over; 0: there is nothing.
func (c *Copy) followSets(ctx context.Context, every time.Duration, synced func(*Report) time.Duration) error {
	r, err := c.Sync(ctx)
	if err != nil {
		return err
	}
	again := synced(r)
	c.listed = nil
	if err := c.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, set := range c.sets {
		if s := c.of(set); s.Baseline { // else it was passed over
			wg.Go(func() { c.followSet(ctx, cancel, set, s, every) })
		}
	}
	wg.Go(func() { c.watchSets(ctx, cancel) })
	if again > 0 {
		t := time.AfterFunc(again, func() { cancel(errAgain) })
		defer t.Stop()
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	t := time.NewTicker(checkpoint)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := c.save(); err != nil {
				c.o.Tell(fmt.Sprintf("state: %v", err))
			}
		case <-done:
			return errors.Join(c.end(true), context.Cause(ctx))
		}
	}
}

var (
	errSets  = errors.New("the Source has other sets")
	errAgain = errors.New("it is time to look again for what was skipped")
)

// watchSets ends following when the Source gets or loses a set, unless sets were chosen.
func (c *Copy) watchSets(ctx context.Context, end context.CancelCauseFunc) {
	if len(c.o.Sets) > 0 {
		return
	}
	t := time.NewTicker(lookForSets)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now, err := source.Find(ctx, c.client, c.o.URL)
		if err == nil && now.Site == c.source.Site && !slices.Equal(now.Sets, c.source.Sets) {
			now.Base, now.Skip = c.source.Base, c.skip
			c.source = now
			end(errSets)
			return
		}
	}
}

// followSet follows one set.
func (c *Copy) followSet(ctx context.Context, end context.CancelCauseFunc, set *source.Set, s *setState, every time.Duration) {
	pause, transit := time.Duration(0), time.Duration(0)
	quick := 0 // answers without a change, not waited for, one after the other
	for ctx.Err() == nil {
		began := time.Now()
		changed := false
		wait := longPoll
		woken := c.woken() // before the request: a change during it counts
		if woken != nil {
			wait = 0
		}
		if c.inTransit(s) > 0 {
			transit = min(max(2*transit, time.Second), longPoll)
			wait = min(wait, transit)
		} else {
			transit = 0
		}
		listed := set.Documents[sitemap.ChangeList] == ""
		var err error
		if listed {
			err = c.baselineBy(ctx, set, s, ByList)
		} else {
			var n int
			n, err = c.follow(ctx, set, s, wait)
			changed = n > 0
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !listed && c.inTransit(s) > 0:
			err = c.retry(ctx, s)
		}
		if errors.Is(err, source.ErrGap) || fatal(err) {
			end(fmt.Errorf("set %s: %w", set.Name, err))
			return
		}
		if err != nil {
			c.o.Tell(fmt.Sprintf("set %s: %v", set.Name, err))
			pause = min(max(2*pause, time.Second), maxSilence)
		} else if pause = max(leastBetween-time.Since(began), 0); changed || time.Since(began) >= time.Second {
			quick = 0
		} else if quick++; listed || woken != nil || quick > 1 {
			// The Source does not wait. The first answer may be another representation
			// of the same list, with a tag to wait with.
			pause = every
		}
		if c.inTransit(s) > 0 {
			pause = max(pause, 200*time.Millisecond)
		}
		select {
		case <-woken:
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Expect says that Wake will tell of changes. Follow then holds no requests open, and
// looks every so often beside.
func (c *Copy) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushed = make(chan struct{})
}

// Wake makes Follow ask for changes now. It may be called at any time.
func (c *Copy) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pushed != nil {
		close(c.pushed)
		c.pushed = make(chan struct{})
	}
}

func (c *Copy) woken() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pushed
}

// Topics returns for each set what to subscribe to: its Change Notifications, or else its
// Change List, if that names a hub.
func (c *Copy) Topics() (all []string) {
	for _, set := range c.sets {
		if uri := cmp.Or(set.Documents[sitemap.ChangeNotification], set.Documents[sitemap.ChangeList]); uri != "" {
			all = append(all, uri)
		}
	}
	return all
}

func (c *Copy) cursor(s *setState) source.Cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.Cursor
}

func (c *Copy) inTransit(s *setState) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(s.Transit)
}
