package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/home"
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
	case errors.Is(storage.Err(), queuefs.ErrDenied) && errors.Is(storage.Err(), queuefs.ErrAway):
		return errStoreDenies
	case errors.Is(storage.Err(), queuefs.ErrAway):
		return errStoreAway
	case storage.Err() != nil:
		return errStorage
	case storage.Full() || !storage.HasSpace(0):
		return queuefs.ErrNoSpace
	case unwritten:
		return errUnwritten
	case source.Failure() != nil:
		return errPublishing
	}
	return nil
}
