package daemon

import (
	"net/http"

	"cutie/cmd/cutie/dashboard"
	"cutie/publisher/rdm"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/openapi"
	"cutie/queuefs/web"
)

// description returns a function for the OpenAPI document of all routes; they are set before
// the first request.
func description(routes *[]web.Route) func() ([]byte, error) {
	return func() ([]byte, error) { return openapi.Document(*routes, operations) }
}

const (
	file       = "200:file 206:file 304 412 416"
	listed     = "200:document 206:document 304 410 412 416 "
	searched   = "status:pending|consumed|deleted outcome:completed|error|aborted held:flag batch:text submitter:text"
	ofForm     = "application/x-www-form-urlencoded"
	toUWS      = ofForm + " multipart/form-data"
	changedUWS = "303 409 413 422 429 507"
)

func op(tag, summary, answers string) openapi.Operation {
	return openapi.Operation{Tag: tag, Summary: summary, Answers: answers}
}

func query(o openapi.Operation, query string) openapi.Operation {
	o.Query = query
	return o
}

func body(o openapi.Operation, media string) openapi.Operation {
	o.Body = media
	return o
}

// operations describe the routes outside of the Cutie protocol.
var operations = map[string]openapi.Operation{
	"GET /":                              query(op("pages", "The queues of the service", "200:page"), "after:text"),
	"GET /history":                       query(op("pages", "Charts of the service", "200:page"), "span:hour|day|month"),
	"GET /history/{queue}":               query(op("pages", "Charts of a queue", "200:page"), "span:hour|day|month"),
	"GET /workers":                       op("pages", "Jobs in work, by worker", "200:page"),
	"GET /workers/{queue}":               op("pages", "Jobs of a queue in work, by worker", "200:page"),
	"GET /failures/{queue}":              op("pages", "Reasons of failed jobs, the most frequent first", "200:page"),
	"GET /batches/{queue}":               query(op("pages", "Batches of a queue, the newest first", "200:page"), "before:text"),
	"GET /batches/{queue}/{batch}":       op("pages", "A batch and what became of its jobs", "200:page"),
	"GET /mirrors":                       op("pages", "Mirrors and their last audits", "200:page"),
	"GET /find/{queue}":                  query(op("pages", "Search for jobs, the newest first", "200:page"), "text:text worker:text since:time until:time before:text "+searched),
	"GET /bulk/{queue}":                  query(op("pages", "What a change of many jobs would change", "200:page"), "method:requeue|release|hold|delete job:texts jobs:text "+searched),
	"POST /bulk/{queue}":                 body(op("pages", "The same, with the names of many jobs in a form; nothing changes", "200:page 413"), ofForm),
	"GET /own/{queue}":                   query(op("pages", "What its reader may do with a queue", "200:page"), "job:text jobs:number taken:text"),
	"GET /manual":                        op("pages", "The manual", "200:page"),
	"GET /manual/{topic}":                op("pages", "A topic of the manual, or an example of a worker", "200:page 200:text/plain"),
	"GET /dashboard/{file}":              op("pages", "The script of the pages", "200:script"),
	"GET /read":                          op("pages", "The Source Description as a page", "200:page"),
	"GET /read/{part}":                   op("pages", "A part of the Source Description as a page", "200:page"),
	"GET /read/{queue}/{set}/{document}": op("pages", "A document of a set as a page", "200:page 410"),
	"GET /live":                          query(op("pages", "Parts of the page of the service, or of workers, as they change", "200:events"), "after:text page:workers"),
	"GET /live/{queue}":                  query(op("pages", "Parts of the page of a queue, or of its workers, as they change", "200:events"), "page:workers"),
	"GET /live/{queue}/{job}":            query(op("pages", "Changes of a job after an event", "200:events"), "sequence:number"),

	"GET /.well-known/resourcesync":                          op("published", "The Source Description (ResourceSync 6.3.1)", listed),
	"GET /.well-known/resourcesync/{part}":                   op("published", "A part of the Source Description", listed+"200:file"),
	"GET /.well-known/resourcesync/{queue}/{set}/{document}": op("published", "A document or package of a set; Prefer: wait holds an open list until it changes", listed+"200:file"),
	"GET /.well-known/resourcesync/{queue}/{set}/{topic:change-notification.xml|framework-notification.xml}": op("published", "A topic of the WebSub hub of the set", "200:document 304"),
	"GET /.well-known/resourcesync/{queue}/{rest:.*}":                                                        op("published", "Anything else published of a queue", listed+"200:file"),
	"GET /.well-known/resourcesync/{rest:.*}":                                                                op("published", "Anything else published", listed+"200:file"),
	"POST /publish/export": body(op("published", "Everything published, for another base URI: a line of JSON before each document", "200:file 400"), "application/json"),
	"POST /publish":        op("published", "Publish now", "200:json 409"),
	"GET /publish/status":  op("published", "How far the published documents are", "200:json"),
	"GET /robots.txt":      op("published", "The Resource Lists as Sitemaps, for robots", "200:text"),

	"GET /hub":  op("websub", "The subscribers of the hub", "200:json"),
	"POST /hub": body(op("websub", "Subscribe to a topic, or unsubscribe (WebSub 5.1)", "202 204 413 429"), ofForm),

	"GET /rdm/incoming":  op("rdm", "What the server of resource descriptions speaks", "200:page"),
	"POST /rdm/incoming": body(op("rdm", "Exchange Resource Description Messages", "200:application/x-rdm 413"), "application/x-rdm"),

	"GET /uws/{queue}/{part:capabilities|availability}": op("uws", "What the service can do, and whether it does (VOSI 1.1)", "200:uws"),
	"GET /uws/{queue}/sync":                             op("uws", "Run a job and wait for its result (UWS 1.1)", "200:file 303 409 413 429 507"),
	"POST /uws/{queue}/sync":                            body(op("uws", "Run a job and wait for its result", "200:file 303 409 413 429 507"), toUWS),
	"GET /uws/{queue}/sync/{job}":                       op("uws", "The result of a synchronous job", "200:file 303"),
	"GET /uws/{queue}/async":                            query(op("uws", "The list of jobs", "200:uws"), "PHASE:texts AFTER:time LAST:number"),
	"POST /uws/{queue}/async":                           body(op("uws", "Create a job", changedUWS), toUWS),
	"GET /uws/{queue}/async/{job}":                      query(op("uws", "A job; WAIT holds the answer until its phase changes", "200:uws"), "WAIT:text PHASE:text"),
	"POST /uws/{queue}/async/{job}":                     body(op("uws", "Change a job, or destroy it with ACTION=DELETE", changedUWS), toUWS),
	"DELETE /uws/{queue}/async/{job}":                   op("uws", "Destroy a job", changedUWS),
	"GET /uws/{queue}/async/{job}/{part:phase|executionduration|destruction|parameters}":  op("uws", "A part of a job", "200:uws"),
	"POST /uws/{queue}/async/{job}/{part:phase|executionduration|destruction|parameters}": body(op("uws", "Set a part of a job, or its parameters", changedUWS), toUWS),
	"GET /uws/{queue}/async/{job}/{part:quote|owner|error|results}":                       op("uws", "A part of a job", "200:uws"),
	"GET /uws/{queue}/async/{job}/results/{name}":                                         op("uws", "A result", file),
	"GET /uws/{queue}/async/{job}/parameters/{name}":                                      op("uws", "A parameter", "200:file"),
	"PUT /uws/{queue}/async/{job}/parameters/{name}":                                      body(op("uws", "Set a parameter", changedUWS), "*/*"),

	"POST /takeover":         query(op("mirrors", "Make live queues of all mirrors", "200:json 409"), "force:flag requeue-unfinished:flag"),
	"POST /takeover/{queue}": query(op("mirrors", "Make a live queue of a mirror", "200:json 409"), "force:flag requeue-unfinished:flag"),
	"DELETE /mirror/{queue}": op("mirrors", "Remove a mirror, so that it begins anew", "200 204 409"),
	"GET /parts/{queue}":     query(op("mirrors", "Parts of a queue for its first copy", "200:application/octet-stream 409 410"), "after:number"),
	"POST /audit/{queue}":    op("mirrors", "Compare all files of a mirror with its original", "200:json 303 409 502"),
	"GET /owner":             op("standbys", "The owner of a home in a store", "200:json"),
	"POST /owner":            op("standbys", "Own the home from now on", "200:json 409"),
	"DELETE /owner":          op("standbys", "Give the home to a standby", "200:json 409"),

	"GET /metrics":             op("operating", "Figures for Prometheus", "200:text"),
	"GET /livez":               op("operating", "The process is alive", "200:text"),
	"GET /readyz":              op("operating", "The service takes requests, or why not", "200:text"),
	"GET /favicon.ico":         op("operating", "There is no icon", "204"),
	"GET /debug/pprof/":        op("operating", "Profiles, through the socket of the home alone", "200:page"),
	"GET /debug/pprof/profile": query(op("operating", "A profile of processor time", "200:file"), "seconds:number"),
	"GET /debug/pprof/trace":   query(op("operating", "A trace of execution", "200:file"), "seconds:number"),
	"GET /debug/pprof/symbol":  op("operating", "Names of program counters", "200:text"),
	"GET /debug/pprof/{name}":  query(op("operating", "A profile by name", "200:file"), "debug:number seconds:number"),
}

// messages answers resource description messages. Their rights depend on their
// text, so the handler asks the gate.
func (d *daemon) messages(counts *quota.Keeper, refuse func(http.ResponseWriter, *http.Request, error)) room {
	return rdm.New(d.svc, rdm.Options{
		Page: func(r *http.Request, title, text string) []byte {
			return dashboard.RDM(dashboard.Site{Base: web.BaseOf(r, d.svc.Info().BaseURI), May: web.MayOf(r.Context())}, title, text)
		},
		Refuse:  refuse,
		Log:     d.failed,
		User:    rest.UserOf,
		Quota:   counts,
		MaxBody: min(d.Limits.Body, maxMessage),
		Allow:   d.gate.Require,
	})
}

// maxMessage is how many octets one message may have.
const maxMessage = 1 << 30
