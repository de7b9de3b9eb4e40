package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"cutie/queuefs/home"
	"cutie/queuefs/web"
)

// A room offers rows of the route table.
type room interface{ Routes() []web.Route }

// answerErrors gives rows without an answer of their own to errors that of f.
func answerErrors(rows []web.Route, f web.Refuser) []web.Route {
	for i := range rows {
		if rows[i].Fail == nil {
			rows[i].Fail = f.Refuse
		}
	}
	return rows
}

// routes is the URL space of the daemon: the rows of all rooms, and those of its
// own.
func (d *daemon) routes(s *site, rooms ...room) []web.Route {
	var all []web.Route
	for _, room := range rooms {
		all = append(all, room.Routes()...)
	}
	all = append(all, (&publishing{d.pub, s.refuse}).Routes()...)
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
		if homeOf(r) == nil {
			return web.NotHere
		}
		serve(w, r)
		return nil
	}
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
