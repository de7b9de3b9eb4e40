package mirror

import (
	"fmt"

	"cutie/publisher/entries"
	"cutie/queuefs"
	"cutie/sitemap"
)

// An event is one of the original, with the files of it fetched so far.
type event struct {
	queuefs.ReplayEvent
	payload bool // it is in Data or Temp
}

// events makes events of the entries of Change Lists: one of all entries with its number.
func (f *follower) events(listed []sitemap.Entry) ([]*event, error) {
	var all []*event
	for i := range listed {
		e := &listed[i]
		if e.Seq == 0 {
			return nil, fmt.Errorf("%s: the Change List does not number its events, so it is not one of a queue", f.list)
		}
		if len(all) == 0 || all[len(all)-1].Seq != queuefs.Seq(e.Seq) {
			first, err := entries.EventOf(e)
			if err != nil {
				return nil, fmt.Errorf("event %d: %w", e.Seq, err)
			}
			ev := &event{}
			ev.Event = first
			all = append(all, ev)
		}
		if err := entries.Take(&all[len(all)-1].Event, f.base, e); err != nil {
			return nil, fmt.Errorf("event %d: %s: %w", e.Seq, e.Loc, err)
		}
	}
	return all, nil
}

// uri returns the URI of a file of a job.
func (f *follower) uri(dir string, id queuefs.JobID) string { return f.base + dir + "/" + id.String() }
