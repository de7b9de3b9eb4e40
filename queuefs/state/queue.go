package state

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"cutie/queuefs"
)

// QueueClass is the class of the state of a queue (Cutie 3.2). The properties
// from lastConsumption on are additions.
var QueueClass = &Class{
	Prefix: "que", Root: "queueState", Namespace: namespace + "queue",
	Terms: slices.Concat([]Term{
		{Name: "name"},
		{Name: "identifier"},
		{Name: "description"},
		{Name: "cutieState", Type: Reference},
		{Name: "numPendingJobs", Type: Integer},
		{Name: "numCompletedJobs", Type: Integer}, // those that are consumed
		{Name: "numDeletedJobs", Type: Integer},
		{Name: "jobStates", Type: Reference, Item: "jobState", Always: true},
		{Name: "cullingSizeThreshold", Type: Integer}, // processed jobs; -1: there is none
		{Name: "cullingAgeThreshold", Type: Integer},  // hours; -1: there is none
		{Name: "verifyOnRead", Type: Boolean},
		{Name: "verifyOnWrite", Type: Boolean},
		{Name: "created", Type: Date},
		{Name: "lastSubmission", Type: Date},
		{Name: "lastConsumption", Type: Date},
		{Name: "oldestPending", Type: Date}, // submission of the oldest pending job
		{Name: "lastEvent", Type: Date},
		{Name: "sequence", Type: Integer}, // number of the last event of the queue
		// The part of the jobs in jobStates; see [Jobs].
		{Name: "jobsStatus"},
		{Name: "jobsAfter"},
		{Name: "jobsLimit", Type: Integer},
		{Name: "jobsNext", Type: Reference}, // where the list goes on; absent at its end
		{Name: "submittedJobStates", Type: Reference, Item: "submittedJobState"},
		{Name: "capabilityLists", Type: Reference, Item: "capabilityList"}, // ResourceSync
		{Name: "status"}, // running or paused
		{Name: "paused", Type: Date},
		{Name: "closed", Type: Boolean},        // only of a queue without submissions
		{Name: "acknowledge"},                  // none, required or timeout
		{Name: "leaseDuration", Type: Integer}, // seconds, if it is set
		{Name: "maxAttempts", Type: Integer},   // if there is a limit
		{Name: "limits"},                       // of each user, if they are set
		{Name: "retryDelay", Type: Integer},    // seconds, if it is set
		{Name: "retryFactor", Type: Integer},   // if it is set
		{Name: "retryMax", Type: Integer},      // seconds, if it is set
		{Name: "callback", Type: Reference},    // URL to be told of changes
		{Name: "digests"},                      // computed of payloads, if not SHA-256 alone
		{Name: "dumps"},                        // sets of resources with dumps, if it is set
	}, uwsTerms(), []Term{
		{Name: "damage"},                       // only if queue-info.txt makes no sense: why, and the properties in force
		{Name: "numHeldJobs", Type: Integer},   // pending ones on hold
		{Name: "numLeasedJobs", Type: Integer}, // consumed ones in work
		{Name: "numFailedJobs", Type: Integer}, // consumed ones with the outcome error
		// Only of a mirror of a queue of another daemon.
		{Name: "mirrorOf", Type: Reference},     // its Source
		{Name: "mirrorContact", Type: Date},     // when the original last answered
		{Name: "mirrorSynced", Type: Date},      // when the mirror last had all its events
		{Name: "mirrorBehind", Type: Integer},   // events known, and not yet here
		{Name: "mirrorTrouble"},                 // why it does not follow now
		{Name: "mirrorAudited", Type: Date},     // last comparison of all files
		{Name: "mirrorFaults", Type: Integer},   // found by it
		{Name: "takenOver", Type: Date},         // only of a queue that was a mirror until then
		{Name: "takenOverAfter", Type: Integer}, // last event of the original
		// The rest of what jobsStatus begins.
		{Name: "jobsOutcome"},
		{Name: "jobsHeld", Type: Boolean}, // only of a list of those on hold
		{Name: "jobsBatch"},
		// The changes of a method to several jobs; see [Changes].
		{Name: "changedJobStates", Type: Reference, Item: "changedJobState"},
		{Name: "chosenJobStates", Type: Reference, Item: "chosenJobState"},
		{Name: "refusedJobs", Item: "refusedJob"},
		{Name: "culledJobs", Item: "culledJob"},
		{Name: "keptJobs", Item: "keptJob"}, // only of culling with due jobs left
		{Name: "moreJobs", Type: Boolean},   // only if there may be more to change
		{Name: "moreAfter"},                 // and where they begin
	}),
}

