package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/publisher/rdm"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

// A room offers rows of the route table.
type room interface{ Routes() []web.Route }

// routes is the URL space of the daemon: the rows of all rooms, and those of its
// own.
func (d *daemon) routes(s *site, rooms ...room) []web.Route {
	var all []web.Route
	for _, room := range rooms {
		all = append(all, room.Routes()...)
	}
	all = append(all, (&publishing{d.pub}).Routes()...)
	all = append(all, ownRows{d.svc}.Routes()...)
	get := func(path string, need web.Need, serve func(http.ResponseWriter, *http.Request) error) {
		all = append(all, web.Route{Method: http.MethodGet, Path: path, Need: need, Serve: serve})
	}
	get("/metrics", web.Everywhere(web.Read), s.meter.serve) // the samples name all queues
	get("/favicon.ico", web.Need{}, noIcon)
	get("/livez", web.Need{}, func(w http.ResponseWriter, _ *http.Request) error { return probe(w, nil) })
	get("/readyz", web.Need{}, func(w http.ResponseWriter, _ *http.Request) error { return d.readiness(w, s.leaving) })
	for _, profile := range []struct {
		path  string
		serve http.HandlerFunc
	}{
		{"", pprof.Index}, {"profile", pprof.Profile}, {"trace", pprof.Trace}, {"symbol", pprof.Symbol}, {"{name}", pprof.Index},
	} {
		all = append(all, web.Route{Method: http.MethodGet, Path: "/debug/pprof/" + profile.path, Need: web.Everywhere(web.Admin), Waits: web.Endless, Serve: atHome(profile.serve)})
	}
	if d.Robots {
		get("/robots.txt", web.Need{}, d.listForRobots)
	}
	return all
}

// readiness answers whether the service takes requests, and if queues or jobs are lost or
// cannot be read now, how many.
func (d *daemon) readiness(w http.ResponseWriter, leaving context.Context) error {
	err := probe(w, d.ready(leaving))
	if n := d.svc.Shut(); err == nil && n > 0 {
		fmt.Fprintf(w, "%d queues are shut, their %s cannot be read now, see the log\n", n, home.QueueInfoName)
	}
	if n := len(d.svc.Lost()); err == nil && n > 0 {
		fmt.Fprintf(w, "%d queues are not served, their directories are lost, see the log\n", n)
	}
	if n := d.svc.Unread(); err == nil && n > 0 {
		fmt.Fprintf(w, "%d jobs cannot be read now, see the log\n", n)
	}
	if err == nil {
		d.node.ready(w)
	}
	return err
}

// ready returns why the daemon should be given no requests, in words for everyone.
func (d *daemon) ready(leaving context.Context) error {
	return cmp.Or(ready(leaving, d.svc, d.pub, d.unwritten.Load()), d.node.hindered())
}

// atHome serves requests through the socket of the home alone: profiles show payloads
// and tokens, and taking one costs every other request.
func atHome(serve http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if access.CallerOf(r.Context()) != theOwner {
			return web.NotHere
		}
		serve(w, r)
		return nil
	}
}

// OwnRowsPath is where a backup asks for what the files of a home do not have.
const OwnRowsPath = "/rows"

// ownRows answers GET /rows, as [queuefs.Service.OwnRows], to the owner of the home alone.
type ownRows struct{ svc *queuefs.Service }

func (o ownRows) Routes() []web.Route {
	serve := func(w http.ResponseWriter, r *http.Request) error {
		if access.CallerOf(r.Context()) != theOwner {
			return web.NotHere
		}
		var rows bytes.Buffer
		if err := o.svc.OwnRows(&rows); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, err := rows.WriteTo(w)
		return err
	}
	return []web.Route{{Method: http.MethodGet, Path: OwnRowsPath, Need: web.Everywhere(web.Admin), Serve: serve}}
}

// noIcon answers browsers, which ask for an icon unasked.
func noIcon(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Cache-Control", "max-age=86400")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// probe answers a supervisor or a load balancer.
func probe(w http.ResponseWriter, err error) error {
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		return web.Errorf(http.StatusServiceUnavailable, "not ready: %v", err)
	}
	io.WriteString(w, "ok\n")
	return nil
}

var (
	errLeaving     = errors.New("stopping")
	errUnwritten   = errors.New("files of jobs cannot be written, see the log")
	errStorage     = errors.New("storage failed, see the log")
	errStoreDenies = errors.New("the store of the home denies access, see the log; the daemon goes on by itself with valid credentials")
	errStoreAway   = errors.New("the store of the home takes no changes, see the log; the daemon goes on by itself when it does")
	errPublishing  = errors.New("publishing has stopped and goes on by itself, see the log; jobs are served")
)

// A disk is the storage of a service.
type disk interface {
	Err() error
	Full() bool
	HasSpace(bytes int64) bool
}

