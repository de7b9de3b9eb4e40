package uws

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"time"

	"cutie/queuefs"
)

// open begins the document element. Only jobs and job have a version, and it
// is one of 1.1.
func (d *document) open(name string, versioned bool) {
	d.buf.WriteString(xml.Header + "<uws:" + name + ` xmlns:uws="` + nsUWS + `" xmlns:xlink="` + nsXlink + `" xmlns:xsi="` + nsXSI + `"`)
	if versioned {
		d.buf.WriteString(` version="1.1"`)
	}
	d.buf.WriteString(">\n")
}

func (d *document) end(name string) { d.buf.WriteString("</uws:" + name + ">\n") }

func (d *document) escape(s string) { xml.EscapeText(&d.buf, []byte(s)) }

func (d *document) attr(name, value string) {
	d.buf.WriteString(" " + name + `="`)
	d.escape(value)
	d.buf.WriteByte('"')
}

func (d *document) element(name, value string) {
	d.buf.WriteString("<uws:" + name + ">")
	d.escape(value)
	d.buf.WriteString("</uws:" + name + ">\n")
}

// nillable writes an element, nil for an empty value.
func (d *document) nillable(name, value string) {
	if value == "" {
		d.buf.WriteString("<uws:" + name + ` xsi:nil="true"/>` + "\n")
		return
	}
	d.element(name, value)
}

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t)
}

// document returns a job as XML. Callers that waited for the same change, and
// use the same name of the service, get the same bytes.
func (h *Handler) document(r *request, j *job) *document {
	j.once.Do(func() { j.base, j.doc = r.base, h.jobDocument(r, j) })
	if j.base != r.base {
		return h.jobDocument(r, j)
	}
	return j.doc
}

// jobDocument writes a job in the order of the schema (UWS 1.1, appendix B).
func (h *Handler) jobDocument(r *request, j *job) *document {
	d := &document{}
	d.open("job", !j.set.old)
	d.element("jobId", j.id)
	if id := j.runID(); id != "" {
		d.element("runId", id)
	}
	start, end := j.ran()
	d.nillable("ownerId", j.owner())
	d.element("phase", string(j.phase()))
	d.nillable("quote", timeOrNone(h.quote(j)))
	if !j.set.old {
		d.element("creationTime", formatTime(j.created()))
	}
	d.nillable("startTime", timeOrNone(start))
	d.nillable("endTime", timeOrNone(end))
	d.element("executionDuration", strconv.FormatInt(j.duration(), 10))
	d.nillable("destruction", timeOrNone(j.destruction()))
	d.parameters(r, j)
	d.results(r, j)
	if summary, detail, transient := j.failure(); summary != "" {
		d.buf.WriteString("<uws:errorSummary")
		kind := "fatal"
		if transient {
			kind = "transient"
		}
		d.attr("type", kind)
		d.attr("hasDetail", strconv.FormatBool(detail != summary || j.hasDetail()))
		d.buf.WriteString(">")
		d.element("message", summary)
		d.end("errorSummary")
	}
	// Without a namespace, since validators warn of others. The name is not "job":
	// some clients take every element "job" for one of UWS.
	d.buf.WriteString("<uws:jobInfo><entry")
	d.attr("queue", j.q.ID())
	d.attr("job", j.cut.ID.String())
	d.attr("attempts", strconv.Itoa(j.cut.Attempts))
	if j.phase() == completed {
		d.attr("reported", strconv.FormatBool(j.reported()))
	}
	if j.phase() == held && j.cut.HeldFor != "" {
		d.attr("heldFor", j.cut.HeldFor)
	}
	d.buf.WriteString("/></uws:jobInfo>\n")
	d.end("job")
	return d
}

func (d *document) parameters(r *request, j *job) {
	d.buf.WriteString("<uws:parameters>\n")
	d.eachParameter(r, j)
	d.end("parameters")
}

func (d *document) eachParameter(r *request, j *job) {
	for _, p := range j.parameters() {
		value := p.value
		d.buf.WriteString("<uws:parameter")
		d.attr("id", p.name)
		if p.ref {
			d.attr("byReference", "true")
			value = r.ref("async", j.id, "parameters", p.name)
		}
		d.buf.WriteString(">")
		d.escape(value)
		d.end("parameter")
	}
}

func (d *document) results(r *request, j *job) {
	d.buf.WriteString("<uws:results>\n")
	d.eachResult(r, j)
	d.end("results")
}

func (d *document) eachResult(r *request, j *job) {
	for _, res := range j.results() {
		d.buf.WriteString("<uws:result")
		d.attr("id", res.Name)
		d.attr("xlink:type", "simple")
		d.attr("xlink:href", r.ref("async", j.id, "results", res.Name))
		if !j.set.old {
			d.attr("size", strconv.FormatInt(res.Size, 10))
			d.attr("mime-type", typeOf(res))
		}
		d.buf.WriteString("/>\n")
	}
}

func typeOf(r queuefs.Result) string {
	if r.MediaType == "" {
		return queuefs.DefaultMediaType
	}
	return r.MediaType
}

func (h *Handler) results(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	d := &document{}
	d.open("results", false)
	d.eachResult(r, j)
	d.end("results")
	sendXML(w, d)
	return nil
}

func (h *Handler) parameters(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	d := &document{}
	d.open("parameters", false)
	d.eachParameter(r, j)
	d.end("parameters")
	sendXML(w, d)
	return nil
}
