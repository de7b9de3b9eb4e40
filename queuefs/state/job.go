package state

import (
	"encoding/base64"
	"fmt"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// unknown stands for an unknown submitter; it is the code of Electronic
// Resource Citation.
const unknown = "(:unkn)"

const namespace = "http://uc3.cdlib.org/ontology/mrt/cutie/"

// JobClass is the class of the state of a job (Cutie 3.3). The properties from
// filename on are additions.
var JobClass = &Class{
	Prefix: "job", Root: "jobState", List: "jobStates", Namespace: namespace + "job",
	Terms: []Term{
		{Name: "identifier"},
		{Name: "queueState", Type: Reference},
		{Name: "submitter"},
		{Name: "size", Type: Integer}, // octets of the payload
		{Name: "sidecar"},
		{Name: "submitted", Type: Date},
		{Name: "consumed", Type: Date},
		{Name: "deleted", Type: Date},
		{Name: "status"}, // pending, consumed or deleted
		{Name: "filename"},
		{Name: "mediaType"},
		{Name: "payload", Type: Reference}, // the payload as a plain resource
		// The digests of the payload: the value at a place of the second list
		// has the type at the same place of the first.
		{Name: "digestTypes", Item: "digestType", Paired: true},
		{Name: "digestValues", Item: "digestValue"},
		{Name: "batch"},
		{Name: "consumer"}, // user agent
		{Name: "requeued", Type: Date},
		{Name: "numRequeues", Type: Integer},
		{Name: "updated", Type: Date},
		{Name: "sequence", Type: Integer}, // number of the last event of the job
		// Elements of the job file without a property, as "name: value".
		{Name: "elements", Item: "element"},
		{Name: "owner"},                      // authenticated user of the submission
		{Name: "idempotencyKey"},             // of the submission
		{Name: "numAttempts", Type: Integer}, // how often it was handed out
		{Name: "leaseExpires", Type: Date},   // its key is nobody's but the consumer's
		{Name: "held", Type: Date},
		{Name: "heldFor"},
		{Name: "heldUntil", Type: Date}, // then the hold ends by itself
		{Name: "outcome"},               // completed, error or aborted
		{Name: "finished", Type: Date},
		{Name: "message"},
		{Name: "errorType"}, // transient or fatal, only of the outcome error
		{Name: "results", Type: Reference, Item: "result"},
		{Name: "sidecarBase64"}, // of a sidecar that is not text
	},
}

// OfJob returns the state of a job; j.Queue is the cleaned identifier of the
// queue, as the engine gives it.
func OfJob(base Base, j *queuefs.Job) Document {
	b := newBuilder(JobClass)
	b.composed("identifier", j.ID.Append(b.buf))
	b.composed("queueState", base.Append(b.buf, "state", j.Queue))
	submitter := j.Submitter
	if submitter == "" {
		submitter = unknown
	}
	b.text("submitter", submitter)
	b.integer("size", j.Size)
	text, octets := sidecarOf(j)
	if text {
		b.text("sidecar", j.Sidecar)
	}
	b.date("submitted", j.Submitted)
	b.date("consumed", j.Consumed)
	b.date("deleted", j.Deleted)
	b.text("status", j.Status.String())
	b.optional("filename", j.Filename)
	b.text("mediaType", j.Type())
	b.composed("payload", base.AppendPayload(b.buf, j.Queue, j.ID))
	b.digests(j.Digests)
	b.optional("batch", j.Batch)
	b.optional("consumer", j.Consumer)
	b.date("requeued", j.Requeued)
	if j.Requeues > 0 {
		b.integer("numRequeues", int64(j.Requeues))
	}
	b.date("updated", j.Updated)
	b.integer("sequence", int64(j.Seq))
	if len(j.Extra) > 0 {
		elements := make([]string, len(j.Extra))
		for i, e := range j.Extra {
			elements[i] = validText(e.Name + ": " + e.Value)
		}
		b.list("elements", elements)
	}
	b.work(base, j)
	b.optional("sidecarBase64", octets)
	d := b.document()
	d.Subject, d.Base = base.JobRef("state", j.Queue, j.ID), base
	return d
}

// OutlineOfJob returns the state of a job for a caller who may change it, and not read it: its
// identifier and status.
func OutlineOfJob(base Base, j *queuefs.Job) Document {
	b := newBuilder(JobClass)
	b.composed("identifier", j.ID.Append(b.buf))
	b.composed("queueState", base.Append(b.buf, "state", j.Queue))
	b.text("status", j.Status.String())
	d := b.document()
	d.Subject, d.Base, d.Outline = base.JobRef("state", j.Queue, j.ID), base, true
	return d
}

// sidecarOf reports whether the job has a sidecar of text; octets is the base64 of any
// other one.
func sidecarOf(j *queuefs.Job) (text bool, octets string) {
	switch {
	case !j.HasSidecar():
	case job.CheckText(j.Sidecar) == nil:
		text = true
	default:
		octets = base64.StdEncoding.EncodeToString([]byte(j.Sidecar))
	}
	return text, octets
}

// work adds the results of consumers and operators.
func (b *builder) work(base Base, j *queuefs.Job) {
	b.optional("owner", j.Owner)
	b.optional("idempotencyKey", j.Key)
	if j.Attempts > 0 {
		b.integer("numAttempts", int64(j.Attempts))
	}
	b.date("leaseExpires", j.Lease.Ends)
	b.date("held", j.Held)
	b.optional("heldFor", j.HeldFor)
	b.date("heldUntil", j.HeldUntil)
	if j.Outcome != 0 {
		b.text("outcome", j.Outcome.String())
	}
	b.date("finished", j.Finished)
	b.optional("message", j.Message)
	if j.Outcome == queuefs.Failed {
		errorType := "fatal"
		if j.Transient {
			errorType = "transient"
		}
		b.text("errorType", errorType)
	}
	if len(j.Results) > 0 {
		results := make([]string, len(j.Results))
		for i, r := range j.Results {
			results[i] = base.Ref("result", j.Queue, j.ID.String(), r.Name)
		}
		b.list("results", results)
	}
}

func (b *builder) digests(digests []digest.Value) {
	items := make([]string, 2*len(digests))
	types, values := items[:len(digests)], items[len(digests):]
	for i, v := range digests {
		types[i], values[i] = v.Type.String(), v.Hex
	}
	b.list("digestTypes", types)
	b.list("digestValues", values)
}

// Job returns the job in the state d, of class [JobClass]. Its Queue comes from
// the reference to the queue, its Results have their names alone, and Extra and
// Lease.Key are zero.
func (d *Document) Job() (queuefs.Job, error) {
	j := queuefs.Job{
		Submitter: d.Text("submitter"),
		Size:      d.integer("size", 0),
		Sidecar:   d.Text("sidecar"),
		Submitted: d.date("submitted"),
		Consumed:  d.date("consumed"),
		Deleted:   d.date("deleted"),
		Filename:  d.Text("filename"),
		MediaType: d.Text("mediaType"),
		Batch:     d.Text("batch"),
		Consumer:  d.Text("consumer"),
		Requeued:  d.date("requeued"),
		Requeues:  int(d.integer("numRequeues", 0)),
		Updated:   d.date("updated"),
		Seq:       queuefs.Seq(d.integer("sequence", 0)),
		Owner:     d.Text("owner"),
		Key:       d.Text("idempotencyKey"),
		Attempts:  int(d.integer("numAttempts", 0)),
		Lease:     queuefs.Lease{Ends: d.date("leaseExpires")},
		Held:      d.date("held"),
		HeldFor:   d.Text("heldFor"),
		HeldUntil: d.date("heldUntil"),
		Finished:  d.date("finished"),
		Message:   d.Text("message"),
		Transient: d.Text("errorType") == "transient",
	}
	if j.Submitter == unknown {
		j.Submitter = ""
	}
	if j.MediaType == queuefs.DefaultMediaType {
		j.MediaType = ""
	}
	if text := d.Property("sidecar"); text != nil {
		j.EmptySidecar = text.Text == ""
	}
	octets, err := base64.StdEncoding.DecodeString(d.Text("sidecarBase64"))
	if err != nil {
		return queuefs.Job{}, fmt.Errorf("job state: sidecarBase64: %w", err)
	}
	j.Sidecar += string(octets)
	if j.ID, err = queuefs.ParseJobID(d.Text("identifier")); err != nil {
		return queuefs.Job{}, fmt.Errorf("job state: %w", err)
	}
	if j.Status, err = queuefs.ParseStatus(d.Text("status")); err != nil {
		return queuefs.Job{}, fmt.Errorf("state of %s: %w", j.ID, err)
	}
	_, j.Queue, _ = CutLast(d.Text("queueState"))
	if o := d.Text("outcome"); o != "" {
		if j.Outcome, err = queuefs.ParseOutcome(o); err != nil {
			return queuefs.Job{}, fmt.Errorf("state of %s: %w", j.ID, err)
		}
	}
	if j.Digests, err = d.digests(); err == nil {
		j.Results, err = d.results()
	}
	if err != nil {
		return queuefs.Job{}, fmt.Errorf("state of %s: %w", j.ID, err)
	}
	return j, nil
}

// digests leaves out types unknown to this version.
func (d *Document) digests() ([]digest.Value, error) {
	types, values := d.Items("digestTypes"), d.Items("digestValues")
	if len(types) != len(values) {
		return nil, fmt.Errorf("%d digest types for %d digest values", len(types), len(values))
	}
	var digests []digest.Value
	for i := range types {
		t, err := digest.Parse(types[i])
		if err != nil {
			continue
		}
		v, err := digest.ParseValue(t, values[i])
		if err != nil {
			return nil, err
		}
		digests = append(digests, v)
	}
	return digests, nil
}

func (d *Document) results() ([]queuefs.Result, error) {
	var results []queuefs.Result
	for _, ref := range d.Items("results") {
		_, name, _ := CutLast(ref)
		if err := queuefs.CheckResultName(name); err != nil {
			return nil, err
		}
		results = append(results, queuefs.Result{Name: name})
	}
	return results, nil
}

// TakenClass is the class of a job as its consumer gets it: its parts, its lease,
// and the references for reports. It is for a consumer alone: the token is in it.
var TakenClass = &Class{
	Prefix: "taken", Root: "takenJob", Namespace: namespace + "taken",
	Terms: []Term{
		{Name: "identifier"},
		{Name: "queue"}, // cleaned identifier
		{Name: "jobState", Type: Reference},
		{Name: "size", Type: Integer}, // octets of the payload
		{Name: "sidecar"},
		{Name: "filename"},
		{Name: "mediaType"},
		{Name: "payload", Type: Reference}, // the payload as a plain resource
		{Name: "numAttempts", Type: Integer},
		{Name: "lease"}, // token
		{Name: "leaseExpires", Type: Date},
		{Name: "extendLease", Type: Reference},
		{Name: "reportOutcome", Type: Reference},
		{Name: "putResult", Type: Reference}, // a slash and the name of the result follow
		{Name: "sidecarBase64"},              // of a sidecar that is not text
	},
}

// OfTaken returns the document of a job that was taken; token is "" without a lease.
func OfTaken(base Base, j *queuefs.Job, token string) Document {
	b := newBuilder(TakenClass)
	b.composed("identifier", j.ID.Append(b.buf))
	b.text("queue", j.Queue)
	b.composed("jobState", base.AppendJob(b.buf, "state", j.Queue, j.ID))
	b.integer("size", j.Size)
	text, octets := sidecarOf(j)
	if text {
		b.text("sidecar", j.Sidecar)
	}
	b.optional("filename", j.Filename)
	b.text("mediaType", j.Type())
	b.composed("payload", base.AppendPayload(b.buf, j.Queue, j.ID))
	if j.Attempts > 0 {
		b.integer("numAttempts", int64(j.Attempts))
	}
	if token != "" {
		b.text("lease", token)
		b.date("leaseExpires", j.Lease.Ends)
		b.composed("extendLease", base.AppendJob(b.buf, "lease", j.Queue, j.ID))
		b.composed("reportOutcome", base.AppendJob(b.buf, "outcome", j.Queue, j.ID))
		b.composed("putResult", base.AppendJob(b.buf, "result", j.Queue, j.ID))
	}
	b.optional("sidecarBase64", octets)
	d := b.document()
	d.Subject, d.Base = base.JobRef("state", j.Queue, j.ID), base
	return d
}
