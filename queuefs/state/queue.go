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
	"cutie/queuefs/ledger"
)

// QueueClass is the class of the state of a queue (Cutie 3.2). The properties
// from lastConsumption on are additions.
var QueueClass = class("que", "queueState", "queue",
	termsOf(identity)+
		"cutieState:ref numPendingJobs:int numCompletedJobs:int numDeletedJobs:int jobStates:ref[jobState]! "+
		termsOf(keeping)+
		"created:date lastSubmission:date lastConsumption:date oldestPending:date lastEvent:date sequence:int "+
		// The part of the jobs in jobStates; see Jobs. jobsNext is where the list goes on.
		"jobsStatus jobsAfter jobsLimit:int jobsNext:ref "+
		"submittedJobStates:ref[submittedJobState] capabilityLists:ref[capabilityList] "+
		"status "+ // running or paused
		termsOf(behaviour)+
		"damage "+ // why queue-info.txt makes no sense: the properties are those in force
		"numHeldJobs:int numLeasedJobs:int numFailedJobs:int "+
		// Only of a mirror of a queue of another daemon: its Source, when that last answered, when
		// the mirror last had all its events, how many are known and not here, why it does not
		// follow, and the last comparison of all files.
		"mirrorOf:ref mirrorContact:date mirrorSynced:date mirrorBehind:int mirrorTrouble "+
		"mirrorAudited:date mirrorFaults:int "+
		// Only of a queue that was a mirror until then, and the last event of the original.
		"takenOver:date takenOverAfter:int "+
		// The rest of what jobsStatus begins.
		"jobsOutcome jobsHeld:bool jobsBatch "+
		// The changes of a method to several jobs; see Changes.
		"changedJobStates:ref[changedJobState] chosenJobStates:ref[chosenJobState] refusedJobs[refusedJob] "+
		"culledJobs[culledJob] keptJobs[keptJob] moreJobs:bool moreAfter")

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

// termsOf are properties as terms of [class], each with a blank behind it.
func termsOf(part []home.Property) (terms string) {
	types := [...]string{home.Text: "", home.Number: ":int", home.Seconds: ":int", home.Truth: ":bool", home.Date: ":date"}
	for i := range part {
		p := &part[i]
		kind := types[p.Kind()]
		if p.URI {
			kind = ":ref"
		}
		terms += p.Name + kind + " "
	}
	return terms
}

