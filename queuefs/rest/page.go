package rest

import (
	"context"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

type mayKey struct{}

// WithMay adds to the context of a request what its sender may do: whether a
// request with a method to a path below the base would be let in. Pages have
// forms for that and for nothing else; without it, for everything.
func WithMay(ctx context.Context, may func(method, path string) bool) context.Context {
	return context.WithValue(ctx, mayKey{}, may)
}

// maxRows is how many jobs of a list have their properties on a page. Those
// behind them have their identifiers alone, for each row reads a job file.
const maxRows = 200

func isPage(form state.Form) bool { return form == state.XHTML || form == state.HTML }

// answerPage writes a document as a page for the person who asks. It has no
// entity tag, for it tells how long ago things were and depends on who asks.
func (h *Handler) answerPage(w http.ResponseWriter, r *request, form state.Form, d *state.Document) error {
	v := state.View{Now: time.Now()}
	v.Lease = r.lease
	v.May, _ = r.Context().Value(mayKey{}).(func(method, path string) bool)
	if d.Class == state.QueueClass {
		q, err := h.queue(r)
		if err != nil {
			return err
		}
		refs := d.Property("jobStates").Items
		for _, ref := range refs[:min(len(refs), maxRows)] {
			_, id, err := state.ParseJobRef(ref)
			if err != nil {
				return err
			}
			if j, err := q.Job(id); err == nil { // else it was culled meanwhile
				v.Jobs = append(v.Jobs, j)
			}
		}
	}
	h.write(w, http.StatusOK, form, func(dst []byte) []byte { return state.AppendPage(dst, d, v) })
	return nil
}

// takenByPage answers a person who took a job, or found none, by a form. The
// payload is behind a link of the page.
func (h *Handler) takenByPage(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, taken []queuefs.Taken) error {
	if len(taken) == 0 {
		seeOther(w, h.base().Ref("state", q.ID()))
		return nil
	}
	d := state.OfJob(h.base(), &taken[0].Job)
	r.lease = taken[0].Token
	return h.answerChange(w, r, http.StatusOK, form, &d)
}

// seeOther sends a browser to the page of a state.
func seeOther(w http.ResponseWriter, ref string) {
	header := w.Header()
	header["Location"] = []string{ref + "?t=" + state.XHTML.String()}
	header["Content-Length"] = []string{"0"}
	w.WriteHeader(http.StatusSeeOther)
}
