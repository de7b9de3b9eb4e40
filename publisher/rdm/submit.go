package rdm

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A result is the result of one object of a submission.
type result struct {
	done string // submitted, updated, requeued, deleted, unchanged; "" if it was rejected
	job  queuefs.JobID
	err  error
}

// submit takes the objects of a submission, each for itself. One is done, and on
// stable storage, before the next is read.
func (x *exchange) submit(in *soif.Reader) error {
	right := web.Submit
	if x.submission == RDResponseDeleted {
		right = web.Delete
	}
	if err := x.find(right); err != nil {
		return err
	}
	var results []result
	var ended error // why no more was read
	held := x.memory.Held()
	for first := true; ; first = false {
		x.memory.Return(held) // of the last object
		o, err := in.Read()
		if err == io.EOF {
			break
		}
		if err == nil && len(results) == x.h.o.MaxObjects {
			err = web.Errorf(http.StatusRequestEntityTooLarge, "more than %d objects, what follows was not read", len(results))
		}
		if err == nil {
			err = CheckPart(&o)
		}
		if err == nil && first && o.Is(schemaObject) {
			if err := checkSchema(&o); err != nil {
				return badRequest("%v", err)
			}
			continue
		}
		if err != nil {
			ended = err
			break
		}
		results = append(results, x.take(&o))
	}
	return x.answerSubmission(results, ended)
}

// CheckPart refuses an object to submit that begins a message of its own: the
// objects after it are meant for that message, perhaps to be deleted. The error
// is an [*web.Error].
func CheckPart(o *soif.Object) error {
	if o.Is(sunObject) || o.Is(headerObject) {
		return badRequest("@%s begins a message of its own and is no description; it and the objects after it were not taken", strings.ToUpper(o.Type))
	}
	return nil
}

// take carries out one object of a submission.
func (x *exchange) take(o *soif.Object) (r result) {
	id, own, err := x.own(o.URL)
	switch {
	case err != nil:
	case strings.HasPrefix(strings.ToUpper(o.Type), "RDM") || o.Is(schemaObject):
		err = badRequest("%.40q is not the description of a resource", o.Type)
	case x.submission == RDResponseDeleted && !own:
		err = badRequest("URL %.80q is not that of a job here", o.URL)
	case x.submission == RDResponseDeleted:
		r, err = x.delete(id)
	case own:
		r, err = x.change(id, o)
	default:
		r, err = x.insert(o)
	}
	if err != nil {
		r = result{err: err}
	}
	return r
}

// own returns the job of the catalog for a URL, and false for any other URL.
func (x *exchange) own(url string) (queuefs.JobID, bool, error) {
	prefix := x.base.Ref("state") + "/"
	if !strings.HasPrefix(url, prefix) {
		return 0, false, nil
	}
	queue, id, err := state.ParseJobRef(url)
	if err != nil || x.base.JobRef("state", queue, id) != url {
		return 0, false, badRequest("URL %.80q is not that of a job", url)
	}
	if queue != x.catalog.ID() {
		return 0, false, badRequest("job %v is of another catalog", id)
	}
	return id, true, nil
}

func (x *exchange) delete(id queuefs.JobID) (result, error) {
	was, _ := x.catalog.Status(id)
	if _, err := x.catalog.Delete(x.r.Context(), id); err != nil {
		return result{}, err
	}
	if was == queuefs.Deleted {
		return result{done: "unchanged", job: id}, nil
	}
	return result{done: "deleted", job: id}, nil
}

// change carries out the description of a job: it requeues a consumed or
// deleted job, or describes a pending one anew.
func (x *exchange) change(id queuefs.JobID, o *soif.Object) (result, error) {
	j, err := x.catalog.Job(id)
	if err != nil {
		return result{}, err
	}
	wanted, ok := o.Lookup("Status")
	back := ok && !strings.EqualFold(wanted, j.Status.String())
	if back && !strings.EqualFold(wanted, queuefs.Pending.String()) {
		return result{}, fmt.Errorf("status is %v, only pending can be asked for: %w", j.Status, queuefs.ErrConflict)
	}
	var d queuefs.Description
	for _, a := range []struct {
		name, is string
		to       **string
	}{{"Title", j.Filename, &d.Filename}, {"Sidecar", j.Sidecar, &d.Sidecar}} {
		value, ok := o.Lookup(a.name)
		if !ok || value == a.is {
			continue
		}
		if j.Status != queuefs.Pending {
			return result{}, fmt.Errorf("%s of a job that is %v stays as it is: %w", a.name, j.Status, queuefs.ErrConflict)
		}
		*a.to = &value
	}
	switch {
	case d != queuefs.Description{}:
		if err := x.allow(web.Delete, x.catalog.ID()); err != nil {
			return result{}, err
		}
		k, err := x.catalog.Describe(x.r.Context(), id, d)
		if err == nil && k.Seq == j.Seq { // a Title is its last segment
			return result{done: "unchanged", job: id}, nil
		}
		return result{done: "updated", job: id}, err
	case !back:
		return result{done: "unchanged", job: id}, nil
	}
	if err := x.allow(web.Consume, x.catalog.ID()); err != nil {
		return result{}, err
	}
	_, err = x.catalog.RequeueIdle(x.r.Context(), id)
	return result{done: "requeued", job: id}, err
}

