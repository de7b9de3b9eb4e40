package rest

import (
	"net/http"
	"net/url"

	"cutie/queuefs/web"
)

// A row is a [web.Route] of the protocol.
type row struct {
	method, path string
	need         web.Need
	waits        web.Waits
	help         *web.Help
	do           func(http.ResponseWriter, *request) error
}

// table is the protocol, in the order of Cutie 5. Rows without a function are
// 404 for users with their right.
func (h *Handler) table() []row {
	const (
		read    = web.Read
		submit  = web.Submit
		consume = web.Consume
		remove  = web.Delete
		admin   = web.Admin
	)
	here, anywhere, everywhere := web.Here, web.Anywhere, web.Everywhere
	return []row{
		{"GET", "/help", web.Need{}, web.AtOnce, aboutHelp, h.help},
		{"GET", "/help/{method}", web.Need{}, web.AtOnce, aboutHelp, h.help},
		{"GET", "/openapi.json", web.Need{}, web.AtOnce, aboutHelp, h.openAPI},
		{"GET", "/state", anywhere(read), web.AtOnce, aboutGetServiceState, h.serviceState},
		{"GET", "/state/{queue}", here(read), web.AtOnce, aboutGetQueueState, h.queueState},
		{"GET", "/state/{queue}/{job}", here(read), web.AtOnce, aboutGetJobState, h.jobState},
		{"PUT", "/state/{queue}", here(admin), web.AtOnce, aboutCreateQueue, h.putQueue},
		{"POST", "/state", everywhere(admin), web.AtOnce, aboutCreateQueue, h.postState},
		{"POST", "/state/{queue}", here(admin), web.AtOnce, aboutSetQueue, h.postQueue},
		{"DELETE", "/state/{queue}", here(admin), web.AtOnce, aboutRemoveQueue, h.removeQueue},
		{"POST", "/cull", everywhere(admin), web.AtOnce, aboutCull, h.cull},
		{"POST", "/cull/{queue}", here(admin), web.AtOnce, aboutCull, h.cull},
		{"POST", "/content/{queue}", here(submit), web.AtOnce, aboutSubmitJob, h.submit},
		{"GET", "/batch/{queue}/{batch}", here(read), web.AtOnce, aboutGetBatchState, h.batchState},
		{"GET", "/batch/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"POST", "/consume/{queue}", here(consume), web.IfAsked, aboutGetNextJob, h.consume},
		{"GET", "/content/{queue}", here(read), web.AtOnce, aboutPeekAtJob, h.peek},
		{"GET", "/content/{queue}/{job}", here(read), web.AtOnce, aboutPeekAtJob, h.peek},
		{"DELETE", "/content/{queue}/{job}", here(remove), web.AtOnce, aboutDeleteJob, h.delete},
		{"POST", "/delete/{queue}/{job}", here(remove), web.AtOnce, aboutDeleteJob, h.delete},
		{"POST", "/delete/{queue}", here(remove), web.AtOnce, aboutDeleteJob, h.bulk("delete")},
		{"POST", "/hold/{queue}/{job}", here(remove), web.AtOnce, aboutHoldJob, h.hold},
		{"POST", "/hold/{queue}", here(remove), web.AtOnce, aboutHoldJob, h.bulk("hold")},
		{"POST", "/release/{queue}/{job}", here(remove), web.AtOnce, aboutReleaseJob, h.release},
		{"POST", "/release/{queue}", here(remove), web.AtOnce, aboutReleaseJob, h.bulk("release")},
		{"POST", "/requeue/{queue}/{job}", here(consume), web.AtOnce, aboutRequeueJob, h.requeue},
		{"POST", "/requeue/{queue}", here(consume), web.AtOnce, aboutRequeueJob, h.bulk("requeue")},
		{"POST", "/lease/{queue}/{job}", here(consume), web.AtOnce, aboutExtendLease, h.extend},
		{"POST", "/outcome/{queue}/{job}", here(consume), web.AtOnce, aboutReportOutcome, h.outcome},
		{"POST", "/abort/{queue}/{job}", here(remove), web.AtOnce, aboutAbortJob, h.abort},
		{"PUT", "/result/{queue}/{job}/{name}", here(consume), web.AtOnce, aboutPutResult, h.putResult},
		{"GET", "/result/{queue}/{job}/{name}", here(read), web.AtOnce, aboutGetResult, h.result},
		{"GET", "/result/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"GET", "/events", everywhere(read), web.Endless, aboutWatch, h.events},
		{"GET", "/events/{queue}", here(read), web.Endless, aboutWatch, h.events},
		{"GET", "/queues/{queue}/{file}", here(read), web.AtOnce, aboutHelp, h.infoFile},
		{"GET", "/queues/{queue}/{dir}/{job}", here(read), web.AtOnce, aboutHelp, h.file},
		{"GET", "/queues/{queue}/result/{job}/{name}", here(read), web.AtOnce, aboutHelp, h.result},
		{"GET", "/queues/{queue}/{rest:.*}", here(read), web.AtOnce, aboutHelp, nil},
		{"GET", "/schema/{file}", anywhere(read), web.AtOnce, aboutHelp, h.schema},
		{"GET", "/schema/{rest:.*}", anywhere(read), web.AtOnce, aboutHelp, nil},
	}
}

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []web.Route {
	var routes []web.Route
	for _, t := range h.table() {
		route := web.Route{Method: t.method, Path: t.path, Need: t.need, Waits: t.waits, Help: t.help, Fail: h.Error}
		if t.do != nil {
			known := parametersOf(t.method + " " + t.path)
			route.Serve = func(w http.ResponseWriter, r *http.Request) error {
				return h.serve(w, &request{Request: r, known: known}, &t)
			}
		}
		routes = append(routes, route)
	}
	return routes
}

// serve answers a request, or the questions for help and version of every row.
func (h *Handler) serve(w http.ResponseWriter, r *request, t *row) error {
	w.Header()["Vary"] = varyAccept
	if !web.Clean(r.URL) {
		return badRequest("path %.80q is not clean", r.URL.EscapedPath())
	}
	if r.URL.RawQuery != "" {
		var err error
		if r.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return badRequest("query: %v", err)
		}
		switch {
		case r.query.Has("h"):
			return h.answerHelp(w, r, t.help.Help)
		case r.query.Has("V"):
			return h.version(w)
		}
	}
	return t.do(w, r)
}

// varyAccept is shared by all answers; nobody changes its element.
var varyAccept = []string{"Accept"}
