package rest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A View is the part of a page that is not in the state. The zero View is for
// everyone, at no certain time.
type View struct {
	// Now is the instant from which dates are told; zero: the dates alone are.
	Now time.Time
	// Jobs are jobs of jobStates, in the same order, with a row for each. Missing
	// jobs are shown by their identifiers.
	Jobs []queuefs.Job
	// May reports whether the reader may send a request to a path below the base,
	// such as "/hold/q/j000000000042". nil: the reader may do everything.
	May func(method, path string) bool
	// Mirror says that the queue changes by its original alone, so nothing may be done with it.
	Mirror bool
	// Changed is the method for many jobs answered by the page; the state has its changes.
	Changed string
	// Lease is the token of the reader's lease of the job, "" for none. The page
	// shows it, and has the forms of a consumer.
	Lease string
	// Failure is the refused request, for the page of an exception; nil: nothing is known of it.
	Failure *web.Failure
}

// Pages writes states for people. Whatever a page shows, the table of
// [state.AppendTable] is in it.
type Pages interface {
	State(dst []byte, d *state.Document, v View) []byte // a page
	// A page with a row for each job: its beginning,
	// the rows, and its end, with the reference of the
	// next page or "".
	JobsTop(dst []byte, base state.Base, queue string) []byte
	Job(dst []byte, d *state.Document, now time.Time) []byte
	JobsEnd(dst []byte, next string) []byte
	// Rows reports whether the page of a state has rows for its jobs, from [View.Jobs].
	Rows(d *state.Document) bool
	// Own returns the URL of a page for a sender without the right to read the queue, after a
	// change with the state d; without jobs in it there was no job to take.
	Own(d *state.Document, queue string) string
	// Policy is the Content-Security-Policy of all of them.
	Policy() string
}

// plainPages are the plain form XHTML.
type plainPages struct{}

func (plainPages) State(dst []byte, d *state.Document, _ View) []byte {
	return state.XHTML.Append(dst, d)
}

func (plainPages) JobsTop(dst []byte, _ state.Base, queue string) []byte {
	return state.AppendXHTMLHead(dst, "Jobs of "+queue)
}

func (plainPages) Job(dst []byte, d *state.Document, _ time.Time) []byte {
	return state.AppendTable(dst, d, nil)
}

func (plainPages) JobsEnd(dst []byte, next string) []byte { return state.AppendXHTMLFoot(dst) }

func (plainPages) Rows(*state.Document) bool { return false }

func (plainPages) Own(d *state.Document, _ string) string { return state.XHTML.Ask(d.Subject) }

func (plainPages) Policy() string { return state.PagePolicy }

// maxRows is how many jobs of a list have their properties on a page. The
// others have their identifiers alone, since each row reads a job file.
const maxRows = 200

func isPage(form state.Form) bool { return form == state.XHTML || form == state.HTML }

// answerPage writes a document as a page for a person. It has no entity tag,
// since it shows the age of things and depends on the reader.
func (h *Handler) answerPage(w http.ResponseWriter, r *request, form state.Form, d *state.Document) error {
	v := View{Now: time.Now()}
	v.Lease = r.lease
	v.May = web.MayOf(r.Context())
	if d.Class == state.QueueClass || d.Class == state.JobClass {
		q, err := h.queue(r)
		if err != nil {
			return err
		}
		v.Mirror = q.Mirror().Live()
		var refs []string
		if h.o.Pages.Rows(d) {
			refs = d.Items("jobStates")
		}
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
	h.write(w, http.StatusOK, form, func(dst []byte) []byte { return h.o.Pages.State(dst, d, v) })
	return nil
}

// takenByPage answers a form that took a job, or found none. The payload is
// behind a link of the page.
func (h *Handler) takenByPage(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, taken []queuefs.Taken) error {
	if len(taken) == 0 {
		base := h.base(r.Request)
		h.seeOther(w, r, &state.Document{Class: state.QueueClass, Base: base, Subject: base.Ref("state", q.ID())})
		return nil
	}
	d := state.OfJob(h.base(r.Request), &taken[0].Job)
	r.lease = taken[0].Token
	return h.answerChange(w, r, http.StatusOK, form, &d)
}

// SavedPlace is the place of a note in the page of a queue: its settings were set.
const SavedPlace = "saved"

// seeOther sends a browser to the page of a state, or to another one if its sender may not
// read the state.
func (h *Handler) seeOther(w http.ResponseWriter, r *request, d *state.Document) {
	to := state.XHTML.Ask(d.Subject)
	if !mayRead(web.MayOf(r.Context()), d) {
		to = h.o.Pages.Own(d, r.PathValue("queue"))
	}
	if r.place != "" {
		to += "#" + r.place
	}
	header := w.Header()
	header["Location"] = []string{to}
	header["Content-Length"] = []string{"0"}
	w.WriteHeader(http.StatusSeeOther)
}

// mayRead reports whether the sender may read a state. may is that of [web.MayOf].
func mayRead(may func(method, path string) bool, d *state.Document) bool {
	path, below := strings.CutPrefix(d.Subject, string(d.Base))
	return may == nil || !below || may(http.MethodGet, path)
}

// Reads reports whether the reader may read the state of a page.
func (v *View) Reads(d *state.Document) bool { return !d.Outline && mayRead(v.May, d) }

type (
	userKey    struct{}
	addressKey struct{}
)

// WithUser adds the authenticated user to the context of a request; jobs
// submitted with it are the user's own.
func WithUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf returns the user of a request, "" without one.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// WithAddress adds the address of the client to the context of a request behind
// a proxy.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// callerOf tells callers apart: users, and addresses of callers without a name.
// It is "" without either, as over the socket of a home.
func callerOf(r *http.Request) string {
	if user := UserOf(r.Context()); user != "" {
		return "user " + user
	}
	if address, ok := r.Context().Value(addressKey{}).(string); ok {
		return address
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
