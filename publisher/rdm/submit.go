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
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Elements of the job file of a description that was submitted with a URL.
const (
	elemURL     = "rdm-url"
	elemRetired = "rdm-retired" // its value says why it is no longer in the catalog
)

// A result is the result of one object of a submission.
type result struct {
	done string // submitted, updated, requeued, deleted or unchanged
	job  job.ID
}

// submit takes the objects of a submission, each for itself. One is done, and on
// stable storage, before the next is read. The status of HTTP is the one of an error that
// ended the submission early, or of the first error if nothing was accepted.
func (x *exchange) submit() error {
	if err := x.openToSubmit(); err != nil {
		return err
	}
	var (
		facts              []string // for programs, names and values
		list               strings.Builder
		failed, ended      *web.Error
		accepted, rejected int
	)
	list.WriteString("<OL>\n")
	held := x.memory.Held()
	for begun := false; ended == nil; begun = true {
		x.memory.Return(held) // of the last object
		o, err := x.in.Read()
		if err == io.EOF {
			break
		}
		n := accepted + rejected
		if err == nil && n == x.h.o.MaxObjects {
			err = web.Errorf(http.StatusRequestEntityTooLarge, "more than %d objects, what follows was not read", n)
		}
		if err == nil {
			err = CheckPart(&o)
		}
		if err != nil {
			ended = x.errorOf(err)
			continue
		}
		if !begun && o.Is(schemaObject) {
			continue // all attributes are taken
		}
		number := strconv.Itoa(n + 1)
		r, err := x.take(&o)
		if err != nil {
			e := x.errorOf(err)
			if n == 0 {
				failed = e
			}
			rejected++
			facts = append(facts, "Error-"+number, e.Error())
			list.WriteString("<LI>rejected: " + html.EscapeString(e.Error()) + "\n")
			continue
		}
		accepted++
		ref := x.base.JobRef("state", x.catalog.ID(), r.job)
		facts = append(facts, "RD-URL-"+number, ref)
		fmt.Fprintf(&list, "<LI>%s <A HREF=\"%s\">%v</A>\n", r.done, html.EscapeString(ref), r.job)
	}
	list.WriteString("</OL>\n")
	title := fmt.Sprintf("%d objects accepted", accepted)
	if accepted == 1 {
		title = "1 object accepted"
	}
	if rejected > 0 {
		title += fmt.Sprintf(", %d rejected", rejected)
	}
	if accepted > 0 {
		failed = nil
	}
	if ended != nil {
		failed = ended
		list.WriteString("<P>" + html.EscapeString(ended.Error()) + "\n")
	}
	failure := ""
	if failed != nil {
		failure, x.status = failed.Error(), failed.Status
	}
	facts = append([]string{"Accepted", strconv.Itoa(accepted), "Rejected", strconv.Itoa(rejected)}, facts...)
	return x.answer(fmt.Sprintf("%d accepted, %d rejected", accepted, rejected), failure,
		statusOf(x.base.Ref("state", x.catalog.ID()), title, list.String(), facts...))
}

