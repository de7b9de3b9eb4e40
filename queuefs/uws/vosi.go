package uws

import (
	"encoding/xml"
	"net/http"
	"text/template"

	"cutie/queuefs"
)

// vosiForms are the two descriptions of a queue as a service (IVOA Support
// Interfaces 1.1, 2 and 4). Requests without a name are an interface of their own,
// without a method.
var vosiForms = template.Must(template.New("").Parse(`
{{- define "availability"}}<vosi:availability xmlns:vosi="http://www.ivoa.net/xml/VOSIAvailability/v1.0">
<vosi:available>{{.Up}}</vosi:available>
{{with .Note}}<vosi:note>{{.}}</vosi:note>
{{end}}</vosi:availability>
{{end}}

{{- define "interface"}}<interface xsi:type="vs:ParamHTTP" role="std"><accessURL use="{{end}}

{{- define "capabilities"}}<vosi:capabilities xmlns:vosi="http://www.ivoa.net/xml/VOSICapabilities/v1.0"
 xmlns:vs="http://www.ivoa.net/xml/VODataService/v1.1" xmlns:xsi="` + nsXSI + `">
<capability standardID="ivo://ivoa.net/std/VOSI#capabilities">{{template "interface"}}full">{{html .At}}capabilities</accessURL></interface></capability>
<capability standardID="ivo://ivoa.net/std/VOSI#availability">{{template "interface"}}full">{{html .At}}availability</accessURL></interface></capability>
<capability standardID="ivo://ivoa.net/std/UWS{{if not .Old}}#rest-1.1{{end}}">
{{- if .Open}}{{template "interface"}}base">{{html .At}}async</accessURL></interface>{{end}}
{{- if .Users}}{{template "interface"}}base">{{html .At}}async</accessURL>
 <securityMethod standardID="ivo://ivoa.net/sso#BasicAA"/><securityMethod standardID="ivo://ivoa.net/sso#token"/></interface>{{end}}</capability>
</vosi:capabilities>
{{end}}`))

// vosi answers with the capabilities of a queue as a service, or whether it is
// available, to everybody.
func (h *Handler) vosi(w http.ResponseWriter, r *request) error {
	security := h.o.Security(r.id)
	about := struct {
		Up, Note, At     string
		Old, Open, Users bool
	}{"true", "", r.ref(""), r.set.old, security.Anonymous || !security.Users, security.Users}
	var info queuefs.QueueInfo
	if r.q != nil {
		info = r.q.Info()
	}
	switch {
	case h.svc.Err() != nil:
		about.Up, about.Note = "false", "storage failed"
	case info.Closed:
		about.Up, about.Note = "false", "the queue takes no jobs at present"
	case !info.Paused.IsZero():
		about.Note = "jobs are taken, and none is started at present"
	}
	d := &document{}
	d.buf.WriteString(xml.Header)
	if err := vosiForms.ExecuteTemplate(&d.buf, r.PathValue("part"), about); err != nil {
		return err
	}
	sendXML(w, d)
	return nil
}

// unknown answers a request about a queue that does not exist. A stranger gets the
// description of an ordinary queue: only this is open to strangers, and a 404 would say
// which queues there are.
func (h *Handler) unknown(w http.ResponseWriter, raw *http.Request) error {
	id, err := queuefs.CleanQueueID(raw.PathValue("queue"))
	if err != nil {
		return notFound("queue not found")
	}
	r := &request{Request: raw, base: h.base(raw), id: id}
	if r.caller = h.o.Caller(raw, id); !r.caller.Stranger {
		return notFound("queue not found")
	}
	w.Header().Set("Cache-Control", "no-cache")
	return h.vosi(w, r)
}
