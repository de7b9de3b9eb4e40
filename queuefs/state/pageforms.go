package state

import (
	"strings"

	"cutie/queuefs"
)

// appendForms appends forms for what a person may do with the document. They
// post what is not idempotent, and are answered with a page.
func (d *Document) appendForms(dst []byte) []byte {
	switch d.Class {
	case ServiceClass:
		dst = d.openForm(dst, "post", d.Base.Ref("state"), "Create a queue", "")
		dst = append(dst, `<label>Identifier <input type="text" name="identifier" /></label>
<label>Name <input type="text" name="name" /></label>
<label>Description <input type="text" name="description" size="60" /></label>
`...)
		return closeForm(dst, "", "", "Create")
	case QueueClass:
		return d.appendQueueForms(dst)
	case JobClass:
		return d.appendJobForms(dst)
	}
	return dst
}

func (d *Document) appendQueueForms(dst []byte) []byte {
	dst = d.openForm(dst, "post", d.action("content"), "Submit a job", "multipart/form-data")
	dst = append(dst, `<label>File <input type="file" name="file" /></label>
<label>Sidecar <textarea name="sidecar" rows="3" cols="60"></textarea></label>
`...)
	dst = closeForm(dst, "", "", "Submit")

	dst = append(d.openForm(dst, "post", d.action("consume"), "Take a job", ""), "<p>"...)
	dst = append(appendLink(dst, d.action("content"), "Peek at the next job"), "</p>\n"...)
	dst = closeForm(dst, "", "", "Take the next job")

	dst = d.openForm(dst, "get", d.Subject, "List jobs", "")
	dst = append(dst, `<p><input type="hidden" name="t" value="xhtml" /></p>
<label>Status <select name="status">`...)
	chosen := d.text("jobsStatus")
	dst = appendOption(dst, "", "any", chosen)
	for _, s := range [...]queuefs.Status{queuefs.Pending, queuefs.Consumed, queuefs.Deleted} {
		dst = appendOption(dst, s.String(), s.String(), chosen)
	}
	dst = closeForm(append(dst, "</select></label>\n"...), "", "", "List")

	if d.text("status") == "paused" {
		dst = d.openForm(dst, "post", d.action("state"), "Hand out jobs again", "")
		return closeForm(dst, "S", "restart", "Restart")
	}
	dst = d.openForm(dst, "post", d.action("state"), "Hand out no more jobs", "")
	return closeForm(dst, "S", "pause", "Pause")
}

func appendOption(dst []byte, value, text, chosen string) []byte {
	dst = append(append(dst, `<option value="`...), value...)
	if value == chosen {
		dst = append(dst, `" selected="selected`...)
	}
	return append(append(append(dst, `">`...), text...), "</option>"...)
}

func (d *Document) appendJobForms(dst []byte) []byte {
	dst = append(appendLink(append(dst, "<p>"...), d.text("payload"), "Look at the payload"), "</p>\n"...)
	button := func(method, legend, label string) {
		dst = closeForm(d.openForm(dst, "post", d.action(method), legend, ""), "", "", label)
	}
	switch status := d.text("status"); {
	case status == queuefs.Consumed.String() || status == queuefs.Deleted.String():
		button("requeue", "Put the job back in its place", "Requeue")
	case d.text("held") != "":
		button("release", "Let the job be taken again", "Release")
		button("delete", "Take the job out of the queue", "Delete")
	default:
		button("hold", "Keep the job from being taken", "Hold")
		button("delete", "Take the job out of the queue", "Delete")
	}
	return dst
}

// action returns where a method is called for the thing that d is the state of.
func (d *Document) action(method string) string {
	rest := strings.TrimPrefix(d.Subject, string(d.Base)+"/state/")
	return d.Base.Ref(method) + "/" + rest
}

// openForm begins a form. One that posts asks for a page as its answer; one
// that gets takes its query from its fields.
func (d *Document) openForm(dst []byte, method, action, legend, media string) []byte {
	if method == "post" {
		action = asking(action, XHTML)
	}
	dst = append(append(append(dst, `<form method="`...), method...), `" action="`...)
	dst = appendEscaped(dst, action, true)
	if media != "" {
		dst = append(append(dst, `" enctype="`...), media...)
	}
	dst = append(append(dst, "\"><fieldset><legend>"...), legend...)
	return append(dst, "</legend>\n"...)
}

// closeForm ends a form with its button, which has a name and a value if name
// is not empty.
func closeForm(dst []byte, name, value, label string) []byte {
	dst = append(dst, `<p><button type="submit"`...)
	if name != "" {
		dst = append(append(append(dst, ` name="`...), name...), `" value="`...)
		dst = append(append(dst, value...), '"')
	}
	dst = append(append(append(dst, '>'), label...), "</button></p>\n"...)
	return append(dst, "</fieldset></form>\n"...)
}
