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
	if err != nil || q.ID() != id || !isDoc || !f.sets[kind].Gone(doc) {
		return nil
	}
	return answer.Gone(r.URL.EscapedPath(), documents{f.sets[kind], p}.again())
}

// again says where who comes too late begins anew.
func (s documents) again() string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("begin anew with %s at %s", s.URI(names.ResourceList), at(s.LastChange()))
	if d := s.Dump(0); d != nil {
		text += fmt.Sprintf(", or with %s at %s", s.URI(names.ResourceDump), at(d.At))
	}
	return text
}