// ready returns why the daemon should be given no requests, in words for
// everyone.
func ready(leaving context.Context, storage disk, source interface{ Failure() error }, unwritten bool) error {
	switch {
	case leaving.Err() != nil:
		return errLeaving
	case errors.Is(storage.Err(), objects.ErrDenied) && errors.Is(storage.Err(), objects.ErrAway):
		return errStoreDenies
	case errors.Is(storage.Err(), objects.ErrAway):
		return errStoreAway
	case storage.Err() != nil:
		return errStorage
	case storage.Full() || !storage.HasSpace(0):
		return ledger.ErrNoSpace
	case unwritten:
		return errUnwritten
	case source.Failure() != nil:
		return errPublishing
	}
	return nil
}

// A daemon that was asleep, or cut off from the store, may not know yet that another one owns
// the home, and what it knows of jobs and queues may be old. Changes find that out by their
// batch. A refusal writes none, and a client believes it for good: so it is given only when a
// look at the store has shown that this daemon still was the owner.

// proofTime is how long a refusal waits for its proof.
const proofTime = 2 * time.Second

// errUnproven is the answer in the place of a refusal without a proof.
var errUnproven = &web.Error{Status: http.StatusServiceUnavailable, Message: "this daemon may no longer own the home, send the request again in a moment"}

// proveRefusals has rows give refusals that depend on the state of queues and jobs with a
// proof, and 503 without. A standby reads what it knows.
func proveRefusals(svc *queuefs.Service, rows []web.Route) []web.Route {
	if _, stored := svc.Standing(); !stored {
		return rows
	}
	for i := range rows {
		row := rows[i]
		if row.Serve == nil {
			continue
		}
		rows[i].Serve = func(w http.ResponseWriter, r *http.Request) error {
			err := row.Serve(w, r)
			switch { // the change was not made
			case errors.Is(err, journal.ErrFenced):
				return unproven(w)
			case errors.Is(err, journal.ErrFollowing):
				w.Header().Set("Retry-After", "1")
				return err
			case errors.Is(err, objects.ErrAway):
				w.Header().Set("Retry-After", "5")
				return err
			}
			reads := !changesHome(r, &row)
			if err == nil || !ofState(err) || reads && (svc.Standby() || !strings.Contains(row.Path, "{queue}")) {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), proofTime)
			defer cancel()
			if svc.Owns(ctx) != nil {
				return unproven(w)
			}
			return err
		}
	}
	return rows
}

func unproven(w http.ResponseWriter) error {
	w.Header().Set("Retry-After", "1")
	return errUnproven
}

// ofState reports whether an error refuses a request for the state of a queue or a job.
func ofState(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false // nobody is there to read the answer
	}
	switch e, _ := web.ErrorOf(err); e.Status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// description returns a function for the OpenAPI document of all routes; they are set before
// the first request.
func description(routes *[]web.Route) func() ([]byte, error) {
	return func() ([]byte, error) { return rest.Describe(*routes, operations) }
}

const (
	file       = "200:file 206:file 304 412 416"
	listed     = "200:document 206:document 304 410 412 416 "
	searched   = "status:pending|consumed|deleted outcome:completed|error|aborted held:flag batch:text submitter:text"
	ofForm     = "application/x-www-form-urlencoded"
	toUWS      = ofForm + " multipart/form-data"
	changedUWS = "303 409 413 422 429 507"
)

func op(tag, summary, answers string) rest.Operation {
	return rest.Operation{Tag: tag, Summary: summary, Answers: answers}
}

func query(o rest.Operation, query string) rest.Operation {
	o.Query = query
	return o
}

func body(o rest.Operation, media string) rest.Operation {
	o.Body = media
	return o
}

// operations describe the routes outside of the Cutie protocol.
var operations = map[string]rest.Operation{
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
	"POST /publish/export": body(op("published", "Everything published, for another base URI: a part for each document", "200:file 400"), "application/json"),
	"POST /publish":        op("published", "Publish now", "200:json 409"),
	"GET /publish/status":  op("published", "How far the published documents are", "200:json"),
	"GET /robots.txt":      op("published", "The Resource Lists as Sitemaps, for robots", "200:text"),

	"GET /hub":  op("websub", "The subscribers of the hub", "200:json"),
	"POST /hub": body(op("websub", "Subscribe to a topic, or unsubscribe (WebSub 5.1)", "202 204 413 429"), ofForm),

	"GET /rdm/incoming":  op("rdm", "A request for resource descriptions in the query", "200:application/x-rdm"),
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
	"GET /rows":                op("operating", "Rows of the home for its backup, through its socket alone", "200:application/octet-stream"),
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
func (d *daemon) messages(counts *quota.Keeper) room {
	return rdm.New(d.svc, rdm.Options{
		Log:     d.failed,
		User:    rest.UserOf,
		Quota:   counts,
		MaxBody: min(d.Limits.Body, maxMessage),
		Allow:   d.gate.Require,
	})
}

// maxMessage is how many octets one message may have.
const maxMessage = 1 << 30
