package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// An action is a form for something the reader may do. It posts, and asks for a
// page as its answer.
type action struct {
	Action, Media, Legend, Hint string
	Ask                         string // opens the form; "" shows it at once
	Lease                       string // token, hidden in the form
	Fields                      []input
	Buttons                     []button
}

// sets reports whether the action sets settings.
func (a action) sets() bool {
	return slices.ContainsFunc(a.Fields, func(f input) bool { return f.Seen })
}

// A field of a form; Kind is the type of an input, "lines" for several lines of text, or
// "choice" for one of Choices.
type input struct {
	Kind, Name, Label, Value string
	Choices                  []string
	Required                 bool
	Seen                     bool // the form tells its value of now, too
	Many                     bool // of files
}

type button struct {
	Name, Value, Label string
	Danger             bool
}

var (
	message = input{Kind: "text", Name: "message", Label: "Message"}
	reason  = input{Kind: "text", Name: "reason", Label: "Reason"}
	until   = input{Kind: "text", Name: "until", Label: "Until, such as 2026-11-25T08:00Z; empty for no end"}
)

// actions returns the forms for everything the reader may do with the document.
func actions(d *state.Document, v *rest.View) []action {
	var all []action
	add := func(method string, a action) {
		// Below /state stand the queue and the job of the document.
		a.Action = d.Base.Ref(method) + strings.TrimPrefix(d.Subject, d.Base.Ref("state"))
		if v.May == nil || v.May("POST", strings.TrimPrefix(a.Action, string(d.Base))) {
			a.Action = state.XHTML.Ask(a.Action)
			all = append(all, a)
		}
	}
	switch {
	case v.Mirror:
	case d.Class == state.ServiceClass:
		add("state", createQueue)
	case d.Class == state.QueueClass:
		queueActions(d, add)
	case d.Class != state.JobClass:
	case inWork(d):
		if v.Lease != "" {
			leaseActions(v.Lease, add)
		}
		add("abort", action{Legend: "Take the job out of work", Fields: []input{message}, Buttons: []button{{Label: "Abort", Danger: true}}})
	case d.Text("status") == job.Consumed.String(), d.Text("status") == job.Deleted.String():
		legend := "Run it again, in its old place"
		if d.Text("outcome") == "" {
			legend = "Undo: put the job back in its place"
		}
		add("requeue", action{Legend: legend, Buttons: []button{{Label: "Requeue"}}})
	default:
		if d.Text("held") != "" {
			add("release", action{Legend: "Undo: let the job be taken again", Buttons: []button{{Label: "Release"}}})
		} else {
			add("hold", action{Legend: "Keep the job from being taken", Fields: []input{reason, until}, Buttons: []button{{Label: "Hold"}}})
		}
		add("delete", action{Legend: "Take the job out of the queue", Buttons: []button{{Label: "Delete", Danger: true}}})
	}
	return all
}

// createQueue makes a queue; its Action is to be set.
var createQueue = action{Legend: "Create a queue", Fields: []input{
	{Kind: "text", Name: "identifier", Label: "Identifier", Required: true},
	{Kind: "text", Name: "name", Label: "Name, if it is another"},
	{Kind: "text", Name: "description", Label: "Description"},
}, Buttons: []button{{Label: "Create"}}}

func queueActions(d *state.Document, add func(method string, a action)) {
	if !isMirror(d) {
		ofQueue(d.Text("status") != "paused", d.Text("closed") != "true", add)
		add("state", settingsOf(d))
	}
}

