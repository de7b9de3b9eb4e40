package publisher

import (
	"fmt"

	"cutie/publisher/store"
)

// Rebuild makes everything published anew. It moves resourcesync in the home to a free name
// beside it and returns the new name, "" if there was none. [New] then makes the Change Lists
// from the journal, if it has all events of a queue; else they begin with the next event. There
// must be no [Publisher] of the home.
func Rebuild[Q Queue](svc Service[Q], o Options) (aside string, err error) {
	if aside, err = store.Clear(svc.Dir(), o.Fault); err != nil {
		err = fmt.Errorf("publisher: %w", err)
	}
	return aside, err
}
