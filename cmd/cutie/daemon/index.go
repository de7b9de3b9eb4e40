package daemon

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// index answers with the page of the service as it is.
func (d *daemon) index(w http.ResponseWriter, r *http.Request) error {
	caller := access.CallerOf(r.Context())
	var queues []queuefs.QueueState
	var next string
	all, after := d.svc.Queues(), r.URL.Query().Get("after")
	if q, err := d.svc.Queue(after); err == nil {
		all = all[slices.Index(all, q)+1:]
	}
	for _, q := range all {
		if !caller.May(web.Read, q.ID()) {
			continue
		}
		if len(queues) == dashboard.IndexQueues {
			next = "?after=" + url.QueryEscape(queues[len(queues)-1].Info.ID)
			break
		}
		queues = append(queues, q.State())
	}
	info := d.svc.Info()
	info.BaseURI = string(web.BaseOf(r, info.BaseURI))
	page := dashboard.Index(info, state.NodeOf(d.svc), queues, next, caller.May(web.Admin, ""), time.Now())
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", state.PagePolicy)
	h.Set("Cache-Control", "no-cache")
	w.Write(page)
	return nil
}
