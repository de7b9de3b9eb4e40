package publisher

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/state"
)

// aboutPolicy is the Content-Security-Policy of the page: it asks for nothing
// and runs nothing.
const aboutPolicy = "default-src 'none'; style-src " + state.StyleHash + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page returns a page of XHTML 1.0 Strict, well-formed as HTML too.
func (a *about) page() []byte {
	var b strings.Builder
	text := html.EscapeString
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }

	p(`<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>%s</title>
<link rel="resourcesync" href="%s" />
<link rel="alternate" type="application/json" href="%s" />
<style type="text/css">%s</style>
</head>
<body>
<ul class="path">
`, text(a.Title), text(a.About), aboutData, state.PageStyle)
	if a.Queue == nil {
		p("<li>Source</li>\n")
	} else {
		p("<li>%s</li>\n<li class=\"step\">%s</li>\n<li class=\"step\">%s</li>\n", link("../../"+aboutPage, "Source"), link(a.Queue.State, a.Queue.ID), a.Set)
	}
	p("</ul>\n<h1>%s</h1>\n<p class=\"lead\">%s</p>\n", text(a.Title), text(a.Description))

	table := func(class, summary string, columns ...string) {
		p("<div class=\"scroll\"><table class=\"%s\" summary=\"%s\">\n<tr>", class, summary)
		for _, c := range columns {
			p("<th scope=\"col\">%s</th>", c)
		}
		p("</tr>\n")
	}
	p("<h2>Facts</h2>\n")
	table("state", "facts", "Name", "Value")
	for _, f := range a.facts() {
		p("<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", text(f.name), f.html)
	}
	p("</table></div>\n<h2>How to follow</h2>\n<ol>\n")
	for _, step := range a.Follow {
		p("<li>%s</li>\n", text(step))
	}
	p("</ol>\n")
	if len(a.Documents) > 0 {
		p("<h2>Documents</h2>\n")
		table("list", "documents", "Document", "What it has")
		for _, d := range a.Documents {
			p("<tr><td>%s</td><td class=\"text\">%s</td></tr>\n", link(d.URI, d.URI[strings.LastIndexByte(d.URI, '/')+1:]), text(d.Text))
		}
		p("</table></div>\n")
	}
	if len(a.Sets) > 0 {
		p("<h2>Sets</h2>\n")
		table("list", "sets", "Set", "Document")
		for _, d := range a.Sets {
			p("<tr><td class=\"text\">%s</td><td>%s</td></tr>\n", link(d.About, d.Text), link(d.URI, "Capability List"))
		}
		p("</table></div>\n")
		if more := *a.Queues - len(a.Sets)/numSets; more > 0 {
			p("<p>%d more queues stand in the %s.</p>\n", more, link(a.About, "Source Description"))
		}
	}
	p("<p class=\"foot\">The same for programs: %s</p>\n</body>\n</html>\n", link(aboutData, aboutData))
	return []byte(b.String())
}

func link(uri, text string) string {
	return `<a href="` + html.EscapeString(uri) + `">` + html.EscapeString(text) + "</a>"
}

// A fact is one row of the page; its value is XHTML.
type fact struct{ name, html string }

func (a *about) facts() (all []fact) {
	add := func(name, value string) { all = append(all, fact{name, html.EscapeString(value)}) }
	refer := func(name string, uris ...string) {
		if len(uris) == 0 || uris[0] == "" {
			return
		}
		links := make([]string, len(uris))
		for i, uri := range uris {
			links[i] = link(uri, uri)
		}
		all = append(all, fact{name, strings.Join(links, "<br />")})
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	when := func(name string, t time.Time) { add(name, t.Format(time.RFC3339Nano)) }

	add("ResourceSync version", a.Version)
	if a.Queue == nil {
		refer("Source Description", a.About)
		add("queues", strconv.Itoa(*a.Queues))
	} else {
		refer("Capability List", a.About)
		refer("queue", a.Queue.State)
		if a.Queue.Description != "" {
			add("about the queue", a.Queue.Description)
		}
		refer("properties of the queue", a.Queue.Info)
		add("jobs", fmt.Sprintf("%d pending, %d consumed, %d deleted", a.Queue.Pending, a.Queue.Consumed, a.Queue.Deleted))
		add("resources", number(*a.Resources))
		when("created", a.Queue.Created)
		when("last event", a.Queue.LastEvent)
		add("events", strconv.FormatUint(a.Queue.Events, 10))
		when("changes are listed since", a.Changes.From)
		when("the open list begins", a.Changes.OpenFrom)
		add("changes in the open list", strconv.Itoa(a.Changes.Open))
		add("closed lists", strconv.Itoa(a.Changes.Closed))
		add("packages of changes", strconv.Itoa(a.Changes.Packages))
		if a.Dump != nil {
			add("Resource Dump", fmt.Sprintf("of %s, %d packages", a.Dump.At.Format(time.RFC3339Nano), a.Dump.Packages))
		}
		add("octets published", number(*a.Octets))
	}
	add("digests", strings.Join(a.Hashes, ", "))
	refer("mirrors", a.Mirrors...)
	refer("originally from", a.Via)
	after := func(name string, seconds int64, never string) {
		if seconds == 0 {
			add(name, never)
		} else {
			add(name, inWords(time.Duration(seconds)*time.Second))
		}
	}
	after("a Change List is closed after", a.Retention.Period, "it is full")
	after("a Resource Dump is made after", a.Retention.DumpPeriod, "somebody asks for it")
	after("a closed list is in the index for", a.Retention.Current, "as long as it is kept")
	after("what is no longer current is kept for", a.Retention.Keep, "ever")
	if a.Retention.KeepOctets > 0 {
		add("and up to", number(a.Retention.KeepOctets)+" octets a set")
	}
	add("limits of a document", fmt.Sprintf("%d entries, %d octets", a.Limits.Entries, a.Limits.Octets))
	add("limit of a package", number(a.Limits.Package)+" octets of files")
	add("software", a.Software)
	return all
}

// inWords prints a duration of whole seconds without parts of 0.
func inWords(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
