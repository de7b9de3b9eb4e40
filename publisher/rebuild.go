package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Rebuild makes everything published anew, from the directory of the home and
// its journal: resourcesync is moved to a free name beside it, which is
// returned, "" if there was nothing. The Change Lists begin as far back as the
// journal reaches; where that is to the first event, or to the first of a list
// there was, they get the octets that they had. [New] then opens what is made,
// and its Ticks make the packages. There must be no [Publisher].
func Rebuild[Q Queue](svc Service[Q], o Options) (aside string, err error) {
	opts, err := o.complete()
	if err != nil {
		return "", fmt.Errorf("publisher: %w", err)
	}
	e := adapt(svc)
	home, err := durable.OpenDir(e.dir, o.Fault)
	if err != nil {
		return "", fmt.Errorf("publisher: %w", err)
	}
	defer home.Close()
	if aside, err = setAside(home, rootName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("publisher: %w", err)
	}
	// A crash before the cursor is there leaves lists that begin later.
	if err := beginCursor(home, e, opts.stamp()); err != nil {
		return aside, fmt.Errorf("publisher: %w", err)
	}
	return aside, nil
}

// beginCursor writes the cursor of a publisher that has read nothing yet.
func beginCursor(home *durable.Dir, e engine, base site) error {
	root, err := home.MakeSub(rootName)
	if err != nil {
		return err
	}
	defer root.Close()
	queues := e.queues()
	marks := make([]mark, len(queues))
	for i, q := range queues {
		if marks[i], err = earliest(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return sealed(root, cursorFile, cursorTitle).Write(printCursor(base, len(queues), func(i int, _ Set) (string, mark) {
		return queues[i].ID(), marks[i]
	}))
}

// earliest returns the mark from which on the journal has the events.
func earliest(q Queue) (mark, error) {
	f := subject{q: q}
	before := q.State().Before // what came up to it is of former queues of the name
	lo, hi := before, q.Seq()  // after hi there is nothing to miss
	for lo < hi {
		mid := lo + (hi-lo)/2
		_, err := q.Events(mid, 1)
		switch {
		case err == nil:
			hi = mid
		case errors.Is(err, queuefs.ErrGone):
			lo = mid + 1
		default:
			return mark{}, err
		}
	}
	if lo == before {
		return beginning(before, f.created()), nil
	}
	if lo == q.Seq() {
		return f.markNow(), nil
	}
	events, err := q.Events(lo, 1)
	if err != nil || len(events) == 0 {
		return f.markNow(), err
	}
	// When the event before came is no longer known; it was before this one.
	return beginning(lo, events[0].Time.Add(-time.Microsecond)), nil
}
