package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"cutie/queuefs/home"
	"cutie/queuefs/job"
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
		Hint: "An empty field unsets a setting. What others set meanwhile stays. " +
			"The command cutie set has the name and the callback, too."}
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
		label := sentence(strings.Trim(before+kind+after, ": "))
		f := input{Kind: "text", Name: p.Name, Label: label, Value: d.Text(p.Name), Seen: true}
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
	n := figure(len(c.Changed))
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
