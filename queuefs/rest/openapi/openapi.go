// Package openapi describes the routes of a service as an OpenAPI 3.1 document: paths,
// rights, parameters, bodies, and for each status the media types of its answers.
//
// Routes come from the route table, the rest from operations: here they are the Cutie
// protocol, and other rooms add an [Operation] for each of their routes.
package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

type object = map[string]any

// An Operation is the description of a route outside of the Cutie protocol. The texts are
// lists of words: parameters NAME:TYPE, media types, and STATUS:KIND of answers; a
// KIND may also be a media type.
type Operation struct{ Tag, Summary, Query, Header, Body, Answers string }

// Document returns the description of routes. others are the operations of routes outside
// of the protocol, by method and path. A route without an operation, or an operation of the
// protocol without a route, is an error.
func Document(routes []web.Route, others map[string]Operation) ([]byte, error) {
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
		"info": object{"title": "Cutie", "version": queuefs.Version,
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
	d := object{"summary": t.Help.Summary, "description": t.Help.Text, "operationId": operationID(t), "tags": []string{t.Help.Method}}
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
