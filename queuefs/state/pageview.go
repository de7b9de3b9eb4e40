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
	// Lease is the token of the lease by which the reader has the job; "": none.
	// The page shows it, and has the forms of a consumer.
	Lease string
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