// settingsOf is the form of the properties of a queue, filled in. It has those that may change
// and whose value the state tells: of a callback it tells a part, and not whether a name is set.
func settingsOf(d *state.Document) action {
	a := action{Legend: "Settings", Ask: "Change settings", Buttons: []button{{Label: "Set"}},
		Hint: "An empty field unsets a setting. What others set meanwhile stays. The command cutie set has the name and the callback, too."}
	for i := range home.Properties {
		p := &home.Properties[i]
		if p.Fixed || p.URI || p.Name == "name" || p.Kind() == home.Date {
			continue
		}
		before, rest, _ := strings.Cut(p.Help, "`")
		kind, after, _ := strings.Cut(rest, "`")
		if p.Words != nil { // the choices say them
			kind = ""
		}
		f := input{Kind: "text", Name: p.Name, Label: sentence(strings.Trim(before+kind+after, ": ")), Value: d.Text(p.Name), Seen: true}
		if p.Kind() == home.Number && f.Value == p.Unset {
			f.Value = ""
		}
		words := p.Words
		if p.Kind() == home.Truth {
			words, f.Value = []string{"false", "true"}, cmp.Or(f.Value, "false")
		} else if words != nil && p.Unset == "" {
			words = slices.Concat([]string{""}, words)
		}
		if words != nil {
			f.Kind, f.Choices = "choice", words
		}
		a.Fields = append(a.Fields, f)
	}
	return a
}

// ofQueue adds the actions of a queue by its settings.
func ofQueue(running, open bool, add func(method string, a action)) {
	if open {
		add("content", action{Legend: "Submit a job", Media: "multipart/form-data", Fields: []input{
			{Kind: "file", Name: "file", Label: "File, or files", Required: true, Many: true},
			{Kind: "lines", Name: "sidecar", Label: "Sidecar, text that goes with one file"},
		}, Buttons: []button{{Label: "Submit"}}})
	}
	if !running {
		add("state", action{Legend: "Hand out jobs again", Buttons: []button{{Name: "S", Value: "restart", Label: "Restart"}}})
		return
	}
	// A slip would take a job away from its consumers.
	add("consume", action{Legend: "Take a job", Ask: "Take the next job",
		Hint:    "The first pending job that is not on hold becomes consumed: no other consumer gets it. Take it?",
		Buttons: []button{{Label: "Yes, take it", Danger: true}}})
	pause := action{Legend: "Hand out no more jobs", Buttons: []button{{Name: "S", Value: "pause", Label: "Pause"}}}
	if open {
		pause.Hint = "Submissions are still taken."
	}
	add("state", pause)
}

// leaseActions are for the reader with the lease of the job.
func leaseActions(token string, add func(method string, a action)) {
	for _, l := range []struct {
		method string
		action
	}{
		{"outcome", action{Legend: "Report that the job is done", Fields: []input{message},
			Buttons: []button{{Name: "outcome", Value: "completed", Label: "Completed"}}}},
		{"outcome", action{Legend: "Report that the job has failed", Fields: []input{{Kind: "hidden", Name: "outcome", Value: "error"}, message},
			Buttons: []button{{Name: "type", Value: "transient", Label: "Failed for now", Danger: true}, {Name: "type", Value: "fatal", Label: "Failed for good", Danger: true}}}},
		{"outcome", action{Legend: "Leave the job to others", Fields: []input{message},
			Buttons: []button{{Name: "outcome", Value: "released", Label: "Give back"}}}},
		{"lease", action{Legend: "Keep the job for longer", Buttons: []button{{Label: "Extend the lease"}}}},
	} {
		l.Lease = token
		add(l.method, l.action)
	}
}

// opposite are the methods for many jobs and those undoing them. Nothing brings outcomes and
// attempts of requeued jobs back; hold keeps workers from them.
var opposite = map[string]string{"hold": "release", "release": "hold", "delete": "requeue", "requeue": "hold"}

// past says in a word that jobs were changed by a method.
var past = map[string]string{"hold": "put on hold", "release": "released", "delete": "deleted", "requeue": "requeued"}

// An undoForm asks for the preview of the change back.
type undoForm struct{ Action, Method, Jobs, Label, Hint string }

