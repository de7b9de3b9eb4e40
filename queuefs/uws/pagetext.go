package uws

import "html/template"

// pages are the list, a job, and an error. They are well-formed, without
// scripts, and load nothing.
var pages = template.Must(template.New("").Parse(`
{{- define "head"}}<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>{{.Title}}</title>
<style type="text/css">{{.Style}}</style>
</head>
<body>
<ul class="path">
<li><a href="{{.Home}}">Queues</a></li>
{{if .List}}<li class="step"><a href="{{.Queue}}">{{.Name}}</a></li>
<li class="step"><a href="{{.List}}?format=html">UWS jobs</a></li>
{{end}}<li class="side"><a href="{{.Service}}">Service</a></li>
<li><a href="{{.Help}}">Help</a></li>
</ul>
<div id="main">
<h1>{{.Title}}{{if .Badge}} <span class="badge {{.Kind}}">{{.Badge}}</span>{{end}}</h1>
{{end}}

{{- define "fail"}}{{template "head" .}}<p class="note bad">{{.Body}}</p>
<p>Nothing was changed. Go back to try again.</p>
</div>
</body>
</html>
{{end}}

{{- define "list"}}{{template "head" .}}{{$list := .List}}{{with .Body}}{{$chosen := .Chosen -}}
<p>{{if $chosen}}<a href="{{$list}}?format=html">Newest</a>{{else}}<b>Newest</b>{{end}}{{range .Phases}} {{if eq . $chosen}}<b>{{.}}</b>{{else}}<a href="{{$list}}?format=html&amp;PHASE={{.}}">{{.}}</a>{{end}}{{end}}</p>
{{if .Jobs}}<div class="scroll"><table class="list">
<tr><th scope="col">Job</th><th scope="col">Phase</th><th scope="col">Run</th><th scope="col">Owner</th><th scope="col" class="minor">Created</th></tr>
{{range .Jobs}}<tr><td class="mono"><a href="{{.URL}}">{{.ID}}</a></td><td><span class="badge {{.Kind}}">{{.Phase}}</span></td><td class="text">{{.RunID}}</td><td>{{.Owner}}</td><td class="t minor">{{.Created}} <span class="dim">{{.Ago}}</span></td></tr>
{{end}}</table></div>
{{else}}<p class="none">None.</p>
{{end}}<h2>Actions</h2>
<div class="forms">
{{if .Mine}}<form method="post" action="{{.Create}}" enctype="multipart/form-data"><fieldset><legend>Create a job</legend>
<label>Run identifier <input type="text" name="RUNID" maxlength="1024" /></label>
<label>Parameters, name=value, one a line <textarea name="parameters" rows="4" cols="40"></textarea></label>
<label>Files <input type="file" name="upload" multiple="multiple" /></label>
<label>Seconds it may run <input type="text" inputmode="numeric" pattern="[0-9]*" name="EXECUTIONDURATION" placeholder="as the queue has it" /></label>
<label>Destroyed at, UTC <input type="text" name="DESTRUCTION" placeholder="2026-01-31T12:00:00Z" /></label>
<p><button type="submit">Create</button> <button type="submit" name="PHASE" value="RUN">Create and run</button></p>
</fieldset></form>
{{end}}<form method="get" action="{{$list}}"><fieldset><legend>List jobs</legend>
<input type="hidden" name="format" value="html" />
<input type="hidden" name="PHASE" value="{{$chosen}}" />
<label>Created after, UTC <input type="text" name="AFTER" value="{{.After}}" placeholder="2026-01-31T12:00:00Z" /></label>
<label>At most <input type="text" inputmode="numeric" pattern="[0-9]+" name="LAST" value="{{.Last}}" required="required" /></label>
<p><button type="submit">List</button></p>
</fieldset></form>
</div>
</div>
<p class="foot">This list for programs: <a href="{{.XML}}">xml</a></p>
{{end}}</body>
</html>
{{end}}

{{- define "job"}}{{template "head" .}}{{with .Body -}}
{{with .HeldFor}}<p class="note warn">On hold: {{.}}</p>
{{end}}{{with .Message}}<p class="note {{$.Kind}}">{{.}}</p>
{{end}}{{if .Waits}}<p><a href="{{.Wait}}">Wait until the phase changes</a></p>
{{end}}{{if .Results}}<h2>Results</h2>
<div class="scroll"><table class="list">
<tr><th scope="col">Name</th><th scope="col" class="n">Octets</th><th scope="col">Type</th></tr>
{{range .Results}}<tr><td><a href="{{.URL}}">{{.Name}}</a></td><td class="n">{{.Size}}</td><td class="text">{{.Type}}</td></tr>
{{end}}</table></div>
{{end}}<h2>Parameters</h2>
{{if .Params}}<div class="scroll"><table class="state">
<tr><th scope="col">Name</th><th scope="col">Value</th></tr>
{{range .Params}}<tr><th scope="row">{{.Name}}</th><td>{{if .URL}}<a href="{{.URL}}">file</a>{{else}}<span class="long">{{.Text}}</span>{{end}}</td></tr>
{{end}}</table></div>
{{else}}<p class="none">None.</p>
{{end}}{{if .Mine}}{{$url := .URL}}<h2>Actions</h2>
<div class="forms">
{{if .Pending}}<form method="post" action="{{.URL}}/phase"><fieldset><legend>Start the job</legend>
<p><button type="submit" name="PHASE" value="RUN">Run</button></p>
</fieldset></form>
{{range .Params}}{{if not .URL}}<form method="post" action="{{$url}}/parameters"><fieldset><legend>Parameter {{.Name}}</legend>
<label>Value {{if .Long}}<textarea name="{{.Name}}" rows="4" cols="40">
{{.Text}}</textarea>{{else}}<input type="text" name="{{.Name}}" value="{{.Text}}" />{{end}}</label>
<p><button type="submit">Set</button></p>
</fieldset></form>
{{end}}{{end}}{{end}}{{if .Active}}<form method="post" action="{{.URL}}/phase"><fieldset><legend>End the job, keep its results</legend>
<p><button type="submit" class="danger" name="PHASE" value="ABORT">Abort</button></p>
</fieldset></form>
{{end}}<form method="post" action="{{.URL}}/executionduration"><fieldset><legend>Execution duration</legend>
<label>Seconds, 0 for any time <input type="text" inputmode="numeric" pattern="[0-9]+" name="EXECUTIONDURATION" value="{{.Duration}}" required="required" /></label>
<p><button type="submit">Set</button></p>
</fieldset></form>
<form method="post" action="{{.URL}}/destruction"><fieldset><legend>Destruction</legend>
<label>Time, UTC <input type="text" name="DESTRUCTION" value="{{.Destruction}}" placeholder="2026-01-31T12:00:00Z" required="required" /></label>
<p><button type="submit">Set</button></p>
</fieldset></form>
<form method="post" action="{{.URL}}"><fieldset><legend>Forget the job and its results</legend>
<p><button type="submit" class="danger" name="ACTION" value="DELETE">Destroy</button></p>
</fieldset></form>
</div>
{{end}}<h2>Properties</h2>
<div class="scroll"><table class="state" summary="uws:job">
<tr><th scope="col">Name</th><th scope="col">Value</th></tr>
{{range .Properties}}<tr><th scope="row">{{.Name}}</th><td>{{.Text}}</td></tr>
{{end}}{{with .CutieJob}}<tr><th scope="row">jobInfo</th><td><a href="{{.}}">state of the job in the queue</a></td></tr>
{{end}}</table></div>
</div>
<p class="foot">This job for programs: <a href="{{.XML}}">xml</a></p>
{{end}}</body>
</html>
{{end}}
`))
