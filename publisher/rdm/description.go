package rdm

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/digest"
)

// A field is an attribute of the description of a job, and its entry in the
// schema.
type field struct {
	name  string
	about string
	typ   string // Data-Type
	extra []soif.Attribute
	index bool // in the index, so no job file need be read
}

// fields are all there are; their places are the numbers in the schema.
var fields = [...]field{
	{"Title", "Job file name", "varchar", nil, false},
	{"Identifier", "Job identifier, unique in its queue", "varchar", []soif.Attribute{{Name: "Enforce-Uniqueness", Value: "1"}}, true},
	{"Queue", "Queue identifier", "varchar", []soif.Attribute{{Name: "Is-Internal", Value: "1"}}, true},
	{"Status", "pending, consumed or deleted", "varchar", nil, true},
	{"Classification", "Taxonomy node queue:status", "varchar", nil, true},
	{"Submitter", "Submitting user agent", "varchar", nil, false},
	{"Size", "Payload size in octets", "int", nil, true},
	{"Submitted", "Submission date", "date", nil, true},
	{"Consumed", "Consumption date", "date", nil, false},
	{"Deleted", "Deletion date", "date", nil, false},
	{"Sidecar", "Opaque sidecar data", "blob", nil, false},
	{"Digest-Type", "Payload message digest type", "varchar", nil, true},
	{"Digest-Value", "Payload message digest in hexadecimal", "varchar", nil, true},
	{"RD-Last-Modified", "Date of the last change of the job", "date", nil, true},
}

// fieldNamed returns the place of a field, -1 if there is none of the name.
func fieldNamed(name string) int {
	for i := range fields {
		if strings.EqualFold(fields[i].name, name) {
			return i
		}
	}
	return -1
}

// A resource is a job to be described.
type resource struct {
	job     queuefs.Job // as far as it is known
	changed time.Time
	whole   bool // the job file was read
	gone    bool // it was culled: nothing but its number is known
}

// ofEntry returns a resource with the facts in the index.
func ofEntry(q *queuefs.Queue, e *queuefs.Entry) resource {
	return resource{changed: e.File.Modified, job: queuefs.Job{ID: e.Job, Queue: q.ID(), Status: e.Status, Size: e.Payload.Length,
		Submitted: e.Payload.Modified, Digests: []digest.Value{digest.NewValue(digest.SHA256, e.Payload.SHA256[:])}}}
}

func ofTombstone(q *queuefs.Queue, t *queuefs.Tombstone) resource {
	return resource{changed: t.Culled, gone: true, job: queuefs.Job{ID: t.Job, Queue: q.ID(), Status: queuefs.Deleted}}
}

// value returns a field as text, "" if the job has it not.
func (s *resource) value(field int) string {
	j := &s.job
	switch name := fields[field].name; name {
	case "Identifier":
		return j.ID.String()
	case "Queue":
		return j.Queue
	case "Status":
		return j.Status.String()
	case "Classification":
		return j.Queue + ":" + j.Status.String()
	case "RD-Last-Modified":
		return httpDate(s.changed)
	case "Title":
		return j.Filename
	case "Submitter":
		return j.Submitter
	case "Sidecar":
		return j.Sidecar
	case "Size":
		if !s.gone {
			return strconv.FormatInt(j.Size, 10)
		}
	case "Digest-Type":
		if len(j.Digests) > 0 {
			return j.Digests[0].Type.String()
		}
	case "Digest-Value":
		if len(j.Digests) > 0 {
			return j.Digests[0].Hex
		}
	default:
		if t := s.date(name); !t.IsZero() {
			return httpDate(t)
		}
	}
	return ""
}

// date returns a field with a date, zero if the job lacks it.
func (s *resource) date(name string) time.Time {
	switch name {
	case "Submitted":
		return s.job.Submitted
	case "Consumed":
		return s.job.Consumed
	case "Deleted":
		return s.job.Deleted
	case "RD-Last-Modified":
		return s.changed
	}
	return time.Time{}
}

// selection returns the fields for a view, and whether all of them are in the
// index.
func (v *view) selection(all []string) (places []int, index bool) {
	index = true
	for i := range fields {
		if f := &fields[i]; v.has(f.name) && (all == nil || slices.Contains(all, f.name)) {
			places = append(places, i)
			index = index && f.index
		}
	}
	return places, index
}

// ofDeleted are the only fields of a culled job.
var ofDeleted = []string{"Status", "RD-Last-Modified"}

// appendDescription appends the description of a job.
func (x *exchange) appendDescription(dst []byte, s *resource, places []int) []byte {
	dst = append(append(append(dst, '@'), documentObject...), " { "...)
	dst = append(x.base.AppendJob(dst, "state", s.job.Queue, s.job.ID), '\n')
	for _, i := range places {
		if value := s.value(i); value != "" {
			dst = soif.AppendAttribute(dst, fields[i].name, value)
		}
	}
	return soif.AppendEnd(dst)
}