// uwsTerms are the properties for UWS, each if it is set.
func uwsTerms() (terms []Term) {
	for _, p := range queuefs.UWSProperties {
		t := Term{Name: p.Name}
		if p.Most > 0 {
			t.Type = Integer
		}
		terms = append(terms, t)
	}
	return terms
}

// DefaultJobs and MaxJobs are how many jobs the state of a queue lists if it is
// not asked for a number, and at most.
const (
	DefaultJobs = 100
	MaxJobs     = 1000
)

// Queue is the state of a queue.
type Queue struct {
	queuefs.QueueState
	Jobs Jobs
	// Submitted are the jobs of the submission, if this state answers one of
	// several jobs.
	Submitted []queuefs.JobID
	Changes   Changes
}

// Jobs is the page of jobs in the state of a queue, in FIFO order.
type Jobs struct {
	Status  queuefs.Status  // only jobs in this status; 0: all but culled ones
	Outcome queuefs.Outcome // only of jobs with this outcome; 0: all
	Held    bool            // only of jobs on hold
	Batch   string          // only of this batch; "": all
	After   queuefs.JobID   // only jobs after this one; 0: from the head
	Limit   int             // at most so many, 0 to [MaxJobs]; below 0: all
	IDs     []queuefs.JobID
	More    bool // there are more behind them
}

// OfQueue returns the state of a queue.
func OfQueue(base Base, q *Queue) Document {
	b := newBuilder(QueueClass)
	info := &q.Info
	identifier := info.Identifier
	if identifier == "" {
		identifier = info.ID
	}
	name := info.Name
	if name == "" {
		name = identifier
	}
	b.text("name", name)
	b.text("identifier", identifier)
	b.optional("description", info.Description)
	b.composed("cutieState", base.Append(b.buf, "state"))
	b.integer("numPendingJobs", q.Pending)
	b.integer("numCompletedJobs", q.Consumed)
	b.integer("numDeletedJobs", q.Deleted)
	b.list("jobStates", references(base, info.ID, q.Jobs.IDs))
	b.integer("cullingSizeThreshold", info.CullingSize)
	b.integer("cullingAgeThreshold", info.CullingAge)
	b.boolean("verifyOnRead", info.VerifyOnRead)
	b.boolean("verifyOnWrite", info.VerifyOnWrite)
	b.date("created", info.Created)
	b.date("lastSubmission", q.LastSubmission)
	b.date("lastConsumption", q.LastConsumption)
	b.date("oldestPending", q.Oldest)
	b.date("lastEvent", q.LastEvent)
	b.integer("sequence", int64(q.Seq))
	if q.Jobs.Status != 0 {
		b.text("jobsStatus", q.Jobs.Status.String())
	}
	if q.Jobs.After != 0 {
		b.text("jobsAfter", q.Jobs.After.String())
	}
	if q.Jobs.Limit >= 0 {
		b.integer("jobsLimit", int64(q.Jobs.Limit))
	}
	if q.Jobs.More {
		b.text("jobsNext", q.next(base))
	}
	b.list("submittedJobStates", references(base, info.ID, q.Submitted))
	b.list("capabilityLists", []string{
		base.CapabilityList(info.ID, "pending"),
		base.CapabilityList(info.ID, "replica"),
	})
	b.behaviour(q)
	b.optional("jobsOutcome", outcomeName(q.Jobs.Outcome))
	if q.Jobs.Held {
		b.boolean("jobsHeld", true)
	}
	b.optional("jobsBatch", q.Jobs.Batch)
	b.changes(base, info.ID, &q.Changes)
	d := b.document()
	d.Subject, d.Base = base.Ref("state", info.ID), base
	return d
}

// OutlineOfQueue returns the state of a queue, by its cleaned identifier, for a caller who may
// change its jobs, and not read them: what was changed.
func OutlineOfQueue(base Base, id string, c *Changes) Document {
	b := newBuilder(QueueClass)
	b.text("identifier", id)
	b.composed("cutieState", base.Append(b.buf, "state"))
	b.changes(base, id, c)
	d := b.document()
	d.Subject, d.Base, d.Outline = base.Ref("state", id), base, true
	return d
}

