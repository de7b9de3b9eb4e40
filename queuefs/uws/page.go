package uws

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
)

// page tells whether HTML is asked for. A browser names application/xhtml+xml;
// a client that only has text/html first in a list of everything does not.
func (r *request) page() bool {
	if s, ok := r.value("format"); ok {
		return strings.EqualFold(s, "html")
	}
	accept := strings.ToLower(r.Header.Get("Accept"))
	return strings.Contains(accept, "text/html") && strings.Contains(accept, "application/xhtml+xml")
}

var pages = template.Must(template.New("").Parse(`
{{define "head"}}<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{{.}}</title></head>
<body>
{{end}}
{{define "list"}}{{template "head" .Queue}}<h1>jobs of {{.Queue}}</h1>
<p><a href="{{.List}}?LAST=100&amp;format=html">newest 100</a>{{range .Phases}} <a href="{{$.List}}?LAST=100&amp;PHASE={{.}}&amp;format=html">{{.}}</a>{{end}}</p>
<table>
<tr><th>job</th><th>phase</th><th>run</th><th>owner</th><th>created</th></tr>
{{range .Jobs}}<tr><td><a href="{{.URL}}?format=html">{{.ID}}</a></td><td>{{.Phase}}</td><td>{{.RunID}}</td><td>{{.Owner}}</td><td>{{.Created}}</td></tr>
{{end}}</table>
<h2>new job</h2>
<form method="post" action="{{.List}}" enctype="multipart/form-data">
<p><label>run identifier <input name="RUNID"></label></p>
<p><label>file <input type="file" name="upload"></label></p>
<p><button>create</button> <button name="PHASE" value="RUN">create and run</button></p>
</form>
</body>
</html>
{{end}}
{{define "job"}}{{template "head" .ID}}<h1>job {{.ID}}</h1>
<p><a href="{{.List}}?format=html">all jobs</a> <a href="{{.URL}}?format=xml">XML</a></p>
<table>
<tr><th>phase</th><td>{{.Phase}}</td></tr>
<tr><th>run</th><td>{{.RunID}}</td></tr>
<tr><th>owner</th><td>{{.Owner}}</td></tr>
<tr><th>created</th><td>{{.Created}}</td></tr>
<tr><th>started</th><td>{{.Started}}</td></tr>
<tr><th>ended</th><td>{{.Ended}}</td></tr>
</table>
{{with .Error}}<h2>error</h2>
<pre>{{.}}</pre>
{{end}}{{with .Results}}<h2>results</h2>
<ul>{{range .}}<li><a href="{{.URL}}">{{.Name}}</a> {{.Size}} octets, {{.Type}}</li>
{{end}}</ul>
{{end}}<h2>parameters</h2>
{{range .Params}}{{if .URL}}<p>{{.Name}}: <a href="{{.URL}}">file</a></p>
{{else if $.Pending}}<form method="post" action="{{$.URL}}/parameters"><p><label>{{.Name}} <input name="{{.Name}}" value="{{.Value}}"></label> <button>set</button></p></form>
{{else}}<p>{{.Name}}: {{.Value}}</p>
{{end}}{{end}}<h2>change</h2>
{{if .Pending}}<form method="post" action="{{.URL}}/phase"><p><button name="PHASE" value="RUN">run</button></p></form>
{{end}}{{if .Active}}<form method="post" action="{{.URL}}/phase"><p><button name="PHASE" value="ABORT">abort</button></p></form>
{{end}}<form method="post" action="{{.URL}}/executionduration"><p><label>seconds it may run, 0 for any time <input name="EXECUTIONDURATION" value="{{.Duration}}"></label> <button>set</button></p></form>
<form method="post" action="{{.URL}}/destruction"><p><label>destroyed at <input name="DESTRUCTION" value="{{.Destruction}}"></label> <button>set</button></p></form>
<form method="post" action="{{.URL}}"><p><button name="ACTION" value="DELETE">destroy</button></p></form>
</body>
</html>
{{end}}`))

// shown is a job on a page.
type shown struct {
	ID, URL, List, Phase, RunID, Owner, Created, Started, Ended, Destruction, Error string
	Duration                                                                        int64
	Pending, Active                                                                 bool
	Params, Results                                                                 []shownFile
}

type shownFile struct {
	Name, Value, URL, Type string
	Size                   int64
}

func (h *Handler) shown(j *job) *shown {
	p := j.phase()
	start, end := j.ran()
	return &shown{ID: j.id, URL: h.ref(j.q, "async", j.id), List: h.ref(j.q, "async"), Phase: string(p), RunID: j.runID(), Owner: j.owner(),
		Created: formatTime(j.created()), Started: timeOrNone(start), Ended: timeOrNone(end), Destruction: timeOrNone(j.destruction()),
		Duration: j.duration(), Pending: p == pending, Active: p.active() || p == held}
}

func (h *Handler) listPage(w http.ResponseWriter, r *request, jobs []*job) error {
	page := struct {
		Queue, List string
		Phases      []phase
		Jobs        []*shown
	}{Queue: r.q.ID(), List: h.ref(r.q, "async"), Phases: phases[:8]}
	for _, j := range jobs {
		page.Jobs = append(page.Jobs, h.shown(j))
	}
	return sendPage(w, "list", page)
}

func (h *Handler) jobPage(w http.ResponseWriter, r *request, j *job) error {
	page := h.shown(j)
	_, page.Error, _ = j.failure()
	for _, p := range j.parameters() {
		f := shownFile{Name: p.name, Value: p.value}
		if p.ref {
			f.URL = page.URL + "/parameters/" + template.URLQueryEscaper(p.name)
		}
		page.Params = append(page.Params, f)
	}
	for _, res := range j.results() {
		page.Results = append(page.Results, shownFile{Name: res.Name, URL: page.URL + "/results/" + res.Name, Size: res.Size, Type: typeOf(res)})
	}
	return sendPage(w, "job", page)
}

func sendPage(w http.ResponseWriter, name string, page any) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, page); err != nil {
		return err
	}
	header := w.Header()
	header.Set("Vary", "Accept")
	header.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	send(w, http.StatusOK, "text/html; charset=utf-8", b.Bytes())
	return nil
}