// openToSubmit finds the catalog. To delete, a user needs the right to delete, or that to
// submit, for what is his own.
func (x *exchange) openToSubmit() error {
	if !x.kind.deleted() {
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
func (x *exchange) user() string { return x.h.o.User(x.r.Context()) }

// mayChange refuses a caller who has no right to delete, and whose job it is not.
func (x *exchange) mayChange(j *job.Job) error {
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
		return badRequest("@%s begins a message of its own and is no description; it and the objects after it were not taken",
			strings.ToUpper(o.Type))
	}
	return nil
}

// take carries out one object of a submission.
func (x *exchange) take(o *soif.Object) (result, error) {
	if strings.HasPrefix(strings.ToUpper(o.Type), "RDM") || o.Is(schemaObject) {
		return result{}, badRequest("%.40q is not the description of a resource", o.Type)
	}
	id, own, err := x.own(o.URL)
	if err != nil {
		return result{}, err
	}
	var was job.Job // of the same URL
	switch {
	case own:
		was, err = x.catalog.Job(id)
	case o.URL != "":
		was, err = x.jobOf(o.URL)
	}
	if err != nil {
		return result{}, err
	}
	switch gone := x.kind.deleted(); {
	case gone && was.ID == 0:
		return result{}, web.Errorf(http.StatusNotFound, "URL %.80q is not that of a description here", o.URL)
	case gone:
		return x.retire(&was, own, "deleted")
	case own:
		return x.change(&was, o)
	}
	return x.insert(&was, o)
}

// own returns the job of the catalog for a URL, and false for any other URL.
func (x *exchange) own(url string) (job.ID, bool, error) {
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

// retire takes a description out of the catalog: it deletes a pending job, and marks a
// consumed one. A job that is named by its own URL is deleted, or the request fails.
func (x *exchange) retire(j *job.Job, own bool, why string) (result, error) {
	if err := x.mayChange(j); err != nil {
		return result{}, err
	}
	ctx := context.WithoutCancel(x.r.Context())
	_, err := x.catalog.Delete(ctx, j.ID)
	switch {
	case own:
	case errors.Is(err, job.ErrNotPending):
		_, err = x.catalog.Amend(ctx, j.ID, func(j *job.Job) error {
			j.Extra = slices.Clone(j.Extra)
			j.Extra.Set(elemRetired, why)
			return nil
		})
	case errors.Is(err, ledger.ErrNoJob):
		err = nil
	}
	if own && j.Status == job.Deleted {
		return result{"unchanged", j.ID}, err
	}
	return result{"deleted", j.ID}, err
}

// change carries out the description of a job: it requeues a consumed or
// deleted job, or describes a pending one anew.
func (x *exchange) change(j *job.Job, o *soif.Object) (result, error) {
	wanted, ok := o.Lookup("Status")
	back := ok && !strings.EqualFold(wanted, j.Status.String())
	if back && !strings.EqualFold(wanted, job.Pending.String()) {
		return result{}, fmt.Errorf("status is %v, only pending can be asked for: %w", j.Status, job.ErrConflict)
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
		if j.Status != job.Pending {
			return result{}, fmt.Errorf("%s of a job that is %v stays as it is: %w", a.name, j.Status, job.ErrConflict)
		}
		*a.to = &value
	}
	switch {
	case d != queuefs.Description{}:
		if err := x.mayChange(j); err != nil {
			return result{}, err
		}
		k, err := x.catalog.Describe(x.r.Context(), j.ID, d)
		if err == nil && k.Seq == j.Seq { // a Title is its last segment
			return result{"unchanged", j.ID}, nil
		}
		return result{"updated", j.ID}, err
	case !back:
		return result{"unchanged", j.ID}, nil
	}
	if err := x.allow(web.Consume, x.catalog.ID()); err != nil {
		return result{}, err
	}
	_, err := x.catalog.RequeueIdle(x.r.Context(), j.ID)
	return result{"requeued", j.ID}, err
}

// soifType is the media type of a job with an object as payload.
const soifType = "application/x-soif"

// insert submits a description, in the place of the job that had the same URL, if was is one.
func (x *exchange) insert(was *job.Job, o *soif.Object) (result, error) {
	m := job.Meta{Filename: o.Value("Title"), Sidecar: o.Value("Sidecar"), Submitter: x.r.UserAgent(),
		MediaType: soifType, Owner: x.user()}
	if was.ID != 0 {
		if err := x.mayChange(was); err != nil {
			return result{}, err
		}
	}
	if o.URL != "" {
		if !utf8.ValidString(o.URL) {
			return result{}, badRequest("URL %.80q is not UTF-8", o.URL)
		}
		m.Extra = anvl.Record{{Name: elemURL, Value: o.URL}}
	}
	payload := o.Write
	if value, given := o.Lookup("Payload"); given {
		payload = func(w io.Writer) error {
			_, err := io.WriteString(w, value)
			return err
		}
		m.MediaType = o.Value("Content-Type")
		if _, _, err := mime.ParseMediaType(m.MediaType); m.MediaType != "" && err != nil {
			return result{}, badRequest("Content-Type %.80q is not a media type", m.MediaType)
		}
		var err error
		if m.Expect, err = digests(o); err != nil {
			return result{}, err
		}
	}
	if was.ID != 0 && was.MediaType == m.MediaType && was.Sidecar == m.Sidecar &&
		was.Filename == path.Base("/"+m.Filename) {
		sum := sha256.New()
		if err := payload(sum); err != nil {
			return result{}, err
		}
		if was.Digest(digest.SHA256) == digest.NewValue(digest.SHA256, sum.Sum(nil)) {
			return result{"unchanged", was.ID}, nil
		}
	}
	sub := x.catalog.Begin()
	sub.Memory(x.memory)
	defer sub.Discard()
	d, err := sub.Add(m)
	if err != nil {
		return result{}, err
	}
	if err := payload(d); err != nil {
		return result{}, err
	}
	sub.Admit(x.h.o.Quota.Admission(x.r.Context(), x.catalog, m.Owner))
	jobs, err := sub.Commit(x.r.Context())
	if err != nil {
		return result{}, err
	}
	if was.ID == 0 {
		return result{"submitted", jobs[0].ID}, nil
	}
	_, err = x.retire(was, false, "replaced")
	return result{"updated", jobs[0].ID}, err
}

// digests reads pairs of Digest-Type and Digest-Value.
func digests(o *soif.Object) (list []digest.Value, err error) {
	types, values := o.Values("Digest-Type"), o.Values("Digest-Value")
	if len(types) != len(values) {
		return nil, badRequest("there are %d of Digest-Type and %d of Digest-Value", len(types), len(values))
	}
	for i := range types {
		t, err := digest.Parse(strings.TrimSpace(types[i]))
		var v digest.Value
		if err == nil {
			v, err = digest.ParseValue(t, strings.TrimSpace(values[i]))
		}
		if err != nil {
			return nil, badRequest("%v", err)
		}
		list = append(list, v)
	}
	return list, nil
}
