package uws

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"time"

	"cutie/queuefs"
)

// A document is XML, written in pieces.
type document struct{ buf bytes.Buffer }

const (
	nsUWS   = "http://www.ivoa.net/xml/UWS/v1.0"
	nsXlink = "http://www.w3.org/1999/xlink"
	nsXSI   = "http://www.w3.org/2001/XMLSchema-instance"
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

// tag begins a tag with attributes, each a name and a value.
func (d *document) tag(name string, attributes ...string) {
	d.buf.WriteString("<" + name)
	for i := 0; i < len(attributes); i += 2 {
		d.buf.WriteString(" " + attributes[i] + `="`)
		d.escape(attributes[i+1])
		d.buf.WriteByte('"')
	}
}

func (d *document) begin(name string, attributes ...string) {
	d.tag("uws:"+name, attributes...)
	d.buf.WriteByte('>')
}

func (d *document) end(name string) { d.buf.WriteString("</uws:" + name + ">\n") }

func (d *document) escape(s string) { xml.EscapeText(&d.buf, []byte(s)) }

func (d *document) element(name, value string, attributes ...string) {
	d.tag("uws:"+name, attributes...)
	if value == "" {
		d.buf.WriteString("/>\n")
		return
	}
	d.buf.WriteByte('>')
	d.escape(value)
	d.end(name)
}

// nillable writes an element, nil for an empty value.
func (d *document) nillable(name, value string) {
	if value == "" {
		d.element(name, "", "xsi:nil", "true")
	} else {
		d.element(name, value)
	}
}

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t)
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
	for _, part := range []string{"parameters", "results"} {
		d.begin(part)
		d.members(part, r, j)
		d.end(part)
	}
	if summary, detail, transient := j.failure(); summary != "" {
		kind := "fatal"
		if transient {
			kind = "transient"
		}
		d.begin("errorSummary", "type", kind, "hasDetail", strconv.FormatBool(detail != summary || j.hasDetail()))
		d.element("message", summary)
		d.end("errorSummary")
	}
	info := []string{"queue", j.q.ID(), "job", j.cut.ID.String(), "attempts", strconv.Itoa(j.cut.Attempts)}
	switch p := j.phase(); {
	case p == completed:
		info = append(info, "reported", strconv.FormatBool(j.reported()))
	case p == held && j.cut.HeldFor != "":
		info = append(info, "heldFor", j.cut.HeldFor)
	}
	// Without a namespace, since validators warn of others. The name is not "job":
	// some clients take every element "job" for one of UWS.
	d.begin("jobInfo")
	d.tag("entry", info...)
	d.buf.WriteString("/>")
	d.end("jobInfo")
	d.end("job")
	return d
}

// members writes the parameters or the results of a job.
func (d *document) members(part string, r *request, j *job) {
	if part == "parameters" {
		for _, p := range j.parameters() {
			if p.ref {
				d.element("parameter", r.ref("async", j.id, part, p.name), "id", p.name, "byReference", "true")
			} else {
				d.element("parameter", p.value, "id", p.name)
			}
		}
		return
	}
	for _, res := range j.results() {
		about := []string{"id", res.Name, "xlink:type", "simple", "xlink:href", r.ref("async", j.id, part, res.Name)}
		if !j.set.old {
			about = append(about, "size", strconv.FormatInt(res.Size, 10), "mime-type", typeOf(res))
		}
		d.element("result", "", about...)
	}
}

func typeOf(r queuefs.Result) string {
	if r.MediaType == "" {
		return queuefs.DefaultMediaType
	}
	return r.MediaType
}
