package queuefs_test

import (
	"errors"
	"testing"

	"cutie/queuefs"
)

func (c *scenario) cull(name string) {
	if c.over {
		return
	}
	after := c.known.clone()
	for id, f := range after[name].byID {
		if f.status != queuefs.Pending {
			delete(after[name].byID, id)
		}
	}
	c.do("cull", after, func() error {
		if _, err := c.s.SetQueue(ctx, name, set(func(i *queuefs.QueueInfo) { i.CullingSize, i.CullingAge = 0, 0 })); err != nil {
			return err
		}
		for _, err := range c.s.Cull(ctx, queuefs.CullOptions{Queue: name}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *scenario) remove(name string) {
	if c.over {
		return
	}
	after := c.known.clone()
	c.last = map[string]queuefs.JobID{name: after[name].last}
	delete(after, name)
	c.do("remove", after, func() error {
		err := c.s.RemoveQueue(ctx, name)
		if errors.Is(err, queuefs.ErrNoQueue) {
			return nil // it was told nothing certain before
		}
		return err
	})
}

// ends is a scenario of the ends of jobs and queues.
func (c *scenario) ends() {
	c.known = world{}
	for life := range 2 {
		if c.over {
			return
		}
		if c.open(); !c.over {
			if life == 0 {
				c.create("jobs")
				c.submit("jobs", 10, 3000, 150<<10, 5)
				c.next("jobs", 2)
				c.maintain()
				c.cull("jobs")
				c.next("jobs", 1)
				c.delete("jobs")
				c.checkpoint()
				c.cull("jobs")
				c.submit("jobs", 0)
				c.next("jobs", 1)
			} else {
				c.cull("jobs")
				c.remove("jobs")
				if _, there := c.known["jobs"]; there {
					c.remove("jobs") // what failed once works the second time
				}
				c.create("jobs")
				c.submit("jobs", 20, 30)
				c.next("jobs", 1)
			}
		}
		c.close()
	}
}

// TestEveryStepOfTheEndsFails is TestEveryStepFails for culling and removal.
func TestEveryStepOfTheEndsFails(t *testing.T) {
	failEveryStep(t, 3*stride()-2, (*scenario).ends)
}
