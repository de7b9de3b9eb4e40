package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A Search is what a reader looks for, as text, and what was found.
type Search struct {
	Queue   string
	Query   url.Values
	Jobs    []queuefs.Job // the newest first
	Looked  int           // jobs looked at
	Reached queuefs.JobID // where to go on; 0: at the first job of the queue
}

// FindFields are the fields of a search, in the order of the page.
var FindFields = []string{"text", "status", "outcome", "held", "batch", "submitter", "worker", "since", "until"}

// ofFilter are the fields that methods for many jobs know.
var ofFilter = []string{"status", "outcome", "held", "batch", "submitter"}

// BulkMethods are the methods for many jobs.
var BulkMethods = []string{"requeue", "release", "hold", "delete"}

type findField struct {
	Name, Label, Value, Hint string
	Choices                  []string
}

type findPage struct {
	head
	Self, Bulk, Looked, More string
	Fields                   []findField
	List                     *jobsList
	Methods                  []string
	All                      []link
}

// Find returns the page of a search.
func Find(v Site, s *Search, now time.Time) []byte {
	p := &findPage{head: v.head("Find jobs of queue "+s.Queue, crumb{"step", v.page("state", s.Queue), s.Queue}, crumb{Class: "step", Text: "Find"}),
		Self: v.Base.Ref("find", s.Queue), Bulk: v.Base.Ref("bulk", s.Queue)}
	labels := map[string]findField{
		"text":    {Label: "Name, sidecar or message has", Hint: "in any case"},
		"status":  {Label: "Status", Choices: []string{"pending", "consumed", "deleted"}},
		"outcome": {Label: "Outcome", Choices: []string{"completed", "error", "aborted"}},
		"held":    {Label: "On hold", Choices: []string{"true"}},
		"batch":   {Label: "Batch"}, "submitter": {Label: "Submitter"}, "worker": {Label: "Worker has"},
		"since": {Label: "Submitted since (UTC)", Hint: "2026-01-31T12:00Z"}, "until": {Label: "Submitted until (UTC)", Hint: "2026-02-01T12:00Z"},
	}
	for _, name := range FindFields {
		f := labels[name]
		f.Name, f.Value = name, clean(s.Query.Get(name))
		p.Fields = append(p.Fields, f)
	}
	p.List = newJobsList(v.Base, jobsList{}, s.Jobs, now)
	for _, m := range fitting(s.Query) {
		if v.may("POST", v.Base.Ref(m, s.Queue)) {
			p.Methods = append(p.Methods, m)
		}
	}
	p.Looked = fmt.Sprintf("%d found of %s jobs looked at, ", len(s.Jobs), grouped(fmt.Sprint(s.Looked)))
	if s.Reached == 0 {
		p.Looked += "back to the first one of the queue."
	} else {
		p.Looked += "back to " + s.Reached.String() + "."
		more := url.Values{}
		for name, values := range s.Query {
			more[name] = values
		}
		more.Set("before", s.Reached.String())
		p.More = p.Self + "?" + more.Encode()
	}
	filter, all := url.Values{}, true
	for _, name := range FindFields {
		switch value := s.Query.Get(name); {
		case value == "":
		case slices.Contains(ofFilter, name):
			filter.Set(name, value)
		default:
			all = false
		}
	}
	if all && len(filter) > 0 {
		for _, m := range p.Methods {
			filter.Set("method", m)
			p.All = append(p.All, link{p.Bulk + "?" + filter.Encode(), m})
		}
	}
	return v.write("find", p)
}

// A Bulk is a change of many jobs before it is made.
type Bulk struct {
	Queue, Method string
	Query         url.Values // of the selection
	Jobs          []queuefs.JobID
	Refused       []string
	More          bool // than one call changes
}

type bulkPage struct {
	head
	Count, Action, Legend, Button, Undo, Back string
	Danger                                    bool
	Names                                     []link
	Refused                                   []string
	Hidden                                    []link
	Fields                                    []field
}

// bulkNames is how many jobs a preview names.
const bulkNames = 40

// BulkPreview returns the page before a change of many jobs.
func BulkPreview(v Site, b *Bulk) []byte {
	p := &bulkPage{head: v.head(strings.ToUpper(b.Method[:1])+b.Method[1:]+" jobs of queue "+b.Queue+"?", crumb{"step", v.page("state", b.Queue), b.Queue}, crumb{Class: "step", Text: b.Method}),
		Back: v.Base.Ref("find", b.Queue), Danger: b.Method == "delete"}
	if found := searched(b.Query); len(found) > 0 {
		p.Back += "?" + found.Encode()
	}
	n := grouped(fmt.Sprint(len(b.Jobs)))
	switch {
	case len(b.Jobs) == 0:
		p.Count = "No job of this choice would be " + past[b.Method] + "."
	case b.More:
		p.Count = "The first " + n + " jobs of this choice would be " + past[b.Method] + ", and there are more."
	case len(b.Jobs) == 1:
		p.Count = "1 job would be " + past[b.Method] + "."
	default:
		p.Count = n + " jobs would be " + past[b.Method] + "."
	}
	for i, id := range b.Jobs {
		if i == bulkNames {
			break
		}
		p.Names = append(p.Names, link{v.page("state", b.Queue, id.String()), id.String()})
	}
	p.Refused = b.Refused
	if ref := v.Base.Ref(b.Method, b.Queue); len(b.Jobs) > 0 && v.may("POST", ref) {
		p.Action, p.Legend, p.Button = state.XHTML.Ask(ref), strings.ToUpper(b.Method[:1])+b.Method[1:]+" these jobs", "Yes, "+b.Method+" "+n
		for name, values := range b.Query {
			for _, value := range values {
				p.Hidden = append(p.Hidden, link{name, value})
			}
		}
		if b.Method == "hold" {
			p.Fields = []field{reason, until}
		}
		p.Undo = undo[b.Method]
	} else if len(b.Jobs) > 0 {
		p.Refused = append(p.Refused, "You have no right to "+b.Method+" jobs of this queue.")
	}
	return v.write("bulk", p)
}

// searched are the fields of a search in the query of a change.
func searched(query url.Values) url.Values {
	found := url.Values{}
	for _, name := range FindFields {
		if value := query.Get(name); value != "" {
			found.Set(name, value)
		}
	}
	return found
}

var undo = map[string]string{
	"requeue": "Jobs wait again in their old places. Jobs in work are left out.",
	"release": "Consumers get them again. The next page can undo it: hold.",
	"hold":    "Consumers pass them over. The next page can undo it: release.",
	"delete":  "They leave the queue. The next page can undo it until they are culled: requeue.",
}
