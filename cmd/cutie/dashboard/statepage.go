package dashboard

import (
	"cmp"
	"encoding/hex"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// A statePage is the page of a state.
type statePage struct {
	head
	Badges  []string
	Lead    string
	Payload *link
	Saved   string // place of the note: the settings were set
	Notes   []note
	Lease   *lease
	News    *jobNews
	Undo    *undoForm
	Tiles   []tile
	Aside   *aside
	List    *list
	Actions []action
	Acted   bool // the actions stand before the payload
	Methods []link
	Table   template.HTML
}

// An aside is the part of a page that comes from [Asides].
type aside struct {
	Alarm    *alarm
	Charts   chartsPart
	Lists    []*jobsList
	Find     string // URL of the search
	More     []link // other pages of the queue
	Timeline []moment
	Results  []result
	Preview  *Preview
}

// A result is a file that the consumer of a job has left.
type result struct {
	link
	Size, Type, Sum string
}

func newResults(base state.Base, queue, job string, results []job.Result) (all []result) {
	for i := range results {
		r := &results[i]
		all = append(all, result{link{base.Ref("result", queue, job, r.Name), r.Name}, figure(r.Size), clean(r.MediaType), hex.EncodeToString(r.SHA256[:])})
	}
	return all
}

// A note is a text to be seen before the properties.
type note struct{ Class, Text string }

// A lease is shown to its holder.
type lease struct{ Until, Token string }

// A tile is a number of jobs. It leads to their list if Ref is not empty.
type tile struct{ Label, Count, Ref, Class string }

// A list is the queues of a service, or jobs of a queue: their rows, or their
// linksTo alone.
type list struct {
	Heading   string
	Rows      []row
	Names     []link
	Next, All string // references
	Unlisted  bool   // there are jobs, and the state was made without their list
}

// A row is a job in a list.
type row struct {
	Ref, ID                          string
	Badges                           []string
	File, Note, Size, Submitted, Ago string
}

func newStatePage(d *state.Document, v *rest.View, asides Asides) *statePage {
	p := &statePage{head: newHead(title(d), d.Base, v.May, way(d, v)...), Badges: badges(d), Lead: lead(d)}
	p.Table = template.HTML(state.AppendTable(nil, d, notes(v.Now)))
	if d.Class == state.JobClass {
		p.tellJob(d, v)
	}
	if d.Base != "" {
		for _, m := range d.Items("methods") {
			p.Methods = append(p.Methods, link{state.XHTML.Ask(d.Base.Ref("help", m)), m})
		}
	}
	if d.Subject == "" {
		return p
	}
	if !v.Reads(d) {
		p.closed(d, v, asides)
		if v.Changed != "" && d.Class == state.QueueClass {
			p.tellChanges(d, v)
		}
		return p
	}
	for _, f := range others {
		p.Forms = append(p.Forms, formLink{f.String(), f.MediaType(), f.Ask(d.Subject)})
	}
	if d.Base == "" {
		return p
	}
	switch d.Class {
	case state.ServiceClass:
		p.List = &list{Heading: "Queues", Names: open(d, v, linksTo(d.Items("queueStates")))}
	case state.QueueClass:
		p.Sets = capabilityLists(d)
		p.Tiles = tilesOf(d)
		p.List = jobList(d, v)
		p.tellMirror(d, v.Now)
	}
	p.Actions = actions(d, v)
	if slices.ContainsFunc(p.Actions, action.sets) {
		p.Saved = rest.SavedPlace
	}
	if asides != nil {
		p.addAside(d, v, asides)
	}
	if v.Changed != "" && d.Class == state.QueueClass {
		p.tellChanges(d, v)
	}
	return p
}

// closed makes the page one for a reader without the right to read the state: nothing leads
// there. The holder of a lease sees the beginning of the payload, as text.
func (p *statePage) closed(d *state.Document, v *rest.View, asides Asides) {
	p.Payload, p.Actions = nil, actions(d, v)
	queue, id, err := state.ParseJobRef(d.Subject)
	if err != nil || v.Lease == "" || asides == nil {
		return
	}
	if a := asides.Job(queue, id, ""); a != nil {
		p.Aside = &aside{Preview: a.Preview}
	}
}

// addAside adds what is beside the state of a queue or a job.
func (p *statePage) addAside(d *state.Document, v *rest.View, asides Asides) {
	switch d.Class {
	case state.QueueClass:
		queue := lastSegment(d.Subject)
		if p.Aside = (&aside{Find: d.Base.Ref("find", queue)}); selected(d) {
			return
		}
		a := asides.Queue(queue)
		if a == nil {
			return
		}
		pending, _ := strconv.ParseInt(d.Text("numPendingJobs"), 10, 64)
		alarm := newAlarm(d.Base, a.Trouble, nil)
		p.Aside.Alarm, p.Aside.Charts, p.Aside.Lists = &alarm, newChartsPart(a.Points, a.Trend, pending, d.Base, queue, v.Now), a.lists(d.Base, queue, !isMirror(d) && (v.May == nil || v.May(http.MethodPost, d.Base.Ref("requeue", queue)[len(d.Base):])), v.Now)
		p.Aside.More = []link{{d.Base.Ref("find", queue), "All jobs"}, {d.Base.Ref("batches", queue), "Batches"}, {d.Base.Ref("workers", queue), "Workers"}, {p.Aside.Charts.More, "Charts"},
			{d.Base.Ref("read", queue, "pending", "capabilitylist.xml"), "Published: pending jobs"}, {d.Base.Ref("read", queue, "replica", "capabilitylist.xml"), "Published: all files"},
			{d.Base.Ref("uws", queue, "async") + "?format=html", "UWS"}, {"#properties", "Properties"}}
		if len(p.Actions) > 0 {
			p.Aside.More = append([]link{{"#actions", "Submit, pause"}}, p.Aside.More...)
		}
		p.List = nil // the lists beside the state have these jobs, the newest first
		p.follow(d.Base, d.Base.Ref("live", queue)[len(d.Base):])
	case state.JobClass:
		queue, id, err := state.ParseJobRef(d.Subject)
		if err == nil {
			p.Aside = &aside{Timeline: timeline(d)}
			p.Acted = len(p.Aside.Timeline) > 0
			p.follow(d.Base, d.Base.Ref("live", queue, id.String())[len(d.Base):]+"?sequence="+d.Text("sequence"))
			p.News = &jobNews{}
			if a := asides.Job(queue, id, d.Text("payload")); a != nil {
				p.Aside.Results, p.Aside.Preview = newResults(d.Base, queue, id.String(), a.Results), a.Preview
			}
		}
	}
}

// capabilityLists returns the references of the Capability Lists of a queue
// (Z39.99-2017, 6.3.2).
func capabilityLists(d *state.Document) (lists []string) {
	id, ok := strings.CutPrefix(d.Subject, d.Base.Ref("state")+"/")
	if !ok {
		return nil
	}
	for s := range names.Set(names.Sets) {
		lists = append(lists, d.Base.Ref(".well-known", "resourcesync")+"/"+id+"/"+s.String()+"/"+names.CapabilityList.Of().String())
	}
	return lists
}

// others are the forms in the links of a page.
var others = [...]state.Form{state.ANVL, state.JSON, state.Turtle, state.XML, state.SOIF}

func title(d *state.Document) string {
	switch d.Class {
	case state.ServiceClass:
		if s := d.Text("name"); s != "" {
			return s
		}
		return "Cutie"
	case state.QueueClass:
		return "Queue " + d.Text("name")
	case state.JobClass:
		return "Job " + d.Text("identifier")
	case state.BatchClass:
		return "Batch " + d.Text("identifier")
	case state.ExceptionClass:
		return d.Text("hTTPResponse") + " " + d.Text("description")
	case state.HelpClass:
		if s := d.Text("method"); s != "" {
			return s
		}
	}
	return d.Text("summary")
}

func lead(d *state.Document) string {
	switch d.Class {
	case state.ServiceClass, state.QueueClass:
		return d.Text("description")
	case state.ExceptionClass, state.BatchClass:
		return d.Text("detail")
	case state.JobClass:
		return d.Text("filename")
	case state.HelpClass:
		if d.Text("method") != "" {
			return d.Text("summary")
		}
	}
	return ""
}

// way returns the steps from the service down to the document.
func way(d *state.Document, v *rest.View) (steps []crumb) {
	queue := d.Text("queueState")
	if d.Class == state.QueueClass {
		queue = d.Subject
	}
	if name := lastSegment(queue); name != "" {
		ref := state.XHTML.Ask(queue)
		if path, below := strings.CutPrefix(queue, string(d.Base)); below && v.May != nil && !v.May(http.MethodGet, path) {
			ref = d.Base.Ref(OwnDir, name)
		}
		steps = append(steps, crumb{"step", ref, name})
	}
	if d.Class == state.JobClass || d.Class == state.BatchClass {
		steps = append(steps, step(d.Text("identifier")))
	}
	return steps
}

// lastSegment returns the decoded last segment of a reference.
func lastSegment(ref string) string {
	_, name, _ := state.CutLast(ref)
	return name
}

// badges are the words to be seen at once.
func badges(d *state.Document) (words []string) {
	if s := d.Text("status"); s != "" && d.Class != state.ExceptionClass {
		words = append(words, s)
	}
	if d.Text("closed") == "true" {
		words = append(words, "closed")
	}
	if isMirror(d) {
		words = append(words, "mirror")
	}
	if onHold(d) {
		words = append(words, "on hold")
	}
	if inWork(d) {
		words = append(words, "leased")
	}
	if s := d.Text("outcome"); s != "" {
		words = append(words, s)
	}
	return words
}

func isMirror(d *state.Document) bool { return d.Text("mirrorOf") != "" && d.Text("takenOver") == "" }

// tellMirror says what a queue mirrors, and how far it is.
func (p *statePage) tellMirror(d *state.Document, now time.Time) {
	of := d.Text("mirrorOf")
	switch {
	case of == "":
		return
	case !isMirror(d):
		p.Notes = append(p.Notes, note{"", "Taken over from " + of + " after its event " + d.Text("takenOverAfter")})
		return
	}
	n := note{"", "Mirror of " + of + ": changes are made there, and here after a takeover"}
	if at, err := time.Parse(time.RFC3339Nano, d.Text("mirrorSynced")); err == nil {
		n.Text += "; had all its events " + state.Ago(now, at)
	}
	if behind := d.Text("mirrorBehind"); behind != "0" {
		n.Text += ", and is " + behind + " behind"
	}
	if p.Notes = append(p.Notes, n); d.Text("mirrorTrouble") != "" {
		p.Notes = append(p.Notes, note{"bad", "It does not follow: " + d.Text("mirrorTrouble")})
	}
	if faults := d.Text("mirrorFaults"); faults != "" && faults != "0" {
		p.Notes = append(p.Notes, note{"bad", "The last audit found " + faults + " files that are not as at the original"})
	}
}

func onHold(d *state.Document) bool {
	return d.Text("held") != "" && d.Text("status") == job.Pending.String()
}

// inWork reports whether a consumer of the job has still to report.
func inWork(d *state.Document) bool {
	return d.Class == state.JobClass && d.Text("status") == job.Consumed.String() && d.Text("leaseExpires") != "" && d.Text("outcome") == ""
}

// tellJob adds the notes of a job above its properties.
func (p *statePage) tellJob(d *state.Document, v *rest.View) {
	unit := " octets, "
	if d.Text("size") == "1" {
		unit = " octet, "
	}
	p.Payload = &link{d.Text("payload"), grouped(d.Text("size")) + unit + d.Text("mediaType")}
	if s := holdOf(d); s != "" && onHold(d) {
		p.Notes = append(p.Notes, note{"warn", "On hold" + s})
	}
	switch message := d.Text("message"); {
	case d.Text("outcome") == job.Failed.String():
		p.Notes = append(p.Notes, note{"bad", "Failed" + forGood(d) + ": " + cmp.Or(message, "its worker gave no reason")})
	case message != "":
		p.Notes = append(p.Notes, note{"", "Message: " + message})
	}
	if v.Lease != "" && inWork(d) {
		p.Lease = &lease{d.Text("leaseExpires"), v.Lease}
	}
}

// holdOf returns the end of a hold and its reason, "" for a job without them.
func holdOf(d *state.Document) (s string) {
	if until, err := time.Parse(time.RFC3339Nano, d.Text("heldUntil")); err == nil {
		s = " until " + until.Format(time.DateTime) + " UTC"
	}
	if why := d.Text("heldFor"); why != "" {
		s += ": " + why
	}
	return s
}

// noteOf returns the message of a job and the reason for its hold.
func noteOf(d *state.Document) string {
	message, why := d.Text("message"), d.Text("heldFor")
	if message != "" && why != "" {
		return message + "; " + why
	}
	return message + why
}

// notes returns the additions to a property in the table: the age of a date
// unless now is zero, a size in a larger unit, and the layout of a long text.
func notes(now time.Time) func(*state.Property) (class, title string) {
	const long = 600 // bytes
	return func(p *state.Property) (class, title string) {
		switch {
		case p.Type == state.Date && !now.IsZero():
			if t, err := time.Parse(time.RFC3339Nano, p.Text); err == nil {
				return "said", state.Ago(now, t)
			}
		case p.Name == "size" || p.Name == "octets":
			if n, err := strconv.ParseInt(p.Text, 10, 64); err == nil && octets(n) != "" {
				return "said", octets(n)
			}
		case p.Name == "text" || p.Name == "request": // of help
			return "mono", ""
		case p.Type == state.String && (len(p.Text) > long || strings.Count(p.Text, "\n") > 10):
			return "long", ""
		}
		return "", ""
	}
}

// A count is a number of jobs in the state of a queue, and the query for them.
type count struct {
	label, property, query string
	heading                string // of the list
	bad                    bool   // unless it is 0
}

var counts = [...]count{
	{label: "pending", property: "numPendingJobs", query: "status=pending", heading: "Pending jobs"},
	{label: "on hold", property: "numHeldJobs", query: "held=true", heading: "Jobs on hold"},
	{label: "consumed", property: "numCompletedJobs", query: "status=consumed", heading: "Consumed jobs"},
	{label: "in work", property: "numLeasedJobs"}, // their workers have a page
	{label: "failed", property: "numFailedJobs", query: "outcome=error", heading: "Failed jobs", bad: true},
	{label: "deleted", property: "numDeletedJobs", query: "status=deleted", heading: "Deleted jobs"},
}

// listed returns the count whose jobs the state of a queue lists, nil for all
// jobs.
func listed(d *state.Document) *count {
	for i := range counts {
		name, value, ok := strings.Cut(counts[i].query, "=")
		if ok && d.Text("jobs"+sentence(name)) == value {
			return &counts[i]
		}
	}
	return nil
}

func tilesOf(d *state.Document) (tiles []tile) {
	here := listed(d)
	for i := range counts {
		c := &counts[i]
		n := d.Text(c.property)
		t := tile{Label: c.label, Count: grouped(n)}
		switch {
		case c.query != "":
			t.Ref = state.XHTML.Ask(d.Subject + "?" + c.query)
		case d.Base != "":
			t.Ref = d.Base.Ref("workers", lastSegment(d.Subject))
		}
		var class []string
		if c == here {
			class = append(class, "here")
		}
		if c.bad && n != "0" {
			class = append(class, "stop")
		}
		t.Class = strings.Join(class, " ")
		tiles = append(tiles, t)
	}
	return tiles
}

// jobList returns the jobs in the state of a queue; those in v have rows.
func jobList(d *state.Document, v *rest.View) *list {
	l := &list{Heading: "Jobs"}
	part := listed(d)
	if part != nil {
		l.Heading = part.heading
	}
	if s := d.Text("jobsBatch"); s != "" {
		l.Heading += " of batch " + s
	}
	refs := d.Items("jobStates")
	if len(v.Jobs) == 0 {
		l.Names = linksTo(refs)
	} else {
		l.Rows = rows(refs, v)
	}
	if next := d.Text("jobsNext"); next != "" {
		l.Next = state.XHTML.Ask(next)
	}
	l.Unlisted = len(refs) == 0 && d.Text("jobsLimit") == "0" && hasJobs(d)
	if d.Text("jobsAfter") != "" || part != nil || l.Unlisted {
		l.All = state.XHTML.Ask(d.Subject)
	}
	return l
}

func hasJobs(d *state.Document) bool {
	for _, count := range []string{"numPendingJobs", "numCompletedJobs", "numDeletedJobs"} {
		if n := d.Text(count); n != "" && n != "0" {
			return true
		}
	}
	return false
}

// linksTo returns links with the last segments of references.
func linksTo(refs []string) (links []link) {
	for _, ref := range refs {
		links = append(links, link{state.XHTML.Ask(ref), lastSegment(ref)})
	}
	return links
}

// open takes the references from links to pages that the reader may not read.
func open(d *state.Document, v *rest.View, links []link) []link {
	for i := range links {
		ref, _, _ := strings.Cut(links[i].Ref, "?")
		if v.May != nil && !v.May(http.MethodGet, strings.TrimPrefix(ref, string(d.Base))) {
			links[i].Ref = ""
		}
	}
	return links
}

// rows returns a row for each reference; the jobs in v are in the same order, and
// some can be missing.
func rows(refs []string, v *rest.View) (all []row) {
	jobs := v.Jobs
	for _, ref := range refs {
		name := lastSegment(ref)
		for len(jobs) > 0 && jobs[0].ID.String() < name {
			jobs = jobs[1:]
		}
		if len(jobs) == 0 || jobs[0].ID.String() != name {
			all = append(all, row{Ref: state.XHTML.Ask(ref), ID: name})
			continue
		}
		d := state.OfJob("", &jobs[0])
		all = append(all, newRow(&d, ref, v.Now))
	}
	return all
}

// newRow returns the row of the job whose state is at ref.
func newRow(d *state.Document, ref string, now time.Time) row {
	submitted, _ := time.Parse(time.RFC3339Nano, d.Text("submitted"))
	r := row{Ref: state.XHTML.Ask(ref), ID: d.Text("identifier"), Badges: badges(d), File: clipped(d.Text("filename")),
		Note: clipped(noteOf(d)), Size: grouped(d.Text("size")), Submitted: submitted.Format(time.DateTime)}
	if !now.IsZero() {
		r.Ago = state.Ago(now, submitted)
	}
	return r
}

// A moment is one event of a job. The job file has the last one of each kind.
type moment struct {
	At, What, Text string
	Batch          *link
	Class          string
	at             time.Time
}

// timeline returns what the state of a job says about its life, in order.
func timeline(d *state.Document) (all []moment) {
	date := func(name string) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, d.Text(name))
		return t
	}
	add := func(name, what, class string, texts ...string) {
		if t := date(name); !t.IsZero() {
			texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
			all = append(all, moment{At: t.UTC().Format(time.DateTime), What: what, Text: strings.Join(texts, ", "), Class: class, at: t})
		}
	}
	after := func(name string, since ...time.Time) string {
		var last time.Time
		for _, t := range since {
			if t.After(last) {
				last = t
			}
		}
		t := date(name)
		if t.IsZero() || last.IsZero() || t.Before(last) {
			return ""
		}
		return "after " + lasting(t.Sub(last).Seconds())
	}
	prefixed := func(prefix, text string) string {
		if text == "" {
			return ""
		}
		return prefix + text
	}
	add("submitted", "submitted", "", prefixed("by ", d.Text("owner")), prefixed("with ", d.Text("submitter")))
	if batch := d.Text("batch"); batch != "" && len(all) > 0 && d.Base != "" {
		all[0].Batch = &link{d.Base.Ref("batches", lastSegment(d.Text("queueState")), batch), batch}
	}
	requeues := ""
	if n := d.Text("numRequeues"); n != "" && n != "1" && n != "0" {
		requeues = n + " times in all"
	}
	add("requeued", "put back", "", requeues)
	add("updated", "described anew", "")
	add("held", "put on hold", "warn", d.Text("heldFor"))
	add("consumed", "taken", "cool", prefixed("by ", d.Text("consumer")), prefixed("attempt ", d.Text("numAttempts")), after("consumed", date("submitted"), date("requeued")))
	outcome := d.Text("outcome")
	add("finished", cmp.Or(outcome, "finished")+forGood(d), kinds[outcome], after("finished", date("consumed")), d.Text("message"))
	add("deleted", "deleted", "")
	if outcome == "" {
		add("leaseExpires", "lease ends", "dim")
	}
	add("heldUntil", "released by itself", "dim")
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	return all
}

// forGood says whether another attempt at a failed job may go better.
func forGood(d *state.Document) string {
	switch d.Text("errorType") {
	case "fatal":
		return " for good"
	case "transient":
		return " for now"
	}
	return ""
}
