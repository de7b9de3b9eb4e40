package mirror

import (
	"encoding/hex"
	"fmt"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/tree"
	"cutie/sitemap"
)

// An event is one of the original, with the files of it fetched so far.
type event struct {
	queuefs.ReplayEvent
	payload bool // it is in Data or Temp
}

// events makes events of the entries of Change Lists: one of all entries with its number.
func (f *follower) events(entries []sitemap.Entry) ([]*event, error) {
	var all []*event
	for i := range entries {
		e := &entries[i]
		if e.Seq == 0 {
			return nil, fmt.Errorf("%s: the Change List does not number its events, so it is not one of a queue", f.list)
		}
		if len(all) == 0 || all[len(all)-1].Seq != queuefs.Seq(e.Seq) {
			kind, err := job.ParseKind(e.Event)
			if err != nil {
				return nil, fmt.Errorf("event %d: %w", e.Seq, err)
			}
			ev := &event{}
			ev.Seq, ev.Time, ev.Kind = queuefs.Seq(e.Seq), e.Changed().UTC(), kind
			all = append(all, ev)
		}
		if err := f.take(&all[len(all)-1].Event, e); err != nil {
			return nil, fmt.Errorf("event %d: %s: %w", e.Seq, e.Loc, err)
		}
	}
	return all, nil
}

// take adds an entry to its event.
func (f *follower) take(ev *queuefs.Event, e *sitemap.Entry) error {
	rest, ok := strings.CutPrefix(e.Loc, f.base)
	if !ok {
		return fmt.Errorf("it is not below %s", f.base)
	}
	if rest == home.QueueInfoName { // created with the first event, and no event then
		if e.Change != sitemap.Created {
			ev.File = factsOf(e)
		}
		return nil
	}
	dir, name, _ := strings.Cut(rest, "/")
	name, result, _ := strings.Cut(name, "/")
	id, err := job.ParseID(name)
	if err != nil {
		return err
	}
	if ev.Job != 0 && ev.Job != id {
		return fmt.Errorf("the event is of %v, too", ev.Job)
	}
	ev.Job = id
	switch dir {
	case tree.Payloads:
		if e.Change == sitemap.Created {
			ev.Payload = factsOf(e)
		}
		return nil
	case tree.Results:
		return takeResult(ev, e, result)
	}
	st, err := job.ParseStatus(dir)
	if err != nil {
		return err
	}
	if e.Change != sitemap.Created {
		ev.From = st
	}
	if e.Change != sitemap.Deleted {
		ev.To, ev.File = st, factsOf(e)
	}
	return nil
}

func takeResult(ev *queuefs.Event, e *sitemap.Entry, name string) error {
	if err := job.CheckResultName(name); err != nil {
		return err
	}
	if ev.Results == nil {
		ev.Results = &job.ResultChange{}
	}
	c := ev.Results
	if e.Change == sitemap.Deleted {
		c.Went = append(c.Went, name)
		return nil
	}
	facts := factsOf(e)
	c.Came = append(c.Came, job.Result{Name: name, Size: facts.Length, SHA256: facts.SHA256, MediaType: facts.Type})
	return nil
}

func factsOf(e *sitemap.Entry) queuefs.Facts {
	f := queuefs.Facts{Length: e.Length, Type: e.Type, Modified: e.LastMod.UTC()}
	for _, h := range e.Hashes {
		switch h.Alg {
		case "sha-256":
			hex.Decode(f.SHA256[:], []byte(h.Value[:min(len(h.Value), 64)]))
		case "md5":
			hex.Decode(f.MD5[:], []byte(h.Value[:min(len(h.Value), 32)]))
		}
	}
	return f
}

// uri returns the URI of a file of a job.
func (f *follower) uri(dir string, id queuefs.JobID) string { return f.base + dir + "/" + id.String() }