// tellChanges says above the state of a queue what a method has changed in it.
func (p *statePage) tellChanges(d *state.Document, v *rest.View) {
	c, err := d.Changes()
	if err != nil {
		return
	}
	n := grouped(fmt.Sprint(len(c.Changed)))
	p.Lead, p.List, p.Actions, p.Saved = "", nil, nil, ""
	done := note{"good", n + " jobs were " + past[v.Changed] + "."}
	switch len(c.Changed) {
	case 0:
		done = note{"warn", "No job was " + past[v.Changed] + "."}
	case 1:
		done.Text = "1 job was " + past[v.Changed] + "."
	}
	if c.More {
		done.Text += " There are more: the same change may be made again."
	}
	p.Notes = append(p.Notes, done)
	if len(c.Refused) > 0 {
		p.Notes = append(p.Notes, note{"warn", "Not changed: " + strings.Join(c.Refused, "\n")})
	}
	queue := lastSegment(d.Subject)
	back := opposite[v.Changed]
	if len(c.Changed) == 0 || back == "" || !v.Reads(d) || v.May != nil && !v.May("POST", d.Base.Ref(back, queue)[len(d.Base):]) {
		return
	}
	p.Undo = &undoForm{Action: d.Base.Ref("bulk", queue), Method: back, Jobs: ranges(c.Changed), Label: "Undo: " + back + " " + n + " …", Hint: "The next page says how many change."}
	if v.Changed == "requeue" {
		p.Undo.Label, p.Undo.Hint = "Hold these "+n+" …", "Workers can take them now. A requeue has no undo: it drops outcomes and attempts. Jobs on hold are not taken."
	}
}

// ranges prints jobs in order, such as "j000000000001-j000000000020 j000000000031".
func ranges(ids []job.ID) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		end := i
		for end+1 < len(ids) && ids[end+1] == ids[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(ids[i].String())
		if end > i {
			b.WriteString("-" + ids[end].String())
		}
		i = end + 1
	}
	return b.String()
}

// A Batch is jobs submitted together, counted.
type Batch struct {
	ID                string
	Submitted         time.Time
	Submitter, Owner  string
	Jobs              int // at the submission
	Pending, Held     int
	Consumed, InWork  int
	Completed, Failed int
	Deleted           int
}

// gone is how many jobs are culled.
func (b *Batch) gone() int { return b.Jobs - b.Pending - b.Consumed - b.Deleted }

// Batches are those of a queue, the newest first.
type Batches struct {
	Queue   string
	Coming  []state.Batch // without jobs: manifests on their way, or failed
	Batches []Batch
	Looked  int    // jobs read
	Reached job.ID // where to go on; 0: at the first job of the queue
}

type batchesPage struct {
	head
	Coming []comingRow
	Rows   []batchRow
	More   string
	Note   string
}

// A comingRow is a batch without jobs.
type comingRow struct {
	Ref                         string // "": it has no page
	Text, Status, Files, Octets string
	Submitted, Ago, Detail      string
}

// comingShown is how many batches without jobs a page has.
const comingShown = 20

type batchRow struct {
	link
	Counts         [6]string // jobs, pending, in work, consumed, failed, deleted or culled
	Failed         string    // URL of the failed ones; "": none
	Submitted, Ago string
	By             string
}

// ListBatches returns the page of the batches of a queue.
func ListBatches(v Site, l *Batches, now time.Time) []byte {
	p := &batchesPage{head: v.head("Batches of queue "+l.Queue, crumb{"step", v.page("state", l.Queue), l.Queue}, crumb{Class: "step", Text: "Batches"})}
	for i := range l.Coming[:min(len(l.Coming), comingShown)] {
		b := &l.Coming[i]
		r := comingRow{Text: "with a waiting submitter", Status: string(b.Status), Files: grouped(fmt.Sprint(b.Fetched)) + " of " + grouped(fmt.Sprint(b.Lines)),
			Octets: grouped(fmt.Sprint(b.Octets)), Submitted: b.Created.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Created), Detail: clipped(clean(b.Detail))}
		if b.ID != "" {
			r.Ref, r.Text = v.page("batch", l.Queue, b.ID), b.ID
		}
		if len(b.Errors) > 0 {
			r.Detail = clipped(clean(b.Errors[0]))
		}
		p.Coming = append(p.Coming, r)
	}
	for i := range l.Batches {
		b := &l.Batches[i]
		r := batchRow{link: link{v.Base.Ref("batches", l.Queue, b.ID), b.ID}, Submitted: b.Submitted.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Submitted), By: b.by()}
		for i, n := range [...]int{b.Jobs, b.Pending, b.InWork, b.Consumed, b.Failed, b.Deleted + b.gone()} {
			r.Counts[i] = grouped(fmt.Sprint(n))
		}
		if b.Failed > 0 {
			r.Failed = b.find(v, l.Queue, "outcome", "error")
		}
		p.Rows = append(p.Rows, r)
	}
	if l.Reached != 0 {
		p.Note = "Looked back to " + l.Reached.String() + "."
		p.More = v.Base.Ref("batches", l.Queue) + "?before=" + l.Reached.String()
	}
	return v.write("batches", p)
}