// behaviour adds the settings for the work on jobs, and the numbers of waiting
// jobs.
func (b *builder) behaviour(q *Queue) {
	info := &q.Info
	status := "running"
	if !info.Paused.IsZero() {
		status = "paused"
	}
	b.text("status", status)
	b.date("paused", info.Paused)
	if info.Closed {
		b.boolean("closed", true)
	}
	b.text("acknowledge", info.Acknowledge.String())
	set := func(name string, n int64) {
		if n > 0 {
			b.integer(name, n)
		}
	}
	set("leaseDuration", int64((info.Lease+time.Second-1)/time.Second))
	set("maxAttempts", int64(info.MaxAttempts))
	b.optional("limits", info.Limits.String())
	set("retryDelay", int64(info.RetryDelay/time.Second))
	set("retryFactor", int64(info.RetryFactor))
	set("retryMax", int64(info.RetryMax/time.Second))
	b.optional("callback", info.Callback)
	b.optional("digests", queuefs.FormatDigests(info.Digests))
	b.optional("dumps", info.Dumps)
	for i, p := range queuefs.UWSProperties {
		if n, err := strconv.ParseInt(info.UWS[i], 10, 64); p.Most > 0 && err == nil {
			b.integer(p.Name, n)
		} else {
			b.optional(p.Name, info.UWS[i])
		}
	}
	b.optional("damage", q.Damage)
	b.integer("numHeldJobs", q.Held)
	b.integer("numLeasedJobs", q.Leased)
	b.integer("numFailedJobs", q.Failed)
	b.mirror(q)
}

// mirror adds the facts of the original of a mirror.
func (b *builder) mirror(q *Queue) {
	m := q.Mirror
	if m == nil {
		return
	}
	b.optional("mirrorOf", m.Source)
	if m.Live() {
		p := &q.Progress
		b.date("mirrorContact", p.Contact)
		b.date("mirrorSynced", p.Synced)
		b.integer("mirrorBehind", max(int64(p.Known)-int64(q.Seq), 0))
		b.optional("mirrorTrouble", cmp.Or(m.Bad, p.Trouble))
		if !m.Audit.Time.IsZero() {
			b.date("mirrorAudited", m.Audit.Time)
			b.integer("mirrorFaults", m.Audit.Faults)
		}
		return
	}
	b.date("takenOver", m.Ended)
	b.integer("takenOverAfter", int64(m.Last))
}

// references returns the job states as parts of one string.
func references(base Base, queue string, ids []queuefs.JobID) []string {
	if len(ids) == 0 {
		return nil
	}
	prefix := base.Append(nil, "state", queue)
	text := make([]byte, 0, len(ids)*(len(prefix)+14))
	for _, id := range ids {
		text = id.Append(append(append(text, prefix...), '/'))
	}
	var (
		refs = make([]string, len(ids))
		all  = string(text)
		n    = len(prefix) + 14
	)
	for i := range refs {
		refs[i] = all[i*n : (i+1)*n]
	}
	return refs
}

// next returns the reference of the rest of the jobs.
func (q *Queue) next(base Base) string {
	query := url.Values{}
	after := q.Jobs.After
	if n := len(q.Jobs.IDs); n > 0 {
		after = q.Jobs.IDs[n-1]
	}
	if after != 0 {
		query.Set("after", after.String())
	}
	if q.Jobs.Status != 0 {
		query.Set("status", q.Jobs.Status.String())
	}
	if q.Jobs.Outcome != 0 {
		query.Set("outcome", q.Jobs.Outcome.String())
	}
	if q.Jobs.Held {
		query.Set("held", "true")
	}
	if q.Jobs.Batch != "" {
		query.Set("batch", q.Jobs.Batch)
	}
	// The page behind an empty one would be empty for ever.
	if q.Jobs.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Jobs.Limit))
	}
	ref := base.Ref("state", q.Info.ID)
	if len(query) > 0 {
		ref += "?" + query.Encode()
	}
	return ref
}

// maxSeconds is the limit of a [time.Duration].
const maxSeconds = int64(math.MaxInt64 / time.Second)

