package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"cutie/queuefs/home"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// The description of the routes as an OpenAPI 3.1 document: paths, rights, parameters, bodies,
// and for each status the media types of its answers. Routes come from the route table, the
// rest from operations; other rooms add an [Operation] for each of their routes.

type object = map[string]any

// An Operation is the description of a route outside of the Cutie protocol. The texts are
// lists of words: parameters NAME:TYPE, media types, and STATUS:KIND of answers; a
// KIND may also be a media type.
type Operation struct{ Tag, Summary, Query, Header, Body, Answers string }

// Describe returns the description of routes. others are the operations of routes outside
// of the protocol, by method and path. A route without an operation, or an operation of the
// protocol without a route, is an error.
func Describe(routes []web.Route, others map[string]Operation) ([]byte, error) {
	paths, described := object{}, 0
	for i := range routes {
		t := routes[i]
		if t.Serve == nil || len(t.Path) > 1 && strings.HasSuffix(t.Path, "/") && others[t.Method+" "+t.Path] == (Operation{}) {
			continue // always 404, or the same as without the slash
		}
		op, ok := operations[t.Method+" "+t.Path]
		if ok {
			described++
		} else {
			var o Operation
			if o, ok = others[t.Method+" "+t.Path]; !ok {
				return nil, fmt.Errorf("route %s %s has no operation", t.Method, t.Path)
			}
			op = operation{query: o.Query, header: o.Header, body: o.Body, answers: o.Answers}
			t.Help = &web.Help{Name: o.Tag}
			t.Help.Summary, t.Help.Method = o.Summary, o.Tag
		}
		for _, path := range expanded(t.Path) {
			t.Path = path
			at, _ := paths[plainPath(path)].(object)
			if at == nil {
				at = object{}
				paths[plainPath(path)] = at
			}
			at[strings.ToLower(t.Method)] = op.describe(&t)
		}
	}
	if described != len(operations) {
		return nil, fmt.Errorf("%d operations for %d routes", len(operations), described)
	}
	schemas := object{}
	for name, c := range state.Schemas {
		schemas[name] = json.RawMessage(state.JSONSchema(c))
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "Cutie", "version": home.Version,
			"summary":     "A directory-based queuing service",
			"description": "Every request may have the parameter h, for help about its method, and V, for the version. GET answers HEAD, too.",
			"license":     object{"name": "see cutie version --licenses"}},
		"servers":  []object{{"url": "/"}},
		"security": []object{{}, {"token": []string{}}, {"password": []string{}}},
		"paths":    paths,
		"components": object{"schemas": schemas, "securitySchemes": object{
			"token":    object{"type": "http", "scheme": "bearer"},
			"password": object{"type": "http", "scheme": "basic"}}},
	}, "", " ")
}

// expanded returns the paths of a path with a choice of words, such as /{part:phase|error}.
func expanded(path string) (all []string) {
	m := choice.FindStringSubmatchIndex(path)
	if m == nil {
		return []string{path}
	}
	for word := range strings.SplitSeq(path[m[2]:m[3]], "|") {
		all = append(all, expanded(path[:m[0]]+word+path[m[1]:])...)
	}
	return all
}

var choice = regexp.MustCompile(`\{[a-z]+:([a-z.|-]+)\}`)

// plainPath returns a path without the patterns of its parameters.
func plainPath(path string) string { return pattern.ReplaceAllString(path, "{$1}") }

var pattern = regexp.MustCompile(`\{([a-z]+)(?::[^}]*)?\}`)

// An operation is the rest of a route, beside the route table.
type operation struct {
	query   string // parameters, each NAME:TYPE; see schemaOf
	header  string // of the request, beside those of HTTP itself
	body    string // media types of a body; "" for none or an ignored one
	answers string // each STATUS:KIND; see kinds
	class   string // of a state in JSON
}

// everywhere are statuses of all operations.
const everywhere = "400 401 403 404 405 415 500 503"