// properties goes over properties of a queue: those that are set, or have a word for that.
func (b *builder) properties(part []home.Property, info *home.QueueInfo) {
	for i := range part {
		p := &part[i]
		if b.from != nil {
			if err := p.Set(info, b.from.Text(p.Name)); err != nil {
				b.fail(err)
			}
			continue
		}
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
	ledger.State
	Jobs Jobs
	// Submitted are the jobs of the submission, if this state answers one of
	// several jobs.
	Submitted []job.ID
	Changes   Changes
}

// Jobs is the page of jobs in the state of a queue, in FIFO order.
type Jobs struct {
	Status  job.Status  // only jobs in this status; 0: all but culled ones
	Outcome job.Outcome // only of jobs with this outcome; 0: all
	Held    bool        // only of jobs on hold
	Batch   string      // only of this batch; "": all
	After   job.ID      // only jobs after this one; 0: from the head
	Limit   int         // at most so many, 0 to [MaxJobs]; below 0: all
	IDs     []job.ID
	More    bool // there are more behind them
}

// OfQueue returns the state of a queue.
func OfQueue(base Base, q *Queue) Document {
	b := newBuilder(QueueClass)
	info := q.Info
	info.Identifier = cmp.Or(info.Identifier, info.ID)
	info.Name = cmp.Or(info.Name, info.Identifier)
	b.ofQueue(base, q, &info)
	d := b.document()
	d.Subject, d.Base = base.Ref("state", info.ID), base
	return d
}

// Queue returns the queue in the state d, of class [QueueClass].
func (d *Document) Queue() (q Queue, err error) {
	b := reader(d)
	q.Info = home.NewQueue("", time.Time{})
	b.ofQueue("", &q, &q.Info)
	if q.Info.ID, err = job.CleanQueueID(q.Info.Identifier); err != nil {
		b.fail(err)
	}
	if b.err != nil {
		return Queue{}, fmt.Errorf("state of queue %.60q: %w", q.Info.Identifier, b.err)
	}
	return q, nil
}

// ofQueue goes over the fields of a queue.
func (b *builder) ofQueue(base Base, q *Queue, info *home.QueueInfo) {
	b.properties(identity, info)
	b.ref("cutieState", base, "state")
	num(b, "numPendingJobs", &q.Pending)
	num(b, "numCompletedJobs", &q.Consumed)
	num(b, "numDeletedJobs", &q.Deleted)
	b.jobs("jobStates", base, info.ID, &q.Jobs.IDs)
	b.properties(keeping, info)
	b.at("created", &info.Created)
	b.at("lastSubmission", &q.LastSubmission)
	b.at("lastConsumption", &q.LastConsumption)
	b.at("oldestPending", &q.Oldest)
	b.at("lastEvent", &q.LastEvent)
	num(b, "sequence", &q.Seq)
	word(b, "jobsStatus", &q.Jobs.Status, job.ParseStatus)
	word(b, "jobsAfter", &q.Jobs.After, job.ParseID)
	if b.from != nil {
		q.Jobs.Limit = int(min(b.from.integer("jobsLimit", 0), math.MaxInt32))
		q.Jobs.More = b.from.Text("jobsNext") != ""
	} else {
		if q.Jobs.Limit >= 0 {
			b.integer("jobsLimit", int64(q.Jobs.Limit))
		}
		if q.Jobs.More {
			b.text("jobsNext", q.next(base))
		}
	}
	b.jobs("submittedJobStates", base, info.ID, &q.Submitted)
	if b.from == nil {
		b.list("capabilityLists", []string{base.CapabilityList(info.ID, "pending"), base.CapabilityList(info.ID, "replica")})
		status := "running"
		if !info.Paused.IsZero() {
			status = "paused"
		}
		b.text("status", status)
	}
	b.properties(behaviour, info)
	b.str("damage", &q.Damage, "")
	num(b, "numHeldJobs", &q.Held)
	num(b, "numLeasedJobs", &q.Leased)
	num(b, "numFailedJobs", &q.Failed)
	b.mirror(q)
	word(b, "jobsOutcome", &q.Jobs.Outcome, job.ParseOutcome)
	b.flag("jobsHeld", &q.Jobs.Held)
	b.str("jobsBatch", &q.Jobs.Batch, "")
	b.changes(base, info.ID, &q.Changes)
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

// mirror goes over the facts of the original of a mirror.
func (b *builder) mirror(q *Queue) {
	switch {
	case b.from == nil && q.Mirror == nil, b.from != nil && b.from.Text("mirrorOf") == "":
		return
	case b.from != nil:
		q.Mirror = &home.Mirror{Ended: b.from.date("takenOver")}
	}
	m, p := q.Mirror, &q.Progress
	b.str("mirrorOf", &m.Source, "")
	if !m.Live() {
		b.at("takenOver", &m.Ended)
		num(b, "takenOverAfter", &m.Last)
		return
	}
	behind, trouble := max(int64(p.Known)-int64(q.Seq), 0), cmp.Or(m.Bad, p.Trouble)
	b.at("mirrorContact", &p.Contact)
	b.at("mirrorSynced", &p.Synced)
	num(b, "mirrorBehind", &behind)
	b.str("mirrorTrouble", &trouble, "")
	if b.from != nil {
		p.Known, p.Trouble = q.Seq+job.Seq(behind), trouble
	}
	if b.from != nil || !m.Audit.Time.IsZero() {
		b.at("mirrorAudited", &m.Audit.Time)
		num(b, "mirrorFaults", &m.Audit.Faults)
	}
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

// Changes are the changes of a method to several jobs of a queue, in FIFO
// order.
type Changes struct {
	Changed []job.ID
	Chosen  []job.ID // to be changed by the same request without dry
	Refused []string // named jobs that were not changed, and why: "j000000000042: job not found"
	Culled  []queuefs.Culled
	Kept    []queuefs.Kept // due jobs left by culling
	More    bool           // the same request may change more
	After   job.ID         // only jobs after this one; 0 if unknown
}

// Changes returns the changes in the state d, of class [QueueClass] or
// [ServiceClass].
func (d *Document) Changes() (c Changes, err error) {
	b := reader(d)
	b.changes("", "", &c)
	return c, b.err
}

func (b *builder) changes(base Base, queue string, c *Changes) {
	b.jobs("changedJobStates", base, queue, &c.Changed)
	b.jobs("chosenJobStates", base, queue, &c.Chosen)
	b.texts("refusedJobs", &c.Refused)
	b.culled(c)
	word(b, "moreAfter", &c.After, job.ParseID)
}

// culled goes over the common fields of the changes of service and queue.
func (b *builder) culled(c *Changes) {
	items(b, "culledJobs", &c.Culled, culledText, parseCulled)
	items(b, "keptJobs", &c.Kept, keptText, parseKept)
	for i := range c.Kept {
		if b.from != nil && i > 0 && c.Kept[i].Queue == c.Kept[i-1].Queue {
			b.fail(fmt.Errorf("%w: the kept jobs of %s are repeated", job.ErrBadName, c.Kept[i].Queue))
		}
	}
	b.flag("moreJobs", &c.More)
}

// culledText describes a culled job, without a state any more: queue, job, its
// last status, since when, and the octets of its payload.
func culledText(c queuefs.Culled) string {
	return fmt.Sprint(c.Queue, " ", c.Job, " ", c.Status, " ", c.At.UTC().Format(dateLayout), " ", c.Size)
}

func parseCulled(s string) (c queuefs.Culled, err error) {
	f := strings.Split(s, " ")
	if len(f) != 5 {
		return c, fmt.Errorf("%w: %.80q is no culled job", job.ErrBadName, s)
	}
	var errs [5]error
	c.Queue, errs[0] = job.CleanQueueID(f[0])
	c.Job, errs[1] = job.ParseID(f[1])
	c.Status, errs[2] = job.ParseStatus(f[2])
	c.At, errs[3] = time.Parse(dateLayout, f[3])
	if c.Size, err = strconv.ParseInt(f[4], 10, 64); err != nil || c.Size < 0 {
		errs[4] = fmt.Errorf("%w: %.40q is no size", job.ErrBadName, f[4])
	}
	return c, cmp.Or(errs[:]...)
}

// keptText describes the due jobs left by culling: queue, how many, and why. They are
// promised for longer.
func keptText(k queuefs.Kept) string { return fmt.Sprint(k.Queue, " ", k.Spared, " spared") }

func parseKept(s string) (k queuefs.Kept, err error) {
	f := strings.Split(s, " ")
	if len(f) == 3 {
		k.Queue, err = job.CleanQueueID(f[0])
		k.Spared, _ = strconv.Atoi(f[1])
	}
	if err == nil && (k.Spared <= 0 || f[2] != "spared") {
		err = fmt.Errorf("%w: %.80q are no kept jobs", job.ErrBadName, s)
	}
	return k, err
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
	for id := job.ID(job.MaxID); ; id -= 2 {
		a, b = []byte((id - 1).String()), []byte(id.String())
		if !bytes.Contains(l.None, a) && !bytes.Contains(l.None, b) {
			q.Jobs.IDs = []job.ID{id - 1, id}
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
func (p *Pass) Append(dst []byte, id job.ID, last bool) []byte {
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
