package state

import (
	"encoding/base64"
	"errors"
	"fmt"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// unknown stands for an unknown submitter; it is the code of Electronic
// Resource Citation.
const unknown = "(:unkn)"

const namespace = "http://uc3.cdlib.org/ontology/mrt/cutie/"

// JobClass is the class of the state of a job (Cutie 3.3). The properties from
// filename on are additions.
var JobClass = class("job", "jobStates[jobState]", "job",
	"identifier queueState:ref submitter size:int sidecar submitted:date consumed:date deleted:date status "+
		"filename mediaType payload:ref "+ // the payload as a plain resource
		// The value at a place of the second list has the type at the same place of the first.
		"digestTypes[digestType]+ digestValues[digestValue] "+
		"batch consumer requeued:date numRequeues:int updated:date sequence:int "+
		"elements[element] "+ // of the job file, without a property: "name: value"
		"owner idempotencyKey numAttempts:int leaseExpires:date "+ // the key of a lease is nobody's but the consumer's
		"held:date heldFor heldUntil:date outcome finished:date message errorType results:ref[result] sidecarBase64")

// OfJob returns the state of a job; j.Queue is the cleaned identifier of the
// queue, as the engine gives it.
func OfJob(base Base, j *job.Job) Document {
	b := newBuilder(JobClass)
	b.job(base, j)
	d := b.document()
	d.Subject, d.Base = base.JobRef("state", j.Queue, j.ID), base
	return d
}

// Job returns the job in the state d, of class [JobClass]. Its Queue comes from
// the reference to the queue, its Results have their names alone, and Extra and
// Lease.Key are zero.
func (d *Document) Job() (j job.Job, err error) {
	b := reader(d)
	b.job("", &j)
	if j.Status == 0 {
		b.fail(errors.New("no status"))
	}
	if b.err != nil {
		return job.Job{}, fmt.Errorf("state of job %.40q: %w", d.Text("identifier"), b.err)
	}
	return j, nil
}

// job goes over the fields of a job.
func (b *builder) job(base Base, j *job.Job) {
	b.identifier("identifier", &j.ID)
	b.queue(base, &j.Queue)
	b.str("submitter", &j.Submitter, unknown)
	num(b, "size", &j.Size)
	b.sidecar(j)
	b.at("submitted", &j.Submitted)
	b.at("consumed", &j.Consumed)
	b.at("deleted", &j.Deleted)
	word(b, "status", &j.Status, job.ParseStatus)
	b.str("filename", &j.Filename, "")
	b.str("mediaType", &j.MediaType, job.DefaultMediaType)
	if b.from == nil {
		b.composed("payload", base.AppendPayload(b.buf, j.Queue, j.ID))
	}
	b.digests(j)
	b.str("batch", &j.Batch, "")
	b.str("consumer", &j.Consumer, "")
	b.at("requeued", &j.Requeued)
	b.count("numRequeues", &j.Requeues)
	b.at("updated", &j.Updated)
	num(b, "sequence", &j.Seq)
	if b.from == nil {
		items(b, "elements", (*[]anvl.Element)(&j.Extra),
			func(e anvl.Element) string { return validText(e.Name + ": " + e.Value) }, nil)
	}
	b.str("owner", &j.Owner, "")
	b.str("idempotencyKey", &j.Key, "")
	b.count("numAttempts", &j.Attempts)
	b.at("leaseExpires", &j.Lease.Ends)
	b.at("held", &j.Held)
	b.str("heldFor", &j.HeldFor, "")
	b.at("heldUntil", &j.HeldUntil)
	word(b, "outcome", &j.Outcome, job.ParseOutcome)
	b.at("finished", &j.Finished)
	b.str("message", &j.Message, "")
	b.errorType(j)
	b.results(base, j)
	b.octets(j)
}

// OutlineOfJob returns the state of a job for a caller who may change it, and not read it: its
// identifier and status.
func OutlineOfJob(base Base, j *job.Job) Document {
	b := newBuilder(JobClass)
	b.composed("identifier", j.ID.Append(b.buf))
	b.composed("queueState", base.Append(b.buf, "state", j.Queue))
	b.text("status", j.Status.String())
	d := b.document()
	d.Subject, d.Base, d.Outline = base.JobRef("state", j.Queue, j.ID), base, true
	return d
}

// sidecar is the sidecar of a job if it is text.
func (b *builder) sidecar(j *job.Job) {
	switch {
	case b.from != nil:
		p := b.from.Property("sidecar")
		j.Sidecar, j.EmptySidecar = b.from.Text("sidecar"), p != nil && p.Text == ""
	case j.HasSidecar() && job.CheckText(j.Sidecar) == nil:
		b.text("sidecar", j.Sidecar)
	}
}

// octets is the base64 of a sidecar that is not text.
func (b *builder) octets(j *job.Job) {
	switch {
	case b.from != nil:
		octets, err := base64.StdEncoding.DecodeString(b.from.Text("sidecarBase64"))
		if j.Sidecar += string(octets); err != nil {
			b.fail(fmt.Errorf("sidecarBase64: %w", err))
		}
	case j.HasSidecar() && job.CheckText(j.Sidecar) != nil:
		b.text("sidecarBase64", base64.StdEncoding.EncodeToString([]byte(j.Sidecar)))
	}
}

// errorType says of a failed job whether another attempt may go better.
func (b *builder) errorType(j *job.Job) {
	switch {
	case b.from != nil:
		j.Transient = b.from.Text("errorType") == "transient"
	case j.Outcome == job.Failed && j.Transient:
		b.text("errorType", "transient")
	case j.Outcome == job.Failed:
		b.text("errorType", "fatal")
	}
}

// digests leaves out types unknown to this version when it reads.
func (b *builder) digests(j *job.Job) {
	if b.from == nil {
		items(b, "digestTypes", &j.Digests, func(v digest.Value) string { return v.Type.String() }, nil)
		items(b, "digestValues", &j.Digests, func(v digest.Value) string { return v.Hex }, nil)
		return
	}
	types, values := b.from.Items("digestTypes"), b.from.Items("digestValues")
	if len(types) != len(values) {
		b.fail(fmt.Errorf("%d digest types for %d digest values", len(types), len(values)))
		return
	}
	for i := range types {
		t, err := digest.Parse(types[i])
		if err != nil {
			continue
		}
		v, err := digest.ParseValue(t, values[i])
		if err != nil {
			b.fail(err)
		}
		j.Digests = append(j.Digests, v)
	}
}

func (b *builder) results(base Base, j *job.Job) {
	items(b, "results", &j.Results,
		func(r job.Result) string { return base.Ref("result", j.Queue, j.ID.String(), r.Name) },
		func(ref string) (job.Result, error) {
			_, name, _ := CutLast(ref)
			return job.Result{Name: name}, job.CheckResultName(name)
		})
}

// TakenClass is the class of a job as its consumer gets it: its parts, its lease,
// and the references for reports. It is for a consumer alone: the token is in it.
var TakenClass = class("taken", "takenJob", "taken",
	"identifier queue jobState:ref size:int sidecar filename mediaType payload:ref numAttempts:int "+
		"lease leaseExpires:date extendLease:ref reportOutcome:ref "+ // lease is the token
		"putResult:ref sidecarBase64") // a slash and the name of the result follow

// OfTaken returns the document of a job that was taken; token is "" without a lease.
func OfTaken(base Base, j *job.Job, token string) Document {
	b := newBuilder(TakenClass)
	b.identifier("identifier", &j.ID)
	b.text("queue", j.Queue)
	b.composed("jobState", base.AppendJob(b.buf, "state", j.Queue, j.ID))
	num(b, "size", &j.Size)
	b.sidecar(j)
	b.str("filename", &j.Filename, "")
	b.text("mediaType", j.Type())
	b.composed("payload", base.AppendPayload(b.buf, j.Queue, j.ID))
	b.count("numAttempts", &j.Attempts)
	if token != "" {
		b.text("lease", token)
		b.date("leaseExpires", j.Lease.Ends)
		b.composed("extendLease", base.AppendJob(b.buf, "lease", j.Queue, j.ID))
		b.composed("reportOutcome", base.AppendJob(b.buf, "outcome", j.Queue, j.ID))
		b.composed("putResult", base.AppendJob(b.buf, "result", j.Queue, j.ID))
	}
	b.octets(j)
	d := b.document()
	d.Subject, d.Base = base.JobRef("state", j.Queue, j.ID), base
	return d
}
