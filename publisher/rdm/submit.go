package rdm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/anvl"
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
func (x *exchange) submit() error {
	if err := x.openToSubmit(); err != nil {
		return err
	}
	var results []result
	var ended error // why no more was read
	held := x.memory.Held()
	for first := true; ; first = false {
		x.memory.Return(held) // of the last object
		o, err := x.in.Read()
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
			continue // all attributes are taken
		}
		if err != nil {
			ended = err
			break
		}
		results = append(results, x.take(&o))
	}
	return x.answerSubmission(results, ended)
}

// openToSubmit finds the catalog. To delete, a user needs the right to delete, or that to
// submit, for what is his own.
func (x *exchange) openToSubmit() error {
	if x.typ == RDResponse {
		return x.open(web.Submit)
	}
	err := x.open(web.Delete)
	if err == nil || x.catalog == nil || x.user() == "" || !x.may(web.Submit, x.catalog.ID()) {
		return err
	}
	x.w.Header().Del("WWW-Authenticate")
	return nil
}

// user returns the user who asks, "" for one without a name.
func (x *exchange) user() string {
	if x.h.o.User == nil {
		return ""
	}
	return x.h.o.User(x.r.Context())
}

// mayChange refuses a caller who has no right to delete, and whose job it is not.
func (x *exchange) mayChange(j *queuefs.Job) error {
	if user := x.user(); user != "" && user == j.Owner {
		return nil
	}
	return x.allow(web.Delete, x.catalog.ID())
}

// CheckPart refuses an object to submit that begins a message of its own: the
// objects after it are meant for that message, perhaps to be deleted. The error
// is an [*web.Error].
func CheckPart(o *soif.Object) error {
	if o.Is(headerObject) {
		return badRequest("@%s begins a message of its own and is no description; it and the objects after it were not taken", strings.ToUpper(o.Type))
	}
	return nil
}

// take carries out one object of a submission.
func (x *exchange) take(o *soif.Object) (r result) {
	r, err := x.carryOut(o)
	if err != nil {
		r = result{err: err}
	}
	return r
}

func (x *exchange) carryOut(o *soif.Object) (result, error) {
	if strings.HasPrefix(strings.ToUpper(o.Type), "RDM") || o.Is(schemaObject) {
		return result{}, badRequest("%.40q is not the description of a resource", o.Type)
	}
	id, own, err := x.own(o.URL)
	if err != nil {
		return result{}, err
	}
	var was queuefs.Job // of the same URL
	switch {
	case own:
		was, err = x.catalog.Job(id)
	case o.URL != "":
		was, err = x.find(o.URL)
	}
	if err != nil {
		return result{}, err
	}
	gone := x.typ == RDResponseDeleted
	switch {
	case gone && own:
		return x.delete(&was)
	case gone && was.ID == 0:
		return result{}, web.Errorf(http.StatusNotFound, "URL %.80q is not that of a description here", o.URL)
	case gone:
		return x.retire(&was, retiredDeleted)
	case own:
		return x.change(&was, o)
	case was.ID != 0:
		return x.replace(&was, o)
	}
	return x.insert(o)
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

func (x *exchange) delete(j *queuefs.Job) (result, error) {
	if err := x.mayChange(j); err != nil {
		return result{}, err
	}
	if _, err := x.catalog.Delete(x.r.Context(), j.ID); err != nil {
		return result{}, err
	}
	if j.Status == queuefs.Deleted {
		return result{done: "unchanged", job: j.ID}, nil
	}
	return result{done: "deleted", job: j.ID}, nil
}

// retire takes a description out of the catalog: it deletes a pending job, and marks a
// consumed one.
func (x *exchange) retire(j *queuefs.Job, why string) (result, error) {
	if err := x.mayChange(j); err != nil {
		return result{}, err
	}
	ctx := context.WithoutCancel(x.r.Context())
	_, err := x.catalog.Delete(ctx, j.ID)
	if errors.Is(err, queuefs.ErrNotPending) {
		_, err = x.catalog.Amend(ctx, j.ID, func(j *queuefs.Job) error {
			j.Extra = slices.Clone(j.Extra)
			j.Extra.Set(elemRetired, why)
			return nil
		})
	}
	if errors.Is(err, queuefs.ErrNoJob) {
		err = nil
	}
	return result{done: "deleted", job: j.ID}, err
}

// replace submits a description in the place of the one with the same URL.
func (x *exchange) replace(was *queuefs.Job, o *soif.Object) (result, error) {
	if err := x.mayChange(was); err != nil {
		return result{}, err
	}
	s, err := x.prepare(o)
	if err != nil {
		return result{}, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, s.payload()); err != nil {
		return result{}, err
	}
	same := was.Digest(digest.SHA256) == digest.NewValue(digest.SHA256, sum.Sum(nil))
	if same && was.MediaType == s.MediaType && was.Sidecar == s.Sidecar && was.Filename == path.Base("/"+s.Filename) {
		return result{done: "unchanged", job: was.ID}, nil
	}
	r, err := x.store(s)
	if err != nil {
		return result{}, err
	}
	r.done = "updated"
	_, err = x.retire(was, retiredReplaced)
	return r, err
}

// change carries out the description of a job: it requeues a consumed or
// deleted job, or describes a pending one anew.
func (x *exchange) change(j *queuefs.Job, o *soif.Object) (result, error) {
	id := j.ID
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
		if err := x.mayChange(j); err != nil {
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
	_, err := x.catalog.RequeueIdle(x.r.Context(), id)
	return result{done: "requeued", job: id}, err
}

// soifType is the media type of a job with an object as payload.
const soifType = "application/x-soif"

// A submitted job is one to be stored.
type submitted struct {
	queuefs.Meta
	payload func() io.Reader
}

// insert submits a job.
func (x *exchange) insert(o *soif.Object) (result, error) {
	s, err := x.prepare(o)
	if err != nil {
		return result{}, err
	}
	return x.store(s)
}

// prepare makes a job of a description.
func (x *exchange) prepare(o *soif.Object) (s submitted, err error) {
	s.Meta = queuefs.Meta{Filename: o.Value("Title"), Sidecar: o.Value("Sidecar"), Submitter: x.r.UserAgent(), MediaType: soifType, Owner: x.user()}
	s.payload = o.Reader
	if o.URL != "" {
		if !utf8.ValidString(o.URL) {
			return s, badRequest("URL %.80q is not UTF-8", o.URL)
		}
		s.Extra = anvl.Record{{Name: elemURL, Value: o.URL}}
	}
	value, given := o.Lookup("Payload")
	if !given {
		return s, nil
	}
	s.payload = func() io.Reader { return strings.NewReader(value) }
	s.MediaType = o.Value("Content-Type")
	if _, _, err := mime.ParseMediaType(s.MediaType); s.MediaType != "" && err != nil {
		return s, badRequest("Content-Type %.80q is not a media type", s.MediaType)
	}
	s.Expect, err = digests(o)
	return s, err
}

func (x *exchange) store(s submitted) (result, error) {
	sub := x.catalog.Begin()
	sub.Memory(x.memory)
	defer sub.Discard()
	d, err := sub.Add(s.Meta)
	if err != nil {
		return result{}, err
	}
	if _, err := d.ReadFrom(s.payload()); err != nil {
		return result{}, err
	}
	sub.Admit(x.h.o.Quota.Admission(x.r.Context(), x.catalog, s.Owner))
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
	return x.answer(&head, appendStatus(nil, x.base.Ref("state", x.catalog.ID()), facts, page(title, b.String())))
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
