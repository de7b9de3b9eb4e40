package daemon

import (
	"bytes"
	"html/template"
	"net/http"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// indexPage lists the queues that a person may look into, with what an operator
// must know of each. It is well-formed XML, asks for nothing else and runs
// nothing.
var indexPage = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>{{.Info.Name}}</title>
<link rel="resourcesync" href="{{.Published}}" />
<style type="text/css">` + state.PageStyle + `</style>
</head>
<body>
<ul class="path">
<li>Queues</li>
<li class="side"><a href="{{.Service}}">Service</a></li>
<li><a href="{{.Help}}">Help</a></li>
</ul>
<div id="main">
<h1>{{.Info.Name}}</h1>
{{with .Info.Description}}<p class="lead">{{.}}</p>
{{end}}<h2>Queues</h2>
{{if .Queues}}<div class="scroll"><table class="list" summary="Queues and how many jobs they have">
<tr><th scope="col">Queue</th><th scope="col" class="n">Pending</th><th scope="col" class="n minor">On hold</th><th scope="col" class="n">In work</th><th scope="col" class="n">Failed</th><th scope="col" class="n minor">Consumed</th><th scope="col" class="n minor">Deleted</th><th scope="col" class="minor">Last event (UTC)</th><th scope="col" class="minor">Published</th></tr>
{{range .Queues}}<tr><td class="text"><a href="{{.URL}}">{{.Name}}</a>{{if not .Info.Paused.IsZero}} <span class="badge warn">paused</span>{{end}}{{if .Info.Closed}} <span class="badge warn">closed</span>{{end}}</td><td class="n">{{.Pending}}</td><td class="n minor">{{.Held}}</td><td class="n">{{.Leased}}</td><td class="n">{{if .Failed}}<a href="{{.FailedURL}}"><span class="badge bad">{{.Failed}}</span></a>{{else}}0{{end}}</td><td class="n minor">{{.Consumed}}</td><td class="n minor">{{.Deleted}}</td><td class="t minor">{{.Last}} <span class="dim">{{.Ago}}</span></td><td class="minor"><a href="{{.Work}}">pending</a> <a href="{{.Replica}}">replica</a></td></tr>
{{end}}</table></div>
{{else}}<p class="none">None.</p>
{{end}}{{with .Create}}<h2>Actions</h2>
<div class="forms">
{{.}}</div>
{{end}}</div>
<p class="foot">{{.Info.Scheme}}, <a href="{{.Published}}">published with ResourceSync</a></p>
</body>
</html>
`))

type indexQueue struct {
	queuefs.QueueState
	Name, URL, FailedURL, Work, Replica string
	Last, Ago                           string // when the last event was
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
		Create                   template.HTML // "" for who may not
	}{Info: info, Service: base.Ref("state") + "?t=xhtml", Published: base.Ref(".well-known", "resourcesync"), Help: base.Ref("help") + "?t=xhtml"}
	caller, now := access.CallerOf(r.Context()), time.Now()
	for _, q := range d.svc.Queues() {
		if !caller.May(access.Read, q.ID()) {
			continue
		}
		s := q.State()
		name := s.Info.Name
		if name == "" {
			name = q.ID()
		}
		ref := base.Ref("state", q.ID())
		page.Queues = append(page.Queues, indexQueue{s, name, ref + "?t=xhtml", ref + "?outcome=error&t=xhtml",
			base.CapabilityList(q.ID(), "pending"), base.CapabilityList(q.ID(), "replica"),
			s.LastEvent.UTC().Format("2006-01-02 15:04:05"), state.Ago(now, s.LastEvent)})
	}
	if caller.May(access.Admin, "") {
		page.Create = template.HTML(state.AppendCreateForm(nil, base)) // escaped there
	}
	var text bytes.Buffer
	if err := indexPage.Execute(&text, page); err != nil {
		d.Log.Error().Err(err).Msg("index page")
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", state.PagePolicy)
	h.Set("Cache-Control", "no-cache")
	w.Write(text.Bytes())
}
