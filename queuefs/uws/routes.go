package uws

import (
	"errors"
	"net/http"

	"cutie/queuefs"
	"cutie/queuefs/quota"
	"cutie/queuefs/web"
)

// A row is a [web.Route] of UWS.
type row struct {
	method, path string // below /uws/QUEUE
	need         web.Need
	waits        web.Waits
	do           func(http.ResponseWriter, *request) error
}

// Routes returns the routes of UWS (UWS 1.1, 2.2.1). One client makes, sets up,
// starts, follows and destroys a job; the handler knows whose job it is. A path
// with a slash at its end is the same resource: some clients write one.
func (h *Handler) Routes() []web.Route {
	submit, own := web.Here(web.Submit), web.Need{Right: web.Read, Of: web.Own}
	var routes []web.Route
	for _, t := range []row{
		{"GET", "/{part:capabilities|availability}", web.Need{}, web.AtOnce, h.vosi},
		{"GET", "/sync", submit, web.AtOnce, h.sync},
		{"POST", "/sync", submit, web.AtOnce, h.sync},
		{"GET", "/sync/{job}", own, web.Always, h.syncWait},
		{"GET", "/async", own, web.AtOnce, h.jobs},
		{"POST", "/async", submit, web.AtOnce, h.create},
		{"GET", "/async/{job}", own, web.OrEarlier, h.job},
		{"POST", "/async/{job}", submit, web.AtOnce, h.change},
		{"DELETE", "/async/{job}", submit, web.AtOnce, h.destroyed},
		{"GET", "/async/{job}/{part:phase|executionduration|destruction|parameters}", own, web.AtOnce, h.part},
		{"GET", "/async/{job}/{part:quote|owner|error|results}", own, web.AtOnce, h.part},
		{"POST", "/async/{job}/{part:phase|executionduration|destruction|parameters}", submit, web.AtOnce, h.change},
		{"GET", "/async/{job}/results/{name}", own, web.AtOnce, h.result},
		{"GET", "/async/{job}/parameters/{name}", own, web.AtOnce, h.parameter},
		{"PUT", "/async/{job}/parameters/{name}", submit, web.AtOnce, h.putParameter},
	} {
		for _, end := range []string{"", "/"} {
			routes = append(routes, web.Route{Method: t.method, Path: "/uws/{queue}" + t.path + end, Need: t.need, Waits: t.waits, Fail: h.fail,
				Serve: func(w http.ResponseWriter, r *http.Request) error { return h.serve(w, r, t.do) }})
		}
	}
	return append(routes, web.Route{Method: "GET", Path: "/uws/{rest:.*}", Need: web.Otherwise, Fail: h.fail})
}

// ServeHTTP answers requests by the routes of UWS alone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.router.ServeHTTP(w, r) }

// serve answers a request about a queue.
func (h *Handler) serve(w http.ResponseWriter, raw *http.Request, do func(http.ResponseWriter, *request) error) error {
	q, err := h.svc.Ask(raw.PathValue("queue"))
	if errors.Is(err, queuefs.ErrUnread) {
		return err
	}
	if err != nil {
		return h.unknown(w, raw)
	}
	r := &request{Request: raw, view: viewOf(q), base: h.base(raw), id: q.ID(), pages: h.o.Pages != nil, caller: h.o.Caller(raw, q.ID())}
	info := q.Info()
	r.limits = quota.LimitsOf(raw.Context(), &info)
	if r.query, err = parseForm(raw.URL.RawQuery); err != nil {
		return bad("query: %v", err)
	}
	w.Header().Set("Cache-Control", "no-cache")
	return do(w, r)
}
