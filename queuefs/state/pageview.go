package state

import (
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// A View is what a page shows besides the state, which has no part in its other
// forms. The zero View is that of a page for everyone, at no certain time.
type View struct {
	// Now is what dates are told as far from; zero: only the dates are told.
	Now time.Time
	// Jobs are the jobs of jobStates, in their order, each of which gets a row.
	// Those that are missing are shown by their identifiers.
	Jobs []queuefs.Job
	// May tells whether the reader may send a request to a path below the base,
	// such as "/hold/q/j000000000042". nil: the reader may do everything.
	May func(method, path string) bool
}

// Ago returns how far a date is from now, such as "3 minutes ago" and "in 2
// days".
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	before, behind := "", " ago"
	if d < 0 {
		d, before, behind = -d, "in ", ""
	}
	if d < time.Second {
		return "just now"
	}
	n, unit := int64(d/time.Second), "second"
	for _, u := range [...]struct {
		name string
		size time.Duration
	}{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}, {"year", 365 * 24 * time.Hour}} {
		if d >= 2*u.size || d >= u.size && u.name == "minute" {
			n, unit = int64(d/u.size), u.name
		}
	}
	if n != 1 {
		unit += "s"
	}
	return before + strconv.FormatInt(n, 10) + " " + unit + behind
}

// octetsText returns a number of octets with three digits and a unit, "" if
// that says no more than the number.
func octetsText(n int64) string {
	if n < 1000 {
		return ""
	}
	f, unit := float64(n), 0
	for ; f >= 999.5; unit++ {
		f /= 1000
	}
	text := strconv.FormatFloat(f, 'g', 3, 64)
	return text + " " + "kMGTPE"[unit-1:unit] + "B"
}

// kinds are the classes of the badges of words that need a second look or none.
var kinds = map[string]string{
	"pending": "cool", "fetching": "cool", "leased": "cool",
	"running": "good", "completed": "good", "done": "good",
	"paused": "warn", "closed": "warn", "on hold": "warn", "aborted": "warn", "transient": "warn",
	"error": "bad", "failed": "bad", "fatal": "bad",
}

func appendBadge(dst []byte, word string) []byte {
	dst = append(dst, `<span class="badge`...)
	if kind := kinds[word]; kind != "" {
		dst = append(append(dst, ' '), kind...)
	}
	dst = appendEscaped(append(dst, `">`...), word, false)
	return append(dst, "</span>"...)
}

// badges are what is to be seen of the document at once.
func (d *Document) badges() (words []string) {
	if s := d.text("status"); s != "" && d.Class != ExceptionClass {
		words = append(words, s)
	}
	if d.text("closed") == "true" {
		words = append(words, "closed")
	}
	if d.text("held") != "" && d.text("status") == queuefs.Pending.String() {
		words = append(words, "on hold")
	}
	if d.inWork() {
		words = append(words, "leased")
	}
	if s := d.text("outcome"); s != "" {
		words = append(words, s)
	}
	return words
}

// inWork tells whether a consumer of the job is still to report.
func (d *Document) inWork() bool {
	return d.Class == JobClass && d.text("status") == queuefs.Consumed.String() && d.text("leaseExpires") != "" && d.text("outcome") == ""
}

// A tile is a number of jobs, which leads to their list if there is a query for
// it.
type tile struct {
	label, property, query string
	heading                string // of the list
	stop                   bool   // it should be nothing
}

var tiles = [...]tile{
	{label: "pending", property: "numPendingJobs", query: "status=pending", heading: "Pending jobs"},
	{label: "on hold", property: "numHeldJobs", query: "held=true", heading: "Jobs on hold"},
	{label: "consumed", property: "numCompletedJobs", query: "status=consumed", heading: "Consumed jobs"},
	{label: "in work", property: "numLeasedJobs"},
	{label: "failed", property: "numFailedJobs", query: "outcome=error", heading: "Failed jobs", stop: true},
	{label: "deleted", property: "numDeletedJobs", query: "status=deleted", heading: "Deleted jobs"},
}

// listed returns the tile whose jobs the state of a queue lists, nil for all.
func (d *Document) listed() *tile {
	for i := range tiles {
		name, value, ok := strings.Cut(tiles[i].query, "=")
		if ok && d.text("jobs"+strings.ToUpper(name[:1])+name[1:]) == value {
			return &tiles[i]
		}
	}
	return nil
}

