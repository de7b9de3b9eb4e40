package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/names"
	"cutie/queuefs"
)

// goneFor returns the answer to a request for a document that was there once; nil
// if none is known.
func (p *Publisher) goneFor(r *http.Request, open *uses) error {
	id := r.PathValue("queue")
	kind, isSet := names.ParseSet(r.PathValue("set"))
	doc, isDoc := names.ParseDoc(r.PathValue("document"))
	if !isSet || !isDoc && !p.hasAbout(r.PathValue("document")) {
		return nil
	}
	q, err := p.svc.queue(id)
	if errors.Is(err, queuefs.ErrNoQueue) {
		if at, ok := p.removed(id); ok {
			return answer.Gone(r.URL.EscapedPath(), "the queue was removed at "+at.Format(time.RFC3339))
		}
	}
	if err != nil {
		return nil
	}
	f, err := open.use(q)
	if err != nil || q.ID() != id || !isDoc || !f.sets[kind].gone(doc) {
		return nil
	}
	return answer.Gone(r.URL.EscapedPath(), f.sets[kind].again())
}

// gone reports whether a document would be older than all that are kept, or has the
// digest of another history. Whether there was just this one is not known.
func (s *set) gone(doc names.Doc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, first := queuefs.Seq(doc.N), s.at.First
	if len(s.Lists.All) > 0 {
		first = s.Lists.All[0].First
	}
	if doc.Sum != "" && max(seq, queuefs.Seq(doc.Version)) <= s.at.Read {
		return true
	}
	switch doc.Kind {
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		if len(s.Packages.All) > 0 {
			first = s.Packages.All[0].First
		}
		return seq < first
	case names.ClosedList:
		return seq < first
	case names.ResourcePackage, names.ResourceManifest, names.DumpPart, names.FormerPage:
		seq = queuefs.Seq(doc.Version)
	case names.FormerDump, names.FormerList:
	default:
		return false
	}
	if d := s.Dump(0); d != nil {
		return seq < d.Seq
	}
	return seq < first
}

// again says where who comes too late begins anew.
func (s *set) again() string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("begin anew with %s at %s", s.uri(names.ResourceList), at(s.lastChange()))
	if d := s.dumpOf(0); d != nil {
		text += fmt.Sprintf(", or with %s at %s", s.uri(names.ResourceDump), at(d.At))
	}
	return text
}
