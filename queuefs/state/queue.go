package state

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// QueueClass is the class of the state of a queue (Cutie 3.2). The properties
// from lastConsumption on are additions.
var QueueClass = &Class{
	Prefix: "que", Root: "queueState", Namespace: namespace + "queue",
	Terms: slices.Concat(termsOf(identity), []Term{
		{Name: "cutieState", Type: Reference},
		{Name: "numPendingJobs", Type: Integer},
		{Name: "numCompletedJobs", Type: Integer}, // those that are consumed
		{Name: "numDeletedJobs", Type: Integer},
		{Name: "jobStates", Type: Reference, Item: "jobState", Always: true},
	}, termsOf(keeping), []Term{
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
	}, termsOf(behaviour), []Term{
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

// The properties of a queue in three parts: between them are facts.
var (
	identity  = properties("name", "cullingSizeThreshold")
	keeping   = properties("cullingSizeThreshold", "paused")
	behaviour = properties("paused", "created")
)

// properties are those from one on, before another one.
func properties(from, before string) []home.Property {
	at := func(name string) int {
		return slices.IndexFunc(home.Properties, func(p home.Property) bool { return p.Name == name })
	}
	return home.Properties[at(from):at(before)]
}

func termsOf(part []home.Property) (terms []Term) {
	types := [...]Type{home.Text: String, home.Number: Integer, home.Seconds: Integer, home.Truth: Boolean, home.Date: Date}
	for i := range part {
		p := &part[i]
		t := Term{Name: p.Name, Type: types[p.Kind()]}
		if p.URI {
			t.Type = Reference
		}
		terms = append(terms, t)
	}
	return terms
}

// properties adds the properties of a queue that are set, or have a word for that.
func (b *builder) properties(part []home.Property, info *queuefs.QueueInfo) {
	for i := range part {
		p := &part[i]
		text := p.Append(b.buf, info)
		if len(text) == len(b.buf) {
			text = append(text, p.Unset...)
		}
		switch {
		case len(text) == len(b.buf):
		case p.Kind() == home.Text:
			b.text(p.Name, string(text[len(b.buf):]))
		default:
			b.composed(p.Name, text)
		}
	}
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
	info := q.Info
	info.Identifier = cmp.Or(info.Identifier, info.ID)
	info.Name = cmp.Or(info.Name, info.Identifier)
	b.properties(identity, &info)
	b.composed("cutieState", base.Append(b.buf, "state"))
	b.integer("numPendingJobs", q.Pending)
	b.integer("numCompletedJobs", q.Consumed)
	b.integer("numDeletedJobs", q.Deleted)
	b.list("jobStates", references(base, info.ID, q.Jobs.IDs))
	b.properties(keeping, &info)
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
	status := "running"
	if !info.Paused.IsZero() {
		status = "paused"
	}
	b.text("status", status)
	b.properties(behaviour, &info)
	b.optional("damage", q.Damage)
	b.integer("numHeldJobs", q.Held)
	b.integer("numLeasedJobs", q.Leased)
	b.integer("numFailedJobs", q.Failed)
	b.mirror(q)
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

// Queue returns the queue in the state d, of class [QueueClass].
func (d *Document) Queue() (Queue, error) {
	q := Queue{QueueState: queuefs.QueueState{Info: home.NewQueue("", time.Time{})}}
	fail := func(err error) (Queue, error) {
		return Queue{}, fmt.Errorf("state of queue %.60q: %w", q.Info.Identifier, err)
	}
	var err error
	for i := range home.Properties {
		p := &home.Properties[i]
		if err = p.Set(&q.Info, d.Text(p.Name)); err != nil {
			return fail(err)
		}
	}
	if q.Info.ID, err = queuefs.CleanQueueID(q.Info.Identifier); err != nil {
		return fail(err)
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

// Changes are the changes of a method to several jobs of a queue, in FIFO
// order.
type Changes struct {
	Changed []queuefs.JobID
	Chosen  []queuefs.JobID // to be changed by the same request without dry
	Refused []string        // named jobs that were not changed, and why: "j000000000042: job not found"
	Culled  []queuefs.Culled
	Kept    []queuefs.Kept // due jobs left by culling
	More    bool           // the same request may change more
	After   queuefs.JobID  // only jobs after this one; 0 if unknown
}

func outcomeName(o queuefs.Outcome) string {
	if o == 0 {
		return ""
	}
	return o.String()
}

func (b *builder) changes(base Base, queue string, c *Changes) {
	b.list("changedJobStates", references(base, queue, c.Changed))
	b.list("chosenJobStates", references(base, queue, c.Chosen))
	refused := make([]string, len(c.Refused))
	for i, s := range c.Refused {
		refused[i] = validText(s)
	}
	b.list("refusedJobs", refused)
	b.culled(c)
	if c.After != 0 {
		b.text("moreAfter", c.After.String())
	}
}

// culled adds the common properties of the states of service and queue.
func (b *builder) culled(c *Changes) {
	culled := make([]string, len(c.Culled))
	for i := range c.Culled {
		culled[i] = culledText(&c.Culled[i])
	}
	b.list("culledJobs", culled)
	var kept []string
	for i := range c.Kept {
		kept = appendKept(kept, &c.Kept[i])
	}
	b.list("keptJobs", kept)
	if c.More {
		b.boolean("moreJobs", true)
	}
}

// Changes returns the changes in the state d, of class [QueueClass] or
// [ServiceClass].
func (d *Document) Changes() (c Changes, err error) {
	if c.Changed, err = ids(d.Items("changedJobStates")); err != nil {
		return c, err
	}
	if c.Chosen, err = ids(d.Items("chosenJobStates")); err != nil {
		return c, err
	}
	c.Refused, c.More = d.Items("refusedJobs"), d.Text("moreJobs") == "true"
	if s := d.Text("moreAfter"); s != "" {
		if c.After, err = queuefs.ParseJobID(s); err != nil {
			return c, err
		}
	}
	for _, s := range d.Items("culledJobs") {
		j, err := parseCulled(s)
		if err != nil {
			return c, err
		}
		c.Culled = append(c.Culled, j)
	}
	for _, s := range d.Items("keptJobs") {
		if c.Kept, err = addKept(c.Kept, s); err != nil {
			return c, err
		}
	}
	return c, nil
}

// culledText describes a culled job, without a state any more: queue, job, its
// last status, since when, and the octets of its payload.
func culledText(c *queuefs.Culled) string {
	return c.Queue + " " + c.Job.String() + " " + c.Status.String() + " " + c.At.UTC().Format(dateLayout) + " " + strconv.FormatInt(c.Size, 10)
}

func parseCulled(s string) (c queuefs.Culled, err error) {
	f := strings.Split(s, " ")
	if len(f) != 5 {
		return c, fmt.Errorf("%w: %.80q is no culled job", queuefs.ErrBadName, s)
	}
	if c.Queue, err = queuefs.CleanQueueID(f[0]); err != nil {
		return c, err
	}
	if c.Job, err = queuefs.ParseJobID(f[1]); err != nil {
		return c, err
	}
	if c.Status, err = queuefs.ParseStatus(f[2]); err != nil {
		return c, err
	}
	if c.At, err = time.Parse(dateLayout, f[3]); err != nil {
		return c, err
	}
	if c.Size, err = strconv.ParseInt(f[4], 10, 64); err == nil && c.Size < 0 {
		err = fmt.Errorf("%w: %s is no size", queuefs.ErrBadName, f[4])
	}
	return c, err
}

// keptSpared is why jobs are kept: they are promised for longer.
const keptSpared = "spared"

// appendKept appends the due jobs left by culling: queue, how many, and why.
func appendKept(items []string, k *queuefs.Kept) []string {
	if k.Spared > 0 {
		items = append(items, k.Queue+" "+strconv.Itoa(k.Spared)+" "+keptSpared)
	}
	return items
}

// addKept reads an item of appendKept. Items of one queue stand together.
func addKept(all []queuefs.Kept, s string) ([]queuefs.Kept, error) {
	f := strings.Split(s, " ")
	if len(f) != 3 {
		return all, fmt.Errorf("%w: %.80q are no kept jobs", queuefs.ErrBadName, s)
	}
	queue, err := queuefs.CleanQueueID(f[0])
	if err != nil {
		return all, err
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n <= 0 {
		return all, fmt.Errorf("%w: %.40q is no number of kept jobs", queuefs.ErrBadName, f[1])
	}
	if len(all) == 0 || all[len(all)-1].Queue != queue {
		all = append(all, queuefs.Kept{Queue: queue})
	}
	k := &all[len(all)-1]
	switch {
	case f[2] == keptSpared && k.Spared == 0:
		k.Spared = n
	default:
		return all, fmt.Errorf("%w: %.40q is no reason to keep jobs, or there are two", queuefs.ErrBadName, f[2])
	}
	return all, nil
}

// A Listing is the state of a queue in parts, so that jobStates can name any number of
// jobs in no more memory than a few. It is for all forms but SOIF, which numbers the
// items of a list.
type Listing struct {
	Head   []byte // up to the identifier of the first job
	Passes []Pass // over all jobs; two in Turtle, which names each job twice
	None   []byte // the whole state if there are no jobs
}

// A Pass is the part of a listing that names all jobs once.
type Pass struct {
	step []byte // from an identifier up to the next one
	tail []byte // from the last identifier on, up to the next pass
	a, b []byte // the identifiers in step and tail
}

// ListingOf returns the state of a queue for [Pass.Append]; the jobs in q are not in
// it.
func (f Form) ListingOf(base Base, q *Queue) Listing {
	q.Jobs.IDs = nil
	d := OfQueue(base, q)
	l := Listing{None: f.Append(nil, &d)}
	var a, b []byte
	// Two jobs stand for all, with numbers that the state has nowhere else.
	for id := queuefs.JobID(job.MaxID); ; id -= 2 {
		a, b = []byte((id - 1).String()), []byte(id.String())
		if !bytes.Contains(l.None, a) && !bytes.Contains(l.None, b) {
			q.Jobs.IDs = []queuefs.JobID{id - 1, id}
			break
		}
	}
	d = OfQueue(base, q)
	text := f.Append(nil, &d)
	first := bytes.Index(text, a)
	l.Head, text = text[:first:first], text[first:]
	for len(text) > 0 {
		second := bytes.Index(text, b)
		step, tail := text[:second], text[second:]
		if text = nil; bytes.Contains(tail, a) {
			next := bytes.Index(tail, a)
			tail, text = tail[:next], tail[next:]
		}
		l.Passes = append(l.Passes, Pass{step, tail, a, b})
	}
	return l
}

// Append appends a job, and with the last one all up to the next pass.
func (p *Pass) Append(dst []byte, id queuefs.JobID, last bool) []byte {
	part, of := p.step, p.a
	if last {
		part, of = p.tail, p.b
	}
	for {
		before, after, more := bytes.Cut(part, of)
		dst = append(dst, before...)
		if !more {
			return dst
		}
		dst, part = id.Append(dst), after
	}
}