func (d *Document) appendTiles(dst []byte) []byte {
	here := d.listed()
	dst = append(dst, "<ul class=\"tiles\">\n"...)
	for i := range tiles {
		t := &tiles[i]
		n := d.text(t.property)
		var class []string
		if t == here {
			class = append(class, "here")
		}
		if t.stop && n != "0" {
			class = append(class, "stop")
		}
		if t.query == "" {
			dst = append(append(dst, "<li><span><b>"...), grouped(n)...)
			dst = append(append(append(dst, "</b> <em>"...), t.label...), "</em></span></li>\n"...)
			continue
		}
		dst = append(dst, "<li><a"...)
		if class != nil {
			dst = append(append(append(dst, ` class="`...), strings.Join(class, " ")...), '"')
		}
		dst = appendEscaped(append(dst, ` href="`...), asking(d.Subject+"?"+t.query, XHTML), true)
		dst = append(append(dst, `"><b>`...), grouped(n)...)
		dst = append(append(append(dst, "</b> <em>"...), t.label...), "</em></a></li>\n"...)
	}
	return append(dst, "</ul>\n"...)
}

// grouped puts a comma before every three digits, for people.
func grouped(n string) string {
	for i := len(n) - 3; i > 0 && n[i-1] != '-'; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// appendJobs appends what the state of a queue lists.
func (d *Document) appendJobs(dst []byte, v *View) []byte {
	heading := "Jobs"
	if t := d.listed(); t != nil {
		heading = t.heading
	}
	if s := d.text("jobsBatch"); s != "" {
		heading += " of batch " + s
	}
	dst = append(appendEscaped(append(dst, "<h2>"...), heading, false), "</h2>\n"...)
	refs := d.items("jobStates")
	switch {
	case len(refs) == 0:
		dst = append(dst, "<p class=\"none\">None.</p>\n"...)
	case len(v.Jobs) == 0:
		dst = appendNames(dst, refs)
	default:
		dst = appendRows(dst, refs, v)
	}
	next := d.text("jobsNext")
	if next == "" && d.text("jobsAfter") == "" && d.listed() == nil {
		return dst
	}
	dst = append(dst, "<p>"...)
	if next != "" {
		dst = append(appendLink(dst, asking(next, XHTML), "Next jobs"), ' ')
	}
	if d.text("jobsAfter") != "" || d.listed() != nil {
		dst = appendLink(dst, asking(d.Subject, XHTML), "All jobs")
	}
	return append(dst, "</p>\n"...)
}

// appendNames appends references by their last segments.
func appendNames(dst []byte, refs []string) []byte {
	dst = append(dst, "<ul class=\"ids\">\n"...)
	for _, ref := range refs {
		_, name, _ := cutLast(ref)
		dst = append(appendLink(append(dst, "<li>"...), asking(ref, XHTML), name), "</li>\n"...)
	}
	return append(dst, "</ul>\n"...)
}

func appendRows(dst []byte, refs []string, v *View) []byte {
	dst = append(dst, `<div class="scroll"><table class="list" summary="Jobs in their order">
<tr><th scope="col">Job</th><th scope="col">Status</th><th scope="col">File</th><th scope="col" class="n">Octets</th><th scope="col" class="minor">Submitted (UTC)</th></tr>
`...)
	jobs := v.Jobs
	for _, ref := range refs {
		_, name, _ := cutLast(ref)
		dst = append(appendLink(append(dst, `<tr><td class="t">`...), asking(ref, XHTML), name), "</td>"...)
		for len(jobs) > 0 && jobs[0].ID.String() < name {
			jobs = jobs[1:]
		}
		if len(jobs) == 0 || jobs[0].ID.String() != name {
			dst = append(dst, "<td></td><td></td><td></td><td class=\"minor\"></td></tr>\n"...)
			continue
		}
		dst = appendRow(dst, &jobs[0], v.Now)
	}
	return append(dst, "</table></div>\n"...)
}

// appendRow appends the cells of a job behind the first.
func appendRow(dst []byte, j *queuefs.Job, now time.Time) []byte {
	d := OfJob("", j)
	dst = append(dst, "<td>"...)
	for _, word := range d.badges() {
		dst = append(appendBadge(dst, word), ' ')
	}
	dst = append(dst, `</td><td class="text">`...)
	dst = appendEscaped(dst, clipped(d.text("filename")), false)
	if note := clipped(d.text("message") + d.text("heldFor")); note != "" {
		dst = append(appendEscaped(append(dst, ` <span class="dim">`...), note, false), "</span>"...)
	}
	dst = append(append(append(dst, `</td><td class="n">`...), grouped(d.text("size"))...), `</td><td class="t minor">`...)
	dst = j.Submitted.UTC().AppendFormat(dst, "2006-01-02 15:04:05")
	if !now.IsZero() {
		dst = append(append(append(dst, ` <span class="dim">`...), Ago(now, j.Submitted)...), "</span>"...)
	}
	return append(dst, "</td></tr>\n"...)
}

// clipped returns the beginning of a text that would be long for a row.
func clipped(s string) string {
	const most = 80
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
