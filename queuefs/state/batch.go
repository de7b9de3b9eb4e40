package state

import (
	"fmt"
	"time"

	"cutie/queuefs"
)

// BatchClass is the class of the state of a batch: a manifest with files for
// the service to fetch and submit as jobs (Cutie 5.5). The specification names
// no elements for it; these follow those of the other classes.
var BatchClass = &Class{
	Prefix: "bat", Root: "batchState", Namespace: namespace + "batch",
	Terms: []Term{
		{Name: "identifier"},
		{Name: "queueState", Type: Reference},
		{Name: "status"}, // fetching, done or failed
		{Name: "created", Type: Date},
		{Name: "finished", Type: Date},
		{Name: "numLines", Type: Integer},   // of the manifest, with a file each
		{Name: "numFetched", Type: Integer}, // of these, so far
		{Name: "octets", Type: Integer},     // fetched so far
		{Name: "batch"},                     // job:batch of the jobs
		{Name: "detail"},
		{Name: "errors", Item: "error"},
		{Name: "submittedJobStates", Type: Reference, Item: "submittedJobState"},
	},
}

// A BatchStatus says how far a batch is.
type BatchStatus string

const (
	BatchFetching BatchStatus = "fetching"
	BatchDone     BatchStatus = "done"   // all its jobs are submitted
	BatchFailed   BatchStatus = "failed" // none is
)

// Batch is the state of a batch.
type Batch struct {
	ID       string // unique within its queue
	Queue    string // cleaned identifier
	Status   BatchStatus
	Created  time.Time
	Finished time.Time // zero as long as it is fetching
	Lines    int64     // of the manifest, with a file each
	Fetched  int64     // files, so far
	Octets   int64     // fetched so far
	Name     string    // Batch of its jobs; "" before they are submitted
	Detail   string    // its subject, or its outcome; "" for nothing
	Errors   []string  // such as "line 3: md5 without value"
	// Submitted are its jobs, once it is done.
	Submitted []queuefs.JobID
}

// OfBatch returns the state of a batch, at "<base>/batch/Q/ID".
func OfBatch(base Base, s *Batch) Document {
	b := newBuilder(BatchClass)
	b.text("identifier", s.ID)
	b.composed("queueState", base.Append(b.buf, "state", s.Queue))
	b.text("status", string(s.Status))
	b.date("created", s.Created)
	b.date("finished", s.Finished)
	b.integer("numLines", s.Lines)
	b.integer("numFetched", s.Fetched)
	b.integer("octets", s.Octets)
	b.optional("batch", s.Name)
	b.optional("detail", s.Detail)
	errors := make([]string, len(s.Errors))
	for i, e := range s.Errors {
		errors[i] = validText(e)
	}
	b.list("errors", errors)
	b.list("submittedJobStates", references(base, s.Queue, s.Submitted))
	d := b.document()
	d.Subject, d.Base = base.Ref("batch", s.Queue, s.ID), base
	return d
}

// Batch returns the batch in the state d, of class [BatchClass].
func (d *Document) Batch() (Batch, error) {
	s := Batch{
		ID:       d.Text("identifier"),
		Status:   BatchStatus(d.Text("status")),
		Created:  d.date("created"),
		Finished: d.date("finished"),
		Lines:    d.integer("numLines", 0),
		Fetched:  d.integer("numFetched", 0),
		Octets:   d.integer("octets", 0),
		Name:     d.Text("batch"),
		Detail:   d.Text("detail"),
		Errors:   d.Items("errors"),
	}
	_, s.Queue, _ = CutLast(d.Text("queueState"))
	switch s.Status {
	case BatchFetching, BatchDone, BatchFailed:
	default:
		return Batch{}, fmt.Errorf("state of batch %.60q: status %.40q is none of fetching, done, failed", s.ID, s.Status)
	}
	var err error
	if s.Submitted, err = ids(d.Items("submittedJobStates")); err != nil {
		return Batch{}, fmt.Errorf("state of batch %.60q: %w", s.ID, err)
	}
	return s, nil
}
