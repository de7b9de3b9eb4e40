package rdm

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
)

// A field is an attribute that every description may have, and its entry in the schema.
type field struct {
	name  string
	about string
	typ   string // Data-Type
	extra []soif.Attribute
	value func(j *queuefs.Job, changed time.Time) string // "" if the job lacks it
}

// fields are in the order of the default view; their places are the numbers in the schema.
var fields = [...]field{
	{"Title", "Job file name", "varchar", nil, func(j *queuefs.Job, _ time.Time) string { return j.Filename }},
	{"Identifier", "Job identifier, unique in its queue", "varchar", []soif.Attribute{{Name: "Enforce-Uniqueness", Value: "1"}},
		func(j *queuefs.Job, _ time.Time) string { return j.ID.String() }},
	{"Queue", "Queue identifier", "varchar", []soif.Attribute{{Name: "Is-Internal", Value: "1"}}, func(j *queuefs.Job, _ time.Time) string { return j.Queue }},
	{"Status", "pending, consumed or deleted", "varchar", nil, func(j *queuefs.Job, _ time.Time) string { return j.Status.String() }},
	{"Classification", "Taxonomy node queue:status", "varchar", nil, func(j *queuefs.Job, _ time.Time) string { return j.Queue + ":" + j.Status.String() }},
	{"Submitter", "Submitting user agent", "varchar", nil, func(j *queuefs.Job, _ time.Time) string { return j.Submitter }},
	{"Size", "Payload size in octets", "int", nil, func(j *queuefs.Job, _ time.Time) string {
		if j.Submitted.IsZero() { // culled
			return ""
		}
		return strconv.FormatInt(j.Size, 10)
	}},
	{"Submitted", "Submission date", "date", nil, func(j *queuefs.Job, _ time.Time) string { return httpDate(j.Submitted) }},
	{"Consumed", "Consumption date", "date", nil, func(j *queuefs.Job, _ time.Time) string { return httpDate(j.Consumed) }},
	{"Deleted", "Deletion date", "date", nil, func(j *queuefs.Job, _ time.Time) string { return httpDate(j.Deleted) }},
	{"Sidecar", "Opaque sidecar data", "blob", nil, func(j *queuefs.Job, _ time.Time) string { return j.Sidecar }},
	{"Digest-Type", "Payload message digest type", "varchar", nil, func(j *queuefs.Job, _ time.Time) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Type.String()
	}},
	{"Digest-Value", "Payload message digest in hexadecimal", "varchar", nil, func(j *queuefs.Job, _ time.Time) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Hex
	}},
	{changedField, "Date of the last change of the job", "date", nil, func(_ *queuefs.Job, changed time.Time) string { return httpDate(changed) }},
}

const changedField = "RD-Last-Modified"

// ofDeleted is the default view of what is deleted.
var ofDeleted = []string{"Status", changedField}

// A resource is a job to be described.
type resource struct {
	id      queuefs.JobID
	status  queuefs.Status
	changed time.Time
	culled  bool // nothing but its number is known
}

// describe returns the description of a job, and false if the job has changed since. The
// description that was submitted is the payload: its attributes come first, and those of
// the job that it lacks follow.
func (x *exchange) describe(s *resource) (o soif.Object, ok bool, err error) {
	q := x.catalog
	j := queuefs.Job{ID: s.id, Queue: q.ID(), Status: s.status}
	o = soif.Object{Type: documentObject, URL: x.base.JobRef("state", q.ID(), s.id)}
	if !s.culled {
		if j, err = q.Job(s.id); errors.Is(err, queuefs.ErrNoJob) {
			return o, false, nil
		}
		if err != nil {
			return o, false, err
		}
		if status, changed := q.Status(s.id); status != s.status || !changed.Equal(s.changed) {
			return o, false, nil
		}
		if url := j.Extra.Value(elemURL); url != "" {
			o.URL = url
		}
		if err := x.submitted(&j, &o); err != nil {
			return o, false, err
		}
	}
	for i := range fields {
		f := &fields[i]
		_, given := o.Lookup(f.name)
		if value := f.value(&j, s.changed); value != "" && !given {
			o.Add(f.name, value)
		}
	}
	return o, true, nil
}

// submitted takes the description that was submitted as the payload of a job. A payload
// that is no SOIF is no description.
func (x *exchange) submitted(j *queuefs.Job, o *soif.Object) error {
	if j.MediaType != soifType || j.Size > int64(x.h.o.MaxObject) {
		return nil
	}
	in, err := x.catalog.Payload(j.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	r := soif.NewReader(in)
	r.Limit, r.Memory = x.h.o.MaxObject, x.memory.Grow
	given, err := r.Read()
	switch at := (*soif.ParseError)(nil); {
	case err == io.EOF, errors.As(err, &at):
		return nil
	case err != nil:
		return err
	}
	o.Type = given.Type
	for _, a := range given.Attributes {
		if !strings.EqualFold(a.Name, changedField) { // ours is what since is about
			o.Attributes = append(o.Attributes, a)
		}
	}
	return nil
}
