package openapi

import (
	"strings"

	"cutie/queuefs/home"
)

// Parameters and bodies of several operations.
const (
	form       = " t:anvl|json|turtle|xhtml|xml|soif"
	selection  = "job:texts status:pending|consumed|deleted outcome:completed|error|aborted held:flag batch:text submitter:text older:text after:text limit:text dry:flag" + form
	digests    = "digest-type:text digest-value:text"
	lease      = "Cutie-Lease:text"
	key        = "Idempotency-Key:text"
	webForm    = "application/x-www-form-urlencoded multipart/form-data"
	settings   = webForm + " text/x-anvl text/anvl application/json"
	conditions = "If-Match:text If-None-Match:text"
	moved      = "303:state" // for people who use a page
)

// property are the parameters that set properties of a queue.
var property = func() string {
	list := "S:pause|restart"
	for i := range home.Properties {
		switch p := &home.Properties[i]; {
		case p.Fixed:
		case p.Kind() == home.Truth:
			list += " " + p.Name + ":true|false"
		case p.Words != nil:
			list += " " + p.Name + ":" + strings.Join(p.Words, "|")
		default:
			list += " " + p.Name + ":text"
		}
	}
	return list + form
}()

// operations are those of the routes, by method and path.
var operations = map[string]operation{
	"GET /help":          {query: form, answers: "200:help"},
	"GET /help/{method}": {query: form, answers: "200:help"},
	"GET /openapi.json":  {answers: "200:json"},
	"GET /state":         {query: "after:text limit:number" + form, answers: "200:state 304", class: "service"},
	"GET /state/{queue}": {query: "status:pending|consumed|deleted outcome:completed|error|aborted held:flag batch:text submitter:text after:text limit:text detail:flag" + form,
		answers: "200:state 304", class: "queue"},
	"GET /state/{queue}/{job}": {query: form, answers: "200:state 304", class: "job"},
	"PUT /state/{queue}":       {query: property, header: conditions, body: settings, answers: "200:state 201:state 409 412 413 422", class: "queue"},
	"POST /state":              {query: "identifier:text " + property, body: settings, answers: "200:state 201:state 409 412 413 422 " + moved, class: "queue"},
	"POST /state/{queue}":      {query: property, header: conditions, body: settings, answers: "200:state 409 412 413 " + moved, class: "queue"},
	"DELETE /state/{queue}":    {query: "lost:flag" + form, header: conditions, answers: "200:state 409 412", class: "service"},
	"POST /cull":               {query: "dry:flag" + form, body: webForm, answers: "200:state 409 413 " + moved, class: "service"},
	"POST /cull/{queue}":       {query: "dry:flag cullingSizeThreshold:text cullingAgeThreshold:text" + form, body: webForm, answers: "200:state 409 413 " + moved, class: "queue"},
	"POST /content/{queue}": {query: "type:job|batch-manifest filename:text sidecar:text not-before:time " + digests + form,
		header: key + " Cutie-Sidecar:text Cutie-Not-Before:time Content-Digest:text Repr-Digest:text Content-MD5:text", body: "*/* multipart/form-data text/checkm",
		answers: "200:state 201:state 202:state 408 409 413 422 429 502 504 507 " + moved, class: "job"},
	"GET /batch/{queue}/{batch}": {query: form, answers: "200:state", class: "batch"},
	"POST /consume/{queue}": {query: "max:number wait:seconds lease:seconds t:multipart|anvl|json|turtle|xhtml|xml|soif", header: key, body: webForm,
		answers: "200:payload 204 409 413 422 507 " + moved},
	"GET /content/{queue}":          {query: "part:sidecar t:multipart", answers: "200:payload 204 206:payload 304 412 416"},
	"GET /content/{queue}/{job}":    {query: "part:sidecar t:multipart", answers: "200:payload 204 206:payload 304 412 416"},
	"DELETE /content/{queue}/{job}": {query: form, answers: "200:state 202:state 409 507", class: "job"},
	"POST /delete/{queue}/{job}":    {query: form, body: webForm, answers: "200:state 202:state 409 413 507 " + moved, class: "job"},
	"POST /delete/{queue}":          {query: selection, body: webForm + " text/plain", answers: "200:state 202:state 409 413 507 " + moved, class: "queue"},
	"POST /hold/{queue}/{job}":      {query: "reason:text until:time" + form, body: webForm, answers: "200:state 409 413 507 " + moved, class: "job"},
	"POST /hold/{queue}":            {query: "reason:text until:time " + selection, body: webForm + " text/plain", answers: "200:state 409 413 507 " + moved, class: "queue"},
	"POST /release/{queue}/{job}":   {query: form, body: webForm, answers: "200:state 409 413 507 " + moved, class: "job"},
	"POST /release/{queue}":         {query: selection, body: webForm + " text/plain", answers: "200:state 409 413 507 " + moved, class: "queue"},
	"POST /requeue/{queue}/{job}":   {query: "end:flag force:flag" + form, body: webForm, answers: "200:state 201:state 409 413 507 " + moved, class: "job"},
	"POST /requeue/{queue}":         {query: "end:flag force:flag " + selection, body: webForm + " text/plain", answers: "200:state 409 413 507 " + moved, class: "queue"},
	"POST /lease/{queue}/{job}":     {query: "seconds:seconds lease:text" + form, header: lease, body: webForm, answers: "200:state 410 413 507 " + moved, class: "job"},
	"POST /outcome/{queue}/{job}": {query: "outcome:completed|error|released message:text type:transient|fatal retryIn:seconds lease:text" + form, header: lease, body: webForm,
		answers: "200:state 409 410 413 507 " + moved, class: "job"},
	"POST /abort/{queue}/{job}": {query: "message:text" + form, body: webForm, answers: "200:state 409 413 507 " + moved, class: "job"},
	"PUT /result/{queue}/{job}/{name}": {query: "lease:text " + digests + form, header: lease + " Content-Digest:text Repr-Digest:text Content-MD5:text", body: "*/*",
		answers: "201:state 408 409 410 413 507", class: "job"},
	"GET /result/{queue}/{job}/{name}":        {answers: "200:file 206:file 304 412 416"},
	"GET /events":                             {query: "kind:text status:text from:number", header: "Last-Event-ID:text", answers: "200:events"},
	"GET /events/{queue}":                     {query: "kind:text status:text from:number", header: "Last-Event-ID:text", answers: "200:events"},
	"GET /queues/{queue}/{file}":              {answers: "200:file 206:file 304 412 416"},
	"GET /queues/{queue}/{dir}/{job}":         {answers: "200:file 206:file 304 412 416"},
	"GET /queues/{queue}/result/{job}/{name}": {answers: "200:file 206:file 304 412 416"},
	"GET /schema/{file}":                      {answers: "200:schema 304"},
}
