package state

import (
	"strings"
)

// style is the sheet of every page. It has none of the characters that HTML and
// XHTML read differently, so that it has one hash.
const style = `:root{color-scheme:light dark}
body{font-family:sans-serif;line-height:1.4;max-width:60em;margin:0 auto;padding:0 1em 2em}
h1{font-size:1.5em;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid #8886;padding:.3em .8em .3em 0;text-align:left;vertical-align:top}
td{white-space:pre-wrap;overflow-wrap:anywhere}
td ul{margin:0;padding:0;list-style:none}
fieldset{border:1px solid #8886;margin:1em 0}
label{display:block;margin:.3em 0}
input,select,textarea,button{font:inherit;max-width:100%}
textarea{display:block;width:100%}
@media (max-width:40em){table.state th,table.state td{display:block;border:0;padding:0}table.state td{padding-bottom:.6em}table.state tr:first-child{display:none}}
`

// StyleHash is the source expression of the style sheet that stands in every
// page, for a Content-Security-Policy.
const StyleHash = "'sha256-v6wQowMUG4/uqT1dsKcRNmpELZ7MswSy3YqXKdEEN4A='"

// PagePolicy is the Content-Security-Policy under which a page works: no
// scripts, no resources, forms to where it comes from.
const PagePolicy = "default-src 'none'; style-src " + StyleHash + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// appendPage appends d as a page of XHTML 1.0 Strict that is well-formed as
// HTML too. The table has a row for every property, with its name and exactly
// its text, and no blanks between the tags of a cell. Links into states ask for
// XHTML again, as those of Merritt did. A document without Subject has no
// forms, one without Base none of the links that are built from it.
func appendPage(dst []byte, d *Document) []byte {
	c := d.Class
	title := d.title()
	dst = append(dst, `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>`...)
	dst = append(appendEscaped(dst, title, false), "</title>\n"...)
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
	dst = append(dst, "<style type=\"text/css\">"+style+"</style>\n</head>\n<body>\n"...)
	dst = d.appendPath(dst)
	dst = append(appendEscaped(append(dst, "<h1>"...), title, false), "</h1>\n"...)

	dst = append(dst, `<table class="state" summary="`...)
	dst = appendPrefixed(dst, c.Prefix, c.Root)
	dst = append(dst, "\">\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Value</th></tr>\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = append(append(dst, `<tr><th scope="row">`...), p.Name...)
		dst = append(dst, "</th><td>"...)
		switch {
		case p.Item == "":
			dst = d.appendText(dst, p.Type, p.Text)
		case len(p.Items) > 0:
			dst = append(dst, "<ul>"...)
			for _, item := range p.Items {
				dst = append(d.appendText(append(dst, "<li>"...), p.Type, item), "</li>"...)
			}
			dst = append(dst, "</ul>"...)
		}
		dst = append(dst, "</td></tr>\n"...)
	}
	dst = append(dst, "</table>\n"...)

	if d.Subject != "" {
		if d.Base != "" {
			dst = d.appendForms(dst)
		}
		dst = append(dst, "<p>This state in other forms:"...)
		for _, f := range others {
			dst = appendLink(append(dst, ' '), asking(d.Subject, f), f.String())
		}
		dst = append(dst, "</p>\n"...)
	}
	return append(dst, "</body>\n</html>\n"...)
}

// others are the forms that a page refers to.
var others = [...]Form{ANVL, JSON, Turtle, XML}

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
	dst = appendLink(append(dst, "<p>"...), asking(d.Base.Ref("state"), XHTML), "Service")
	queue := d.text("queueState")
	if d.Class == QueueClass {
		queue = d.Subject
	}
	if _, name, ok := cutLast(queue); ok {
		dst = appendLink(append(dst, " / "...), asking(queue, XHTML), name)
	}
	if next := d.text("jobsNext"); next != "" {
		dst = appendLink(append(dst, " / "...), asking(next, XHTML), "next jobs")
	}
	dst = appendLink(append(dst, " / "...), asking(d.Base.Ref("help"), XHTML), "Help")
	return append(dst, "</p>\n"...)
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
