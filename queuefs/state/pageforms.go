package state

import (
	"strings"

	"cutie/queuefs"
)

// appendForms appends forms for what the reader may do with the document. They
// post what is not idempotent, and are answered with a page.
func (d *Document) appendForms(dst []byte, v *View) []byte {
	switch d.Class {
	case ServiceClass:
		if !d.may(v, d.Base.Ref("state")) {
			return dst
		}
		return AppendCreateForm(dst, d.Base)
	case QueueClass:
		return d.appendQueueForms(dst, v)
	case JobClass:
		return d.appendJobForms(dst, v)
	}
	return dst
}

// AppendCreateForm appends the form by which a queue is made, for pages around
// the states.
func AppendCreateForm(dst []byte, base Base) []byte {
	dst = openForm(dst, base.Ref("state"), "Create a queue", "")
	dst = append(dst, `<label>Identifier <input type="text" name="identifier" required="required" /></label>
<label>Name, if it is another <input type="text" name="name" /></label>
<label>Description <input type="text" name="description" /></label>
`...)
	return closeForm(dst, "", "", "Create", "")
}

// may tells whether the reader may post to a URL below the base.
func (d *Document) may(v *View, ref string) bool {
	return v.May == nil || v.May("POST", strings.TrimPrefix(ref, string(d.Base)))
}

func (d *Document) appendQueueForms(dst []byte, v *View) []byte {
	if action := d.action("content"); d.may(v, action) && d.text("closed") != "true" {
		dst = openForm(dst, action, "Submit a job", "multipart/form-data")
		dst = append(dst, `<label>File <input type="file" name="file" required="required" /></label>
<label>Sidecar, text that goes with it <textarea name="sidecar" rows="3" cols="40"></textarea></label>
`...)
		dst = closeForm(dst, "", "", "Submit", "")
	}
	paused := d.text("status") == "paused"
	if action := d.action("consume"); d.may(v, action) && !paused {
		dst = openForm(dst, action, "Take a job", "")
		dst = append(dst, "<p class=\"dim\">The first pending job that is not on hold becomes consumed.</p>\n"...)
		dst = closeForm(dst, "", "", "Take the next job", "")
	}
	if action := d.action("state"); d.may(v, action) {
		if paused {
			dst = openForm(dst, action, "Hand out jobs again", "")
			return closeForm(dst, "S", "restart", "Restart", "")
		}
		dst = openForm(dst, action, "Hand out no more jobs", "")
		if d.text("closed") != "true" {
			dst = append(dst, "<p class=\"dim\">Submissions are still taken.</p>\n"...)
		}
		dst = closeForm(dst, "S", "pause", "Pause", "")
	}
	return dst
}

func (d *Document) appendJobForms(dst []byte, v *View) []byte {
	button := func(method, legend, more, label, class string) {
		if action := d.action(method); d.may(v, action) {
			dst = closeForm(append(openForm(dst, action, legend, ""), more...), "", "", label, class)
		}
	}
	const reason = "<label>Reason <input type=\"text\" name=\"reason\" /></label>\n"
	const message = "<label>Message <input type=\"text\" name=\"message\" /></label>\n"
	switch status := d.text("status"); {
	case d.inWork():
		dst = d.appendLeaseForms(dst, v)
		button("abort", "Take the job out of work", message, "Abort", "danger")
	case status == queuefs.Consumed.String() || status == queuefs.Deleted.String():
		button("requeue", "Put the job back in its place", "", "Requeue", "")
	default:
		if d.text("held") != "" {
			button("release", "Let the job be taken again", "", "Release", "")
		} else {
			button("hold", "Keep the job from being taken", reason, "Hold", "")
		}
		button("delete", "Take the job out of the queue", "", "Delete", "danger")
	}
	return dst
}

// appendLeaseForms appends forms for a reader who has the lease of the job.
func (d *Document) appendLeaseForms(dst []byte, v *View) []byte {
	if v.Lease == "" {
		return dst
	}
	open := func(method, legend, more string) {
		dst = append(openForm(dst, d.action(method), legend, ""), `<p><input type="hidden" name="lease" value="`...)
		dst = append(append(appendEscaped(dst, v.Lease, true), "\" /></p>\n"...), more...)
	}
	const message = "<label>Message <input type=\"text\" name=\"message\" /></label>\n"
	if d.may(v, d.action("outcome")) {
		open("outcome", "Report that the job is done", message)
		dst = closeForm(dst, "outcome", "completed", "Completed", "")
		const failed = "<p><input type=\"hidden\" name=\"outcome\" value=\"error\" /></p>\n" + message +
			"<p><button type=\"submit\" class=\"danger\" name=\"type\" value=\"transient\">Failed for now</button></p>\n"
		open("outcome", "Report that the job has failed", failed)
		dst = closeForm(dst, "type", "fatal", "Failed for good", "danger")
		open("outcome", "Leave the job to others", message)
		dst = closeForm(dst, "outcome", "released", "Give back", "")
	}
	if d.may(v, d.action("lease")) {
		open("lease", "Keep the job for longer", "")
		dst = closeForm(dst, "", "", "Extend the lease", "")
	}
	return dst
}

// action returns where a method is called for the thing that d is the state of.
func (d *Document) action(method string) string {
	rest := strings.TrimPrefix(d.Subject, string(d.Base)+"/state/")
	return d.Base.Ref(method) + "/" + rest
}

// openForm begins a form that posts, and asks for a page as its answer.
func openForm(dst []byte, action, legend, media string) []byte {
	dst = appendEscaped(append(dst, `<form method="post" action="`...), asking(action, XHTML), true)
	if media != "" {
		dst = append(append(dst, `" enctype="`...), media...)
	}
	dst = append(append(dst, "\"><fieldset><legend>"...), legend...)
	return append(dst, "</legend>\n"...)
}

// closeForm ends a form with its button, which has a name and a value if name
// is not empty.
func closeForm(dst []byte, name, value, label, class string) []byte {
	dst = append(dst, `<p><button type="submit"`...)
	if class != "" {
		dst = append(append(append(dst, ` class="`...), class...), '"')
	}
	if name != "" {
		dst = append(append(append(dst, ` name="`...), name...), `" value="`...)
		dst = append(append(dst, value...), '"')
	}
	dst = append(append(append(dst, '>'), label...), "</button></p>\n"...)
	return append(dst, "</fieldset></form>\n"...)
}
