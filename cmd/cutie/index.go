package main

import (
	"bytes"
	"html/template"
	"net/http"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// indexPage lists what a person may open. It asks for nothing else and runs
// nothing.
var indexPage = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{{.Info.Name}}</title>
<link rel="resourcesync" href="{{.Published}}">
</head>
<body>
<h1>{{.Info.Name}}</h1>
{{with .Info.Description}}<p>{{.}}</p>
{{end}}<table>
<tr><th>queue</th><th>pending</th><th>consumed</th><th>deleted</th><th>published</th></tr>
{{range .Queues}}<tr><td><a href="{{.State}}">{{.Name}}</a></td><td>{{.Pending}}</td><td>{{.Consumed}}</td><td>{{.Deleted}}</td><td><a href="{{.Work}}">pending</a> <a href="{{.Replica}}">replica</a></td></tr>
{{end}}</table>
<ul>
<li><a href="{{.Service}}">state of the service</a></li>
<li><a href="{{.Published}}">ResourceSync source description</a></li>
<li><a href="{{.Help}}">help</a></li>
</ul>
<p>{{.Info.Scheme}}</p>
</body>
</html>
`))

type indexQueue struct {
	queuefs.QueueState
	Name, State, Work, Replica string
}

// index answers with the page of the service as it is.
func (d *daemon) index(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	info := d.svc.Info()
	base := state.NewBase(info.BaseURI)
	page := struct {
		Info                     queuefs.ServiceInfo
		Service, Published, Help string
		Queues                   []indexQueue
	}{Info: info, Service: base.Ref("state"), Published: base.Ref(".well-known", "resourcesync"), Help: base.Ref("help")}
	caller := access.CallerOf(r.Context())
	for _, q := range d.svc.Queues() {
		if !caller.May(access.Read, q.ID()) {
			continue
		}
		s := q.State()
		name := s.Info.Name
		if name == "" {
			name = q.ID()
		}
		page.Queues = append(page.Queues, indexQueue{s, name, base.Ref("state", q.ID()),
			base.CapabilityList(q.ID(), "pending"), base.CapabilityList(q.ID(), "replica")})
	}
	var text bytes.Buffer
	if err := indexPage.Execute(&text, page); err != nil {
		d.log.Error().Err(err).Msg("index page")
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cache-Control", "no-cache")
	w.Write(text.Bytes())
}
