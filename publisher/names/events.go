package names

import (
	"encoding/hex"
	"fmt"
	"strings"

	"cutie/queuefs/job"
	"cutie/sitemap"
)

// EventOf returns the event of an entry in a Change List of ours, before any [Take].
func EventOf(e *sitemap.Entry) (ev job.Event, err error) {
	ev.Seq, ev.Time = job.Seq(e.Seq), e.Changed().UTC()
	ev.Kind, err = job.ParseKind(e.Event)
	return ev, err
}

// Take adds an entry of the set Replica to its event; dir is the directory of the queue,
// with a slash at its end. All entries of an event together are what [Renderer.Changed]
// prints of it.
func Take(ev *job.Event, dir string, e *sitemap.Entry) error {
	rest, ok := strings.CutPrefix(e.Loc, dir)
	if !ok {
		return fmt.Errorf("it is not below %s", dir)
	}
	if rest == infoFile { // created with the first event, and that event if it is no other
		if e.Change != sitemap.Created || ev.Kind == job.Update && ev.Job == 0 {
			ev.File = FactsOf(e) // those of a job follow if the update is of a job
		}
		return nil
	}
	kind, name, _ := strings.Cut(rest, "/")
	name, result, _ := strings.Cut(name, "/")
	id, err := job.ParseID(name)
	if err != nil {
		return err
	}
	if ev.Job != 0 && ev.Job != id {
		return fmt.Errorf("the event is of %v, too", ev.Job)
	}
	ev.Job = id
	switch kind {
	case payloads:
		if e.Change == sitemap.Created {
			ev.Payload = FactsOf(e)
		}
		return nil
	case results:
		return takeResult(ev, e, result)
	}
	st, err := job.ParseStatus(kind)
	if err != nil {
		return err
	}
	if e.Change != sitemap.Created {
		ev.From = st
	}
	if e.Change != sitemap.Deleted {
		ev.To, ev.File = st, FactsOf(e)
	}
	return nil
}

// Names in the directory of a queue, beside those of states.
const (
	infoFile = "queue-info.txt"
	payloads = "payload"
	results  = "result"
)

func takeResult(ev *job.Event, e *sitemap.Entry, name string) error {
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
	facts := FactsOf(e)
	c.Came = append(c.Came, job.Result{Name: name, Size: facts.Length, SHA256: facts.SHA256, MediaType: facts.Type})
	return nil
}

// FactsOf returns the facts of the file that an entry lists.
func FactsOf(e *sitemap.Entry) job.Facts {
	f := job.Facts{Length: e.Length, Type: e.Type, Modified: e.LastMod.UTC()}
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
