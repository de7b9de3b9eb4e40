package publisher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// Rebuild makes everything published anew, from the directory of the home and
// its journal. It moves resourcesync to a free name beside it and returns the new
// name, "" if there was none. The Change Lists begin as far back as the journal
// reaches. A list gets the bytes it had if the journal reaches to its first
// event. [New] then opens the lists, and its Ticks make the packages. There must
// be no [Publisher] of the home.
func Rebuild[Q Queue](svc Service[Q], o Options) (aside string, err error) {
	aside, err = rebuild(adapt(svc), o)
	if err != nil {
		err = fmt.Errorf("publisher: %w", err)
	}
	return aside, err
}

func rebuild(e engine, o Options) (aside string, err error) {
	opts, err := o.Complete()
	if err != nil {
		return "", err
	}
	if aside, err = store.Clear(e.dir, o.Fault); err != nil {
		return "", err
	}
	// A crash before the cursor is written makes the lists begin later.
	st, err := opts.OpenStore(e.dir)
	if err != nil {
		return aside, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var all []store.Line
	for _, q := range e.queues() {
		open, err := earliest(q)
		if err != nil {
			return aside, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		for s := range names.Set(names.Sets) {
			all = append(all, store.Line{Queue: q.ID(), Set: s, Open: open})
		}
	}
	cursor, _, err := st.Cursor()
	if err != nil {
		return aside, err
	}
	cursor.Take(slices.Values(all))
	return aside, cursor.Write()
}

// earliest returns the list that begins where the events in the journal do.
func earliest(q Queue) (store.OpenList, error) {
	f := subject{q: q}
	before := q.State().Before // earlier events are of former queues of the name
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
			return store.OpenList{}, err
		}
	}
	if lo == before {
		return store.NewOpenList(before, f.created()), nil
	}
	if lo == q.Seq() {
		return f.listNow(), nil
	}
	events, err := q.Events(lo, 1)
	if err != nil || len(events) == 0 {
		return f.listNow(), err
	}
	// When the event before came is no longer known; it was before this one.
	return store.NewOpenList(lo, events[0].Time.Add(-time.Microsecond)), nil
}
