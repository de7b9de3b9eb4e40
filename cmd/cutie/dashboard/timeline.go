package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/state"
)

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