func (o *operation) describe(t *web.Route) object {
	d := object{"summary": t.Help.Summary, "operationId": operationID(t), "tags": []string{t.Help.Method}}
	if t.Help.Text != "" {
		d["description"] = t.Help.Text
	}
	if t.Need.Right > 0 {
		d["x-right"] = t.Need.Right.String()
	}
	params := []object{}
	for _, m := range pattern.FindAllStringSubmatch(t.Path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for where, list := range map[string]string{"query": o.query, "header": o.header} {
		for _, p := range strings.Fields(list) {
			name, kind, _ := strings.Cut(p, ":")
			params = append(params, object{"name": name, "in": where, "schema": schemaOf(kind)})
		}
	}
	slices.SortStableFunc(params, func(a, b object) int { return cmp.Compare(b["in"].(string), a["in"].(string)) })
	if len(params) > 0 {
		d["parameters"] = params
	}
	if o.body != "" {
		content := object{}
		for _, media := range strings.Fields(o.body) {
			content[media] = object{}
		}
		d["requestBody"] = object{"content": content}
	}
	answers := object{}
	for _, a := range strings.Fields(o.answers + " " + everywhere) {
		status, kind, _ := strings.Cut(a, ":")
		answers[status] = o.answer(status, kind)
	}
	d["responses"] = answers
	return d
}

// operationID is the name of the method with its path: several routes have the same
// method.
func operationID(t *web.Route) string {
	id := t.Help.Name
	for word := range strings.FieldsFuncSeq(t.Method+" "+plainPath(t.Path), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }) {
		id += "-" + strings.ToLower(word)
	}
	return id
}

func (o *operation) answer(status, kind string) object {
	class := o.class
	if status >= "400" {
		kind, class = "error", "exception"
	}
	content := object{}
	for _, media := range strings.Fields(cmp.Or(kinds[kind], kind)) {
		content[media] = object{}
		if media == state.JSON.MediaType() && class != "" {
			content[media] = object{"schema": object{"$ref": "#/components/schemas/" + class}}
		}
	}
	n := 0
	fmt.Sscan(status, &n)
	d := object{"description": http.StatusText(n)}
	if len(content) > 0 {
		d["content"] = content
	}
	return d
}

// kinds are the media types of kinds of answers.
var kinds = map[string]string{
	"state":   stateForms,
	"error":   stateForms + " text/plain",
	"help":    stateForms + " text/plain",
	"payload": "multipart/form-data multipart/mixed */*",
	"file":    "*/*",
	"events":  "text/event-stream",
	"schema":  "application/schema+json application/xml",
	"json":    "application/json",
	"states":  stateForms + " multipart/form-data",

	"page":     "text/html",
	"document": "application/xml",
	"text":     "text/plain",
	"script":   "text/javascript",
	"uws":      "application/xml text/html text/plain",
}

const stateForms = "application/xhtml+xml text/html application/json text/x-anvl application/xml text/turtle application/x-soif"

// schemaOf returns the schema of a parameter: text, number, seconds, time, flag, or words
// with | between them.
func schemaOf(kind string) object {
	switch kind {
	case "text":
		return object{"type": "string"}
	case "number":
		return object{"type": "integer", "minimum": 0}
	case "seconds":
		return object{"type": "number", "minimum": 0}
	case "time":
		return object{"type": "string", "format": "date-time"}
	case "flag":
		return object{"type": "string", "enum": []string{"", "true", "false"}}
	case "texts":
		return object{"type": "array", "items": object{"type": "string"}}
	}
	return object{"type": "string", "enum": strings.Split(kind, "|")}
}

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

// parametersOf returns the names of the parameters of an operation, with their variants in
// [fieldNames], and those that every method has.
func parametersOf(method string) []string {
	all := []string{"t", "v", "D"}
	for parameter := range strings.FieldsSeq(operations[method].query) {
		name, _, _ := strings.Cut(parameter, ":")
		all = append(all, name)
		for variant, field := range fieldNames {
			if field == name && variant != "sidecare" { // which is of parts alone
				all = append(all, variant)
			}
		}
	}
	return all
}

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
