package rest

import (
	"html"
	"strings"

	"cutie/queuefs/state"
)

// The page of a sequence of states is a table for people, in the style of the
// pages of package state. Whoever wants all that a state says follows the link
// of its row, or asks for another form.

// columns are those of the table: a heading, the property whose text it shows,
// and the class of its cells.
var columns = []struct{ heading, property, class string }{
	{"Job", "identifier", "t"},
	{"Status", "status", ""},
	{"File", "filename", "text"},
	{"Note", "", "text"},
	{"Octets", "size", "n"},
	{"Submitted (UTC)", "submitted", "t minor"},
	{"Submitter", "submitter", "text minor"},
}

func (s *sequence) appendTop(dst []byte) []byte {
	title := html.EscapeString("Jobs of queue " + s.queue)
	dst = append(dst, `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>`+title+"</title>\n"...)
	if s.next != "" {
		dst = append(dst, `<link rel="next" href="`+html.EscapeString(s.next)+"\" />\n"...)
	}
	dst = append(dst, `<style type="text/css">`+state.PageStyle+"</style>\n</head>\n<body>\n<ul class=\"path\">\n<li>"...)
	dst = appendLink(dst, string(s.base)+"/", "Queues")
	dst = appendLink(append(dst, "</li>\n<li class=\"step\">"...), s.base.Ref("state", s.queue)+"?t=xhtml", s.queue)
	dst = append(dst, "</li>\n<li class=\"step\">Jobs</li>\n</ul>\n<div id=\"main\">\n<h1>"+title+"</h1>\n"...)
	dst = append(dst, "<div class=\"scroll\"><table class=\"list\" summary=\"Jobs in their order\">\n<tr>"...)
	for _, c := range columns {
		dst = append(dst, `<th scope="col"`+classOf(c.class)+">"+c.heading+"</th>"...)
	}
	return append(dst, "</tr>\n"...)
}

func (s *sequence) appendBottom(dst []byte) []byte {
	dst = append(dst, "</table></div>\n<p>"...)
	switch {
	case s.next != "":
		dst = appendLink(dst, s.next, "Next jobs")
	case s.n == 0:
		dst = append(dst, "No such jobs."...)
	default:
		dst = append(dst, "There are no more."...)
	}
	return append(dst, "</p>\n</div>\n</body>\n</html>\n"...)
}

// appendRow appends the row of a job.
func appendRow(dst []byte, d *state.Document) []byte {
	dst = append(dst, "<tr>"...)
	for i, c := range columns {
		dst = append(dst, "<td"+classOf(c.class)+">"...)
		switch text := says(d, c.property); {
		case i == 0:
			dst = appendLink(dst, d.Subject+"?t=xhtml", text)
		case c.property == "":
			dst = append(dst, html.EscapeString(noteOf(d))...)
		case c.property == "submitted":
			dst = append(dst, short(text)...)
		default:
			dst = append(dst, html.EscapeString(text)...)
		}
		dst = append(dst, "</td>"...)
	}
	return append(dst, "</tr>\n"...)
}

func classOf(class string) string {
	if class == "" {
		return ""
	}
	return ` class="` + class + `"`
}

// noteOf is what people want to know of a job besides its status.
func noteOf(d *state.Document) string {
	note, why := "", says(d, "message")
	switch {
	case says(d, "held") != "":
		note, why = "held", says(d, "heldFor")
	case says(d, "leaseExpires") != "":
		return "leased until " + short(says(d, "leaseExpires"))
	default:
		note = says(d, "outcome")
	}
	if note != "" && why != "" {
		note += ": "
	}
	return note + why
}

// short is a date of a state to the second, as people write it.
func short(date string) string {
	day, time, _ := strings.Cut(date, "T")
	time, _, _ = strings.Cut(time, ".")
	return day + " " + time
}

func says(d *state.Document, name string) string {
	if p := d.Property(name); p != nil {
		return p.Text
	}
	return ""
}

func appendLink(dst []byte, ref, text string) []byte {
	return append(dst, `<a href="`+html.EscapeString(ref)+`">`+html.EscapeString(text)+"</a>"...)
}
