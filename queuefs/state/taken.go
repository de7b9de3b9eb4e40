package state

import "cutie/queuefs"

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
