package state

import (
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// appendPage appends d as a page for everyone.
func appendPage(dst []byte, d *Document) []byte { return AppendPage(dst, d, View{}) }

// AppendPage appends d as a page of XHTML 1.0 Strict, but for the attribute
// required of later HTML, that is well-formed as HTML too: where it stands, what
// is to be seen at once, forms for what the reader may do, and last the table of
// [Form.Decode], which has a row for every property, with its name and exactly
// its text, and no blanks between the tags of a cell. Links into states ask for
// XHTML again, as those of Merritt did. A document without Subject has no forms,
// one without Base none of the links that are built from it.
func AppendPage(dst []byte, d *Document, v View) []byte {
	dst = d.appendHead(dst)
	dst = d.appendPath(dst)
	dst = append(dst, "<div id=\"main\">\n"...)
	dst = d.appendSummary(dst)
	if v.Lease != "" && d.inWork() {
		dst = append(appendEscaped(append(dst, `<p class="note cool">You have this job until `...), d.text("leaseExpires"), false), ", by the lease "...)
		dst = append(appendEscaped(append(dst, `<span class="mono">`...), v.Lease, false), "</span>. No other page shows it.</p>\n"...)
	}
	if d.Subject != "" && d.Base != "" {
		switch d.Class {
		case ServiceClass:
			dst = append(dst, "<h2>Queues</h2>\n"...)
			if refs := d.items("queueStates"); len(refs) > 0 {
				dst = appendNames(dst, refs)
			} else {
				dst = append(dst, "<p class=\"none\">None.</p>\n"...)
			}
		case QueueClass:
			dst = d.appendJobs(d.appendTiles(dst), &v)
		}
		if forms := d.appendForms(nil, &v); len(forms) > 0 {
			dst = append(append(append(dst, "<h2>Actions</h2>\n<div class=\"forms\">\n"...), forms...), "</div>\n"...)
		}
	}
	if methods := d.items("methods"); len(methods) > 0 && d.Base != "" {
		dst = append(dst, "<h2>Methods</h2>\n<ul class=\"ids\">\n"...)
		for _, m := range methods {
			dst = append(appendLink(append(dst, "<li>"...), asking(d.Base.Ref("help", m), XHTML), m), "</li>\n"...)
		}
		dst = append(dst, "</ul>\n"...)
	}
	dst = d.appendTable(dst, v.Now)
	dst = append(dst, "</div>\n"...)
	if d.Subject != "" {
		dst = append(dst, "<p class=\"foot\">This state for programs:"...)
		for _, f := range others {
			dst = appendLink(append(dst, ' '), asking(d.Subject, f), f.String())
		}
		dst = append(dst, "</p>\n"...)
	}
	return append(dst, "</body>\n</html>\n"...)
}

func (d *Document) appendHead(dst []byte) []byte {
	dst = append(dst, `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>`...)
	dst = append(appendEscaped(dst, d.title(), false), "</title>\n"...)
	if d.Base != "" {
		dst = append(dst, `<link rel="resourcesync" href="`...)
		dst = append(appendEscaped(dst, d.Base.Ref(".well-known", "resourcesync"), true), "\" />\n"...)
	}
	if d.Subject != "" {
		for _, f := range others {
			dst = append(append(append(dst, `<link rel="alternate" type="`...), f.MediaType()...), `" href="`...)
			dst = append(appendEscaped(dst, asking(d.Subject, f), true), "\" />\n"...)
		}
	}
	return append(dst, "<style type=\"text/css\">"+PageStyle+"</style>\n</head>\n<body>\n"...)
}

// appendSummary appends what is to be read first.
func (d *Document) appendSummary(dst []byte) []byte {
	dst = appendEscaped(append(dst, "<h1>"...), d.title(), false)
	for _, word := range d.badges() {
		dst = appendBadge(append(dst, ' '), word)
	}
	dst = append(dst, "</h1>\n"...)
	switch d.Class {
	case ServiceClass, QueueClass:
		dst = appendNote(dst, "lead", "", d.text("description"))
	case ExceptionClass:
		dst = appendNote(dst, "lead", "", d.text("detail"))
	case HelpClass:
		if d.text("method") != "" {
			dst = appendNote(dst, "lead", "", d.text("summary"))
		}
	case BatchClass:
		dst = appendNote(dst, "lead", "", d.text("detail"))
	case JobClass:
		dst = appendNote(dst, "lead", "", d.text("filename"))
		dst = appendLink(append(dst, "<p>"...), d.text("payload"), "Payload")
		dst = append(append(dst, ` <span class="dim">`...), grouped(d.text("size"))...)
		unit := " octets, "
		if d.text("size") == "1" {
			unit = " octet, "
		}
		dst = append(appendEscaped(append(dst, unit...), d.text("mediaType"), false), "</span></p>\n"...)
		if d.text("held") != "" && d.text("status") == queuefs.Pending.String() {
			dst = appendNote(dst, "note warn", "On hold: ", d.text("heldFor"))
		}
		kind := "note"
		if d.text("outcome") == queuefs.Failed.String() {
			kind = "note bad"
		}
		dst = appendNote(dst, kind, "Message: ", d.text("message"))
	}
	return dst
}

// appendNote appends a paragraph unless its text is empty.
func appendNote(dst []byte, class, before, text string) []byte {
	if text == "" {
		return dst
	}
	dst = append(append(append(append(dst, `<p class="`...), class...), `">`...), before...)
	return append(appendEscaped(dst, text, false), "</p>\n"...)
}

// appendTable appends the properties. What is told besides their text stands in
// attributes, and the style sheet shows it.
func (d *Document) appendTable(dst []byte, now time.Time) []byte {
	dst = append(dst, "<h2>Properties</h2>\n<div class=\"scroll\"><table class=\"state\" summary=\""...)
	dst = appendPrefixed(dst, d.Class.Prefix, d.Class.Root)
	dst = append(dst, "\">\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Value</th></tr>\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = append(append(dst, `<tr><th scope="row">`...), p.Name...)
		dst = append(dst, "</th><td>"...)
		switch {
		case p.Item == "":
			dst = d.appendValue(dst, p, now)
		case len(p.Items) > 0:
			dst = append(dst, "<ul>"...)
			for _, item := range p.Items {
				dst = append(d.appendText(append(dst, "<li>"...), p.Type, item), "</li>"...)
			}
			dst = append(dst, "</ul>"...)
		}
		dst = append(dst, "</td></tr>\n"...)
	}
	return append(dst, "</table></div>\n"...)
}

// longText is how many octets of text stand in a box of their own.
const longText = 600

// appendValue appends the text of a property that is no list.
func (d *Document) appendValue(dst []byte, p *Property, now time.Time) []byte {
	said, class := "", ""
	switch {
	case p.Type == Date && !now.IsZero():
		if t, err := time.Parse(dateLayout, p.Text); err == nil {
			said = Ago(now, t)
		}
	case p.Name == "size" || p.Name == "octets":
		if n, err := strconv.ParseInt(p.Text, 10, 64); err == nil {
			said = octetsText(n)
		}
	case p.Name == "text" || p.Name == "request": // of help
		class = "mono"
	case p.Type == String && (len(p.Text) > longText || strings.Count(p.Text, "\n") > 10):
		class = "long"
	}
	switch {
	case said != "":
		dst = append(append(append(dst, `<span class="said" title="`...), said...), `">`...)
	case class != "":
		dst = append(append(append(dst, `<span class="`...), class...), `">`...)
	default:
		return d.appendText(dst, p.Type, p.Text)
	}
	return append(d.appendText(dst, p.Type, p.Text), "</span>"...)
}

// others are the forms that a page refers to.
var others = [...]Form{ANVL, JSON, Turtle, XML, SOIF}

// title returns the heading of the page.
func (d *Document) title() string {
	name := d.text("identifier")
	switch d.Class {
	case ServiceClass:
		if s := d.text("name"); s != "" {
			return s
		}
		return "Cutie"
	case QueueClass:
		return "Queue " + d.text("name")
	case JobClass:
		return "Job " + name
	case BatchClass:
		return "Batch " + name
	case ExceptionClass:
		return d.text("hTTPResponse") + " " + d.text("description")
	case HelpClass:
		if s := d.text("method"); s != "" {
			return s
		}
	}
	return d.text("summary")
}

// appendPath appends the way from the service down to the document.
func (d *Document) appendPath(dst []byte) []byte {
	if d.Base == "" {
		return dst
	}
	dst = appendLink(append(dst, "<ul class=\"path\">\n<li>"...), string(d.Base)+"/", "Queues")
	queue := d.text("queueState")
	if d.Class == QueueClass {
		queue = d.Subject
	}
	if _, name, ok := cutLast(queue); ok {
		dst = appendLink(append(dst, "</li>\n<li class=\"step\">"...), asking(queue, XHTML), name)
	}
	if d.Class == JobClass || d.Class == BatchClass {
		dst = appendEscaped(append(dst, "</li>\n<li class=\"step\">"...), d.text("identifier"), false)
	}
	dst = appendLink(append(dst, "</li>\n<li class=\"side\">"...), asking(d.Base.Ref("state"), XHTML), "Service")
	dst = appendLink(append(dst, "</li>\n<li>"...), asking(d.Base.Ref("help"), XHTML), "Help")
	return append(dst, "</li>\n</ul>\n"...)
}

// appendText appends a value, as a link if it is a reference that a browser may
// follow.
func (d *Document) appendText(dst []byte, t Type, text string) []byte {
	if t == Reference && (strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "mailto:")) {
		ref := text
		if d.Base != "" && strings.HasPrefix(text, string(d.Base)+"/state") {
			ref = asking(text, XHTML)
		}
		return appendLink(dst, ref, text)
	}
	return appendEscaped(dst, text, false)
}

func appendLink(dst []byte, ref, text string) []byte {
	dst = appendEscaped(append(dst, `<a href="`...), ref, true)
	dst = appendEscaped(append(dst, `">`...), text, false)
	return append(dst, "</a>"...)
}

// asking returns ref with the form that is asked for.
func asking(ref string, f Form) string {
	if strings.Contains(ref, "?") {
		return ref + "&t=" + f.String()
	}
	return ref + "?t=" + f.String()
}
