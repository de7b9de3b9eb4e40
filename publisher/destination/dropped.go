package destination

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/publisher/destination/source"
)

// dropSets forgets sets removed at the Source: its description does not name them, and
// their Capability List is gone for good (410). With a queue of a daemon its files go; its
// last deletions may be in no list any more. A set only not found may be lost, and the
// copy is all there is of it: its files stay.
func (c *Copy) dropSets(ctx context.Context) error {
	for name, s := range c.state.Sets {
		if s.URI == "" || slices.Contains(c.source.Sets, s.URI) {
			continue
		}
		_, err := c.source.Open(ctx, s.URI)
		if !source.IsGone(err) {
			continue
		}
		if source.Status(err) != http.StatusGone {
			c.o.Tell(fmt.Sprintf("set %s is not there any more; its files stay", name))
			continue
		}
		queue, whole := strings.CutSuffix(name, "/replica")
		if whole && c.o.Delete != DeleteNever {
			if err := c.dropQueue(queue); err != nil {
				return err
			}
		}
		if c.o.DryRun {
			continue
		}
		c.o.Tell(fmt.Sprintf("set %s was removed at the Source", name))
		c.mu.Lock()
		delete(c.state.Sets, name)
		c.mu.Unlock()
	}
	return nil
}

// dropQueue removes the files of a queue.
func (c *Copy) dropQueue(queue string) error {
	below, err := c.dir.Path(c.source.Base + "queues/" + queue + "/x")
	if err != nil {
		return nil // it has none
	}
	below = strings.TrimSuffix(below, "x")
	var gone []string
	err = c.dir.Walk(func(file string, _ int64, _ time.Time) error {
		if strings.HasPrefix(file, below) {
			gone = append(gone, file)
		}
		return nil
	})
	for _, file := range gone {
		if err != nil {
			break
		}
		if c.counts.Deleted.Add(1); !c.o.DryRun {
			err = c.dir.Remove(file)
		}
	}
	return err
}
