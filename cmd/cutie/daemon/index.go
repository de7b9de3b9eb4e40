package daemon

import (
	"net/http"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// index answers with the page of the service as it is.
func (d *daemon) index(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	caller := access.CallerOf(r.Context())
	var queues []queuefs.QueueState
	for _, q := range d.svc.Queues() {
		if caller.May(access.Read, q.ID()) {
			queues = append(queues, q.State())
		}
	}
	page := dashboard.Index(d.svc.Info(), queues, caller.May(access.Admin, ""), time.Now())
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", state.PagePolicy)
	h.Set("Cache-Control", "no-cache")
	w.Write(page)
}