// Queue returns the queue in the state d, of class [QueueClass].
func (d *Document) Queue() (Queue, error) {
	var q Queue
	seconds := func(name string) time.Duration {
		return time.Duration(min(max(d.integer(name, 0), 0), maxSeconds)) * time.Second
	}
	q.Info = queuefs.QueueInfo{
		Identifier:    d.Text("identifier"),
		Name:          d.Text("name"),
		Description:   d.Text("description"),
		CullingSize:   d.integer("cullingSizeThreshold", -1),
		CullingAge:    d.integer("cullingAgeThreshold", -1),
		VerifyOnRead:  d.Text("verifyOnRead") == "true",
		VerifyOnWrite: d.Text("verifyOnWrite") == "true",
		Created:       d.date("created"),
		Paused:        d.date("paused"),
		Closed:        d.Text("closed") == "true",
		Lease:         seconds("leaseDuration"),
		MaxAttempts:   int(min(d.integer("maxAttempts", 0), math.MaxInt32)),
		RetryDelay:    seconds("retryDelay"),
		RetryFactor:   int(min(d.integer("retryFactor", 0), math.MaxInt32)),
		RetryMax:      seconds("retryMax"),
		Callback:      d.Text("callback"),
	}
	fail := func(err error) (Queue, error) {
		return Queue{}, fmt.Errorf("state of queue %.60q: %w", q.Info.Identifier, err)
	}
	var err error
	if q.Info.ID, err = queuefs.CleanQueueID(q.Info.Identifier); err != nil {
		return fail(err)
	}
	if q.Info.Limits, err = queuefs.ParseLimits(d.Text("limits")); err != nil {
		return fail(err)
	}
	if q.Info.Digests, err = queuefs.ParseDigests(d.Text("digests")); err != nil {
		return fail(err)
	}
	if q.Info.Dumps, err = queuefs.ParseDumps(d.Text("dumps")); err != nil {
		return fail(err)
	}
	for _, p := range queuefs.UWSProperties {
		if _, err := q.Info.UWS.Set(p.Name, d.Text(p.Name)); err != nil {
			return fail(err)
		}
	}
	if s := d.Text("acknowledge"); s != "" {
		if q.Info.Acknowledge, err = queuefs.ParseAcknowledge(s); err != nil {
			return fail(err)
		}
	}
	q.Damage = d.Text("damage")
	d.mirror(&q)
	q.Pending = d.integer("numPendingJobs", 0)
	q.Consumed = d.integer("numCompletedJobs", 0)
	q.Deleted = d.integer("numDeletedJobs", 0)
	q.Held = d.integer("numHeldJobs", 0)
	q.Leased = d.integer("numLeasedJobs", 0)
	q.Failed = d.integer("numFailedJobs", 0)
	q.LastSubmission = d.date("lastSubmission")
	q.LastConsumption = d.date("lastConsumption")
	q.Oldest = d.date("oldestPending")
	q.LastEvent = d.date("lastEvent")
	q.Seq = queuefs.Seq(d.integer("sequence", 0))
	if s := d.Text("jobsStatus"); s != "" {
		if q.Jobs.Status, err = queuefs.ParseStatus(s); err != nil {
			return fail(err)
		}
	}
	if s := d.Text("jobsOutcome"); s != "" {
		if q.Jobs.Outcome, err = queuefs.ParseOutcome(s); err != nil {
			return fail(err)
		}
	}
	q.Jobs.Held, q.Jobs.Batch = d.Text("jobsHeld") == "true", d.Text("jobsBatch")
	if s := d.Text("jobsAfter"); s != "" {
		if q.Jobs.After, err = queuefs.ParseJobID(s); err != nil {
			return fail(err)
		}
	}
	q.Jobs.Limit = int(min(d.integer("jobsLimit", 0), math.MaxInt32))
	q.Jobs.More = d.Text("jobsNext") != ""
	if q.Jobs.IDs, err = ids(d.Items("jobStates")); err != nil {
		return fail(err)
	}
	if q.Submitted, err = ids(d.Items("submittedJobStates")); err != nil {
		return fail(err)
	}
	if q.Changes, err = d.Changes(); err != nil {
		return fail(err)
	}
	return q, nil
}

func ids(refs []string) ([]queuefs.JobID, error) {
	var ids []queuefs.JobID
	for _, ref := range refs {
		_, id, err := ParseJobRef(ref)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// mirror takes the facts of the original of a mirror.
func (d *Document) mirror(q *Queue) {
	of := d.Text("mirrorOf")
	if of == "" {
		return
	}
	q.Mirror = &queuefs.Mirror{Source: of, Ended: d.date("takenOver"), Last: queuefs.Seq(d.integer("takenOverAfter", 0)),
		Audit: queuefs.MirrorAudit{Time: d.date("mirrorAudited"), Faults: d.integer("mirrorFaults", 0)}}
	if q.Mirror.Live() {
		q.Progress = queuefs.MirrorProgress{Contact: d.date("mirrorContact"), Synced: d.date("mirrorSynced"), Trouble: d.Text("mirrorTrouble"),
			Known: queuefs.Seq(d.integer("sequence", 0) + d.integer("mirrorBehind", 0))}
	}
}
