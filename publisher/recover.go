package publisher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// openFeed opens the lists of a queue. marks are its lines in the cursor, nil
// if it has none.
func (p *Publisher) openFeed(q Queue, marks []mark) (*feed, error) {
	f := &feed{p: p, q: q, names: p.site.queue(q.ID())}
	f.render = f.renderer()
	f.born = fmt.Sprintf("-%x", q.State().Info.Created.UnixMicro())
	for s := range f.sets {
		set := Set(s)
		f.bounds[s] = f.render.bound(set)
		f.pages[s] = f.pagesOf(set)
		c := &f.sets[s]
		c.set = set
		c.lists.file, c.packages.file = "lists", "packages"
		var m *mark
		if len(marks) == numSets {
			m = &marks[s]
		}
		if err := f.restore(c, m); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	// A gap is to be found now, when it ends with what is there already.
	if _, err := q.Events(f.read(), 1); errors.Is(err, queuefs.ErrGone) {
		if err := f.skip(); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return f, nil
}

// restore brings the lists of a set to where they stood: after the last
// closed list, or within the open one as the cursor has it.
func (f *feed) restore(c *changes, m *mark) error {
	c.mark = beginning(f.q.State().Before, f.orCreated(time.Time{}))

	d, err := f.dir(c.set, false)
	if err == nil {
		defer d.Close()
		err = errors.Join(c.lists.read(d, f.p.stamp()), c.packages.read(d, f.p.stamp()))
		if err == nil && max(c.lists.last(), c.packages.last()) > f.q.Seq() {
			err = damage{fmt.Errorf("lists reach to event %d, the queue to %d", max(c.lists.last(), c.packages.last()), f.q.Seq())}
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return f.mend(c, err)
	}
	if d != nil {
		if c.kept, err = f.readDumps(d, c.set); err != nil {
			return f.mend(c, err)
		}
		c.unswept = true
	}
	c.dumped = c.packages.last()
	if n := len(c.lists.all); n > 0 {
		last := c.lists.all[n-1]
		c.mark = beginning(last.last, last.until)
	}
	if m == nil || m.first < c.mark.first || m.from.Before(c.mark.from) {
		return nil // the cursor speaks of a list that was closed since, or of a former queue of the name
	}
	if m.seq > f.q.Seq() {
		return f.restart(c, damage{fmt.Errorf("cursor is at event %d, the queue at %d", m.seq, f.q.Seq())})
	}
	if m.entries > 0 {
		if err := f.check(d, m); err != nil {
			return f.mend(c, err)
		}
	}
	c.mark = *m
	return nil
}

// check tells whether the file of an open list has what the cursor says.
func (f *feed) check(d *durable.Dir, m *mark) error {
	if d == nil {
		return fmt.Errorf("%s: %w", entriesFile(m.first), fs.ErrNotExist)
	}
	file, err := d.Open(entriesFile(m.first))
	if err != nil {
		return err
	}
	defer file.Close()
	const end = "</url>\n"
	var got [len(end)]byte
	if _, err := file.ReadAt(got[:], m.length-int64(len(end))); err != nil && err != io.EOF {
		return err
	}
	if string(got[:]) != end {
		return damage{fmt.Errorf("%s: no entry ends at octet %d", entriesFile(m.first), m.length)}
	}
	return nil
}

// now returns the mark of a list that begins after the last event.
func (f *feed) now() mark {
	st := f.q.State()
	return beginning(st.Seq, f.orCreated(st.LastEvent))
}

// skip leaves a gap where events are gone: the open lists are closed where
// they end, and new ones begin after the last event. f.mu is held.
func (f *feed) skip() error {
	next := f.now()
	for s := range f.sets {
		c := &f.sets[s]
		if c.mark.seq >= next.seq {
			continue
		}
		f.p.report(f.q.ID()+"/"+c.set.String(), "events %d to %d are gone; a new Change List begins", c.mark.seq+1, next.seq)
		if c.mark.entries > 0 {
			if err := f.mend(c, f.close(c)); err != nil {
				return err
			}
		}
		c.mark = next
	}
	return nil
}

var _ queuefs.Follower = (*Publisher)(nil)
