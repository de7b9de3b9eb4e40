package publisher

import (
	"errors"
	"fmt"
	"slices"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
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
		open, err := set.Earliest(q)
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
