package destination

import (
	"context"
	"fmt"
	"sync"

	"cutie/publisher/destination/source"
)

// What cannot be read of a Source, be it an entry, a list or a set, is named and passed over,
// and all else is copied. As long as there is such a thing no file is removed for not being
// listed, and the copy does not equal its Source. The next run reads it again.

// maxNamed is how many things a run names that it passes over.
const maxNamed = 100

// skips are the things passed over in a run.
type skips struct {
	closed []error // sets that could not be opened

	mu    sync.Mutex
	named map[string]bool
}

// find finds the Source.
func (c *Copy) find(ctx context.Context) (err error) {
	if c.source, err = source.Find(ctx, c.client, c.o.URL); err != nil {
		return err
	}
	c.source.Skip = c.skip
	return nil
}

// newSkips begins a run. Sets that could not be opened are passed over in it.
func (c *Copy) newSkips() {
	c.skips.mu.Lock()
	c.skips.named = map[string]bool{}
	c.skips.mu.Unlock()
	for _, err := range c.skips.closed {
		c.skip(source.Skip{Err: err})
	}
}

// skip names something that is passed over, once a run.
func (c *Copy) skip(s source.Skip) {
	text := "skipped: " + s.Err.Error()
	if s.Optional {
		text = s.Err.Error() + ": it counts as absent"
	} else {
		c.counts.Skipped.Add(1)
	}
	c.skips.mu.Lock()
	n := len(c.skips.named)
	known := c.skips.named[text] || n > maxNamed
	if !known {
		c.skips.named[text] = true
	}
	c.skips.mu.Unlock()
	switch {
	case known:
	case n == maxNamed:
		c.o.Tell("more was skipped, and is not named")
	default:
		c.o.Tell(text)
	}
}

// skipSet passes over a set.
func (c *Copy) skipSet(set *source.Set, err error) {
	c.skip(source.Skip{Err: fmt.Errorf("set %s: %w", set.Name, err)})
}
