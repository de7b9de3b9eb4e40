package dashboard

import (
	"net/http"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/topics"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Board serves the pages of a service. Its fields are set before use.
type Board struct {
	Service *queuefs.Service
	History *History
	Hub     *Hub // nil: pages stay as they are
	// Published answers requests for documents of ResourceSync, whoever asks.
	Published http.Handler
	// Differences returns some files of a mirror, found by its last audit since the start, that
	// are not as at the original; nil: nobody knows.
	Differences func(queue string) []string
	// Batches returns the batches of a queue on their way, and failed ones; nil: nobody knows.
	Batches func(queue string) []state.Batch
	// Trouble returns the faults of the whole service, in words for everyone.
	Trouble func() []Trouble

	all totals
}

// Routes returns the routes of the pages.
func (b *Board) Routes() []web.Route {
	get := func(path string, need web.Need, waits web.Waits, serve func(http.ResponseWriter, *http.Request) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Need: need, Waits: waits, Serve: serve}
	}
	some, here, all := web.Anywhere(web.Read), web.Here(web.Read), web.Everywhere(web.Read)
	rows := []web.Route{
		get("/", web.Need{Right: web.Read, Of: web.Body}, web.AtOnce, b.index),
		get("/"+OwnDir+"/{queue}", web.Need{Right: web.Read, Of: web.Use}, web.AtOnce, b.own),
		get("/history", all, web.AtOnce, b.history),
		get("/history/{queue}", here, web.AtOnce, b.history),
		get("/workers", some, web.AtOnce, b.workers),
		get("/workers/{queue}", here, web.AtOnce, b.workers),
		get("/batches/{queue}", here, web.AtOnce, b.batches),
		get("/batches/{queue}/{batch}", here, web.AtOnce, b.batch),
		get("/mirrors", some, web.AtOnce, b.mirrors),
		get("/find/{queue}", here, web.AtOnce, b.find),
		get("/failures/{queue}", here, web.AtOnce, b.failures),
		get("/bulk/{queue}", here, web.AtOnce, b.bulk),
		{Method: http.MethodPost, Path: "/bulk/{queue}", Need: here, Serve: b.bulk}, // for more names than a URL bears
		get("/"+ManualDir, web.Need{}, web.AtOnce, b.manual),
		get("/"+ManualDir+"/{topic}", web.Need{}, web.AtOnce, b.manual),
		get("/"+ScriptDir+"/{file}", web.Need{}, web.AtOnce, script),
	}
	if b.Published != nil {
		rows = append(rows, get("/read", some, web.AtOnce, b.read), get("/read/{part}", some, web.AtOnce, b.read),
			get("/read/{queue}/{set}/{document}", here, web.AtOnce, b.read))
	}
	if b.Hub != nil {
		rows = append(rows, get("/live", some, web.Endless, b.liveIndex), get("/live/{queue}", here, web.Endless, b.liveQueue),
			get("/live/{queue}/{job}", here, web.Endless, b.liveJob))
	}
	return rows
}

// script answers with the script of live pages.
func script(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("file") != ScriptName {
		return web.NotHere
	}
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Write(Script)
	return nil
}

// manual answers with the manual, one of its topics, or an example of a worker as text.
func (b *Board) manual(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("topic")
	if name == "" {
		return answer(w, Manual(b.site(r, "")))
	}
	if t, ok := topics.Find(name); ok {
		return answer(w, Topic(b.site(r, ""), &t))
	}
	text, ok := topics.Worker(name)
	if !ok {
		return web.NotHere
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.Write(text)
	return nil
}

// site returns the part of a page from its request. livePath is the path of its parts.
func (b *Board) site(r *http.Request, livePath string) Site {
	v := Site{Base: b.base(r), May: web.MayOf(r.Context())}
	if b.Hub != nil {
		v.Live = livePath
	}
	return v
}

func (b *Board) base(r *http.Request) state.Base { return web.BaseOf(r, b.Service.Info().BaseURI) }

// queue returns the queue in the path.
func (b *Board) queue(r *http.Request) (*queuefs.Queue, error) {
	return b.Service.Queue(r.PathValue("queue"))
}

// answer writes a page.
func answer(w http.ResponseWriter, page []byte) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-cache")
	w.Write(page)
	return nil
}

// points returns the points of the last hour, nil without any.
func (b *Board) points(queue string, now time.Time) []Point {
	points, _ := b.History.Of(queue, Hour, now)
	return points
}

func (b *Board) history(w http.ResponseWriter, r *http.Request) error {
	id, name := "", ""
	if r.PathValue("queue") != "" {
		q, err := b.queue(r)
		if err != nil {
			return err
		}
		id, name = q.ID(), q.Names()[1]
		if name == "" {
			name = id
		}
	}
	span, ok := ParseSpan(r.URL.Query().Get("span"))
	if !ok {
		return web.Errorf(http.StatusBadRequest, "parameter span is neither hour nor day nor month")
	}
	now := time.Now()
	points, _ := b.History.Of(id, span, now)
	return answer(w, Charts(b.site(r, ""), id, name, span, points, b.points(id, now), now))
}

// mayReadAll reports whether the caller may see figures of all queues together.
func mayReadAll(r *http.Request) bool { return access.CallerOf(r.Context()).May(web.Read, "") }