// soifType is the media type of a job with an object as payload.
const soifType = "application/x-soif"

// insert submits a job.
func (x *exchange) insert(o *soif.Object) (result, error) {
	m := queuefs.Meta{Filename: o.Value("Title"), Sidecar: o.Value("Sidecar"), Submitter: x.r.UserAgent(), MediaType: soifType}
	if x.h.o.User != nil {
		m.Owner = x.h.o.User(x.r.Context())
	}
	payload := o.Reader()
	if value, given := o.Lookup("Payload"); given {
		payload = strings.NewReader(value)
		m.MediaType = o.Value("Content-Type")
		if _, _, err := mime.ParseMediaType(m.MediaType); m.MediaType != "" && err != nil {
			return result{}, badRequest("Content-Type %.80q is not a media type", m.MediaType)
		}
		var err error
		if m.Expect, err = digests(o); err != nil {
			return result{}, err
		}
	}
	sub := x.catalog.Begin()
	sub.Memory(x.memory)
	defer sub.Discard()
	d, err := sub.Add(m)
	if err != nil {
		return result{}, err
	}
	if _, err := d.ReadFrom(payload); err != nil {
		return result{}, err
	}
	sub.Admit(x.h.o.Quota.Admission(x.r.Context(), x.catalog, m.Owner))
	jobs, err := sub.Commit(x.r.Context())
	if err != nil {
		return result{}, err
	}
	return result{done: "submitted", job: jobs[0].ID}, nil
}

// digests reads pairs of Digest-Type and Digest-Value.
func digests(o *soif.Object) (list []digest.Value, err error) {
	types, values := o.Values("Digest-Type"), o.Values("Digest-Value")
	if len(types) != len(values) {
		return nil, badRequest("there are %d of Digest-Type and %d of Digest-Value", len(types), len(values))
	}
	for i := range types {
		t, err := digest.Parse(strings.TrimSpace(types[i]))
		if err != nil {
			return nil, badRequest("%v", err)
		}
		v, err := digest.ParseValue(t, strings.TrimSpace(values[i]))
		if err != nil {
			return nil, badRequest("%v", err)
		}
		list = append(list, v)
	}
	return list, nil
}

// answerSubmission answers with the result of each object. The status of HTTP
// is the one of an error that ended the submission early, or of the first error
// if nothing was accepted.
func (x *exchange) answerSubmission(results []result, ended error) error {
	accepted, rejected := 0, 0
	for i := range results {
		if results[i].err == nil {
			accepted++
		} else {
			rejected++
		}
	}
	head := Header{Type: StatusResponse, Catalog: x.answered(), Interpret: fmt.Sprintf("%d accepted, %d rejected", accepted, rejected)}
	facts := []soif.Attribute{{Name: "Accepted", Value: strconv.Itoa(accepted)}, {Name: "Rejected", Value: strconv.Itoa(rejected)}}
	var b strings.Builder
	b.WriteString("<OL>\n")
	for i := range results {
		r, n := &results[i], strconv.Itoa(i+1)
		if r.err != nil {
			e := x.answerError(r.err)
			if accepted == 0 && ended == nil && i == 0 {
				head.Error, x.out.status = e.Error(), e.Status
			}
			facts = append(facts, soif.Attribute{Name: "Error-" + n, Value: e.Error()})
			b.WriteString("<LI>rejected: " + html.EscapeString(e.Error()) + "\n")
			continue
		}
		ref := x.base.JobRef("state", x.catalog.ID(), r.job)
		facts = append(facts, soif.Attribute{Name: "RD-URL-" + n, Value: ref})
		fmt.Fprintf(&b, "<LI>%s <A HREF=\"%s\">%v</A>\n", r.done, html.EscapeString(ref), r.job)
	}
	b.WriteString("</OL>\n")
	if ended != nil {
		e := x.answerError(ended)
		head.Error, x.out.status = e.Error(), e.Status
		b.WriteString("<P>" + html.EscapeString(e.Error()) + "\n")
	}
	title := count(accepted, "accepted")
	if rejected > 0 {
		title += ", " + strconv.Itoa(rejected) + " rejected"
	}
	return x.out.write(appendStatus(head.append(nil), x.base.Ref("state", x.catalog.ID()), facts, page(title, b.String())))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 object " + what
	}
	return strconv.Itoa(n) + " objects " + what
}

// answerError returns the part of an error for the caller; the rest goes to the
// log.
func (x *exchange) answerError(err error) *web.Error {
	e, hidden := errorOf(err)
	if hidden && !errors.Is(err, context.Canceled) {
		x.h.log(x.r, err)
	}
	return e
}