// by says who has submitted a batch.
func (b *Batch) by() string {
	if b.Owner != "" {
		return clipped(clean(b.Owner))
	}
	return clipped(clean(b.Submitter))
}

// find returns the URL of a search within the batch.
func (b *Batch) find(v Site, queue string, pairs ...string) string {
	q := url.Values{"batch": {b.ID}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return v.Base.Ref("find", queue) + "?" + q.Encode()
}

// A BatchPage is what the page of a batch shows.
type BatchPage struct {
	Queue string
	Batch
	Failures, Newest []job.Job // the last ones first
}

type onePage struct {
	head
	Lead, Done string
	Tiles      []tile
	Lists      []*jobsList
	All        []link // changes of all jobs, before they are made
}

// OneBatch returns the page of a batch.
func OneBatch(v Site, b *BatchPage, now time.Time) []byte {
	p := &onePage{head: v.head("Batch "+b.ID, crumb{"step", v.page("state", b.Queue), b.Queue}, crumb{"step", v.Base.Ref("batches", b.Queue), "Batches"}, crumb{Class: "step", Text: b.ID})}
	p.Lead = fmt.Sprintf("%s jobs, submitted %s by %s", grouped(fmt.Sprint(b.Jobs)), state.Ago(now, b.Submitted), b.by())
	done := b.Consumed - b.InWork + b.Deleted + b.gone()
	p.Done = fmt.Sprintf("%s of %s done, %d%%.", grouped(fmt.Sprint(done)), grouped(fmt.Sprint(b.Jobs)), 100*done/max(b.Jobs, 1))
	for _, t := range []struct {
		label string
		n     int
		find  []string
	}{
		{"pending", b.Pending, []string{"status", "pending"}}, {"on hold", b.Held, []string{"held", "true"}}, {"in work", b.InWork, nil},
		{"consumed", b.Consumed, []string{"status", "consumed"}}, {"completed", b.Completed, []string{"outcome", "completed"}},
		{"failed", b.Failed, []string{"outcome", "error"}}, {"deleted", b.Deleted, []string{"status", "deleted"}}, {"culled", b.gone(), nil},
	} {
		tile := tile{Label: t.label, Count: grouped(fmt.Sprint(t.n))}
		if t.find != nil {
			tile.Ref = b.find(v, b.Queue, t.find...)
		}
		if t.label == "failed" && t.n > 0 {
			tile.Class = "stop"
		}
		p.Tiles = append(p.Tiles, tile)
	}
	if len(b.Failures) > 0 {
		p.Lists = append(p.Lists, newJobsList(v.Base, jobsList{ID: "failed", Heading: "Failed", Worked: true, All: b.find(v, b.Queue, "outcome", "error")}, b.Failures, now))
	}
	p.Lists = append(p.Lists, newJobsList(v.Base, jobsList{ID: "newest", Heading: "Jobs", None: "None.", All: b.find(v, b.Queue)}, b.Newest, now))
	for _, m := range []struct {
		method, text string
		of           []string
	}{
		{"requeue", "requeue the failed", []string{"outcome", "error"}}, {"hold", "hold the pending", []string{"status", "pending"}},
		{"release", "release those on hold", []string{"held", "true"}}, {"delete", "delete the pending", []string{"status", "pending"}},
	} {
		if v.may("POST", v.Base.Ref(m.method, b.Queue)) {
			q := url.Values{"batch": {b.ID}, "method": {m.method}, m.of[0]: {m.of[1]}}
			p.All = append(p.All, link{v.Base.Ref("bulk", b.Queue) + "?" + q.Encode(), m.text})
		}
	}
	return v.write("batch", p)
}

// fitting returns the methods of BulkMethods with an effect on jobs of a choice.
func fitting(query url.Values) (methods []string) {
	for _, m := range BulkMethods {
		pending, outcome := query.Get("status") == "pending" || query.Get("held") == "true", query.Get("outcome") != ""
		past := query.Get("status") == "consumed" || query.Get("status") == "deleted" || outcome
		if m == "requeue" && !pending || m != "requeue" && !past && (m != "hold" || query.Get("held") != "true") {
			methods = append(methods, m)
		}
	}
	return methods
}

// batchesShown is how many batches a page lists.
const batchesShown = 50

// batches answers with the batches of a queue, the newest first. Jobs of a batch stand
// together, so one of each is read; jobs of no batch are read one by one, within the bounds
// of a page.
func (b *Board) batches(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	var bad error
	before := parsed(&bad, r.URL.Query().Get("before"), "before", job.ParseID)
	if bad != nil {
		return bad
	}
	l := &Batches{Queue: q.ID(), Reached: before}
	if before == 0 && b.Batches != nil {
		l.Coming = b.Batches(q.ID())
	}
	for end := time.Now().Add(maxTime); len(l.Batches) < batchesShown && l.Looked < maxRead && (l.Looked == 0 || time.Now().Before(end)); {
		ids, reached := q.Latest(index.Filter{Limit: 1}, l.Reached, maxLooked)
		if l.Reached = reached; len(ids) == 0 {
			break
		}
		l.Looked++
		j, err := q.Job(ids[0])
		if err != nil || j.Batch == "" {
			continue
		}
		first, last, err := bulk.BatchRange(q, j.Batch)
		if err != nil {
			continue
		}
		l.Batches = append(l.Batches, countBatch(q, &j, first, last))
		if l.Reached = first; first <= 1 {
			l.Reached = 0
			break
		}
	}
	return answer(w, ListBatches(b.site(r, ""), l, time.Now()))
}

// countBatch counts the jobs of a batch from its first to its last number, with j one of
// them. Culled jobs are gone.
func countBatch(q *queuefs.Queue, j *job.Job, first, last job.ID) Batch {
	count := func(o index.Filter) (n int) {
		o.Limit = int(last-first) + 1
		ids, _ := q.Latest(o, last+1, o.Limit)
		for _, id := range ids {
			if id >= first {
				n++
			}
		}
		return n
	}
	c := Batch{ID: j.Batch, Submitted: j.Submitted, Submitter: j.Submitter, Owner: j.Owner, Jobs: int(last-first) + 1,
		Pending: count(index.Filter{Status: job.Pending}), Held: count(index.Filter{Held: true}),
		Consumed: count(index.Filter{Status: job.Consumed}), Completed: count(index.Filter{Outcome: job.Completed}),
		Failed: count(index.Filter{Outcome: job.Failed}), Deleted: count(index.Filter{Status: job.Deleted})}
	for _, id := range q.Leased() {
		if id >= first && id <= last {
			c.InWork++
		}
	}
	return c
}

// batch answers with the page of one batch.
func (b *Board) batch(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	name := r.PathValue("batch")
	first, last, err := bulk.BatchRange(q, name)
	if err != nil {
		return err
	}
	one := func(o index.Filter, most int) []job.Job {
		want := query{Filter: bulk.Filter{Status: o.Status, Outcome: o.Outcome, Batch: name}, before: last + 1}
		s := &Search{Query: url.Values{}}
		want.search(q, s, first)
		return s.Jobs[:min(len(s.Jobs), most)]
	}
	some := one(index.Filter{}, AsideJobs)
	if len(some) == 0 {
		return ledger.ErrNoJob // all are gone since
	}
	p := &BatchPage{Queue: q.ID(), Batch: countBatch(q, &some[0], first, last), Newest: some}
	if p.Failed > 0 {
		p.Failures = one(index.Filter{Outcome: job.Failed}, AsideJobs)
	}
	return answer(w, OneBatch(b.site(r, ""), p, time.Now()))
}
