package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Part is an element of a page.
type Part struct {
	ID   string
	Text []byte
}

// A Hub sends parts of pages to many watchers as server-sent events (WHATWG HTML, 9.2). The
// parts of a page are rendered once for all its watchers, and only while there are some; a
// watcher gets the parts that have changed since it last got them. A slow watcher misses
// states in between, and holds up nobody. The data of an event is the id of an element, a
// line end, and the element. The fields are set before use. It is safe for concurrent
// use.
type Hub struct {
	Every    time.Duration // from one look at a page to the next
	Lifetime time.Duration // of a stream; the browser asks again then, with the rights of that time
	Idle     time.Duration // a watcher that takes nothing for this time is cut off
	Watchers int           // at a time; beyond it 503
	Panicked func(any)     // called when render has panicked; nil: the process ends

	work  sync.WaitGroup
	mu    sync.Mutex
	n     int
	pages map[string]*page
}

// A page has its last parts.
type page struct {
	watchers int
	stop     context.CancelFunc

	mu      sync.Mutex
	version uint64
	order   []string
	parts   map[string]part
	changed chan struct{} // closed at a change
}

type part struct {
	version uint64
	event   []byte
}

// Serve answers with the parts of the page of a key, until the request ends or the
// stream has had its lifetime. Requests with the same key may see the same; render makes
// their parts, in a fixed order.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, key string, render func() []Part) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // or a proxy collects events instead of sending them
	if r.Method == http.MethodHead {
		return nil
	}
	p := h.enter(key, render)
	if p == nil {
		header.Del("Content-Type")
		header.Set("Retry-After", "10")
		return web.Errorf(http.StatusServiceUnavailable, "too many pages are watched, reload the page from time to time")
	}
	defer h.leave(key, p)
	if r.ProtoMajor == 1 {
		// A stream has other deadlines than the next answer would.
		header.Set("Connection", "close")
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.Lifetime)
	defer cancel()
	w.WriteHeader(http.StatusOK)
	conn := http.NewResponseController(w)
	seen, buf := uint64(0), []byte("retry: 2000\n\n")
	for {
		var changed chan struct{}
		buf, seen, changed = p.since(seen, buf)
		if len(buf) > 0 {
			conn.SetWriteDeadline(time.Now().Add(h.Idle))
			if _, err := w.Write(buf); err != nil {
				return nil
			}
			if conn.Flush() != nil {
				return nil
			}
			buf = buf[:0]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(h.Idle / 2): // or a proxy takes the stream for dead
			buf = append(buf, ":\n\n"...)
		}
	}
}

// enter adds a watcher to a page; nil if there are too many.
func (h *Hub) enter(key string, render func() []Part) *page {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n >= h.Watchers {
		return nil
	}
	h.n++
	p := h.pages[key]
	if p == nil {
		ctx, stop := context.WithCancel(context.Background())
		p = &page{stop: stop, parts: map[string]part{}, changed: make(chan struct{})}
		if h.pages == nil {
			h.pages = map[string]*page{}
		}
		h.pages[key] = p
		h.work.Go(func() { p.run(ctx, h.Every, h.guarded(render)) })
	}
	p.watchers++
	return p
}

// leave takes a watcher away; the last one ends the rendering.
func (h *Hub) leave(key string, p *page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n--
	if p.watchers--; p.watchers == 0 {
		p.stop()
		delete(h.pages, key)
	}
}

// guarded returns render without its panics.
func (h *Hub) guarded(render func() []Part) func() []Part {
	return func() []Part {
		defer func() {
			if h.Panicked == nil {
				return
			}
			if p := recover(); p != nil {
				h.Panicked(p)
			}
		}()
		return render()
	}
}

// Close waits for the end of the rendering, after the end of all requests.
func (h *Hub) Close() { h.work.Wait() }

// run renders the page again and again.
func (p *page) run(ctx context.Context, every time.Duration, render func() []Part) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		p.take(render())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// take takes the parts of now in.
func (p *page) take(parts []Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	version := p.version + 1
	var order []string
	for _, one := range parts {
		order = append(order, one.ID)
		e := event(&one)
		if bytes.Equal(e, p.parts[one.ID].event) {
			continue
		}
		p.parts[one.ID] = part{version, e}
		p.version = version
	}
	p.order = order
	if p.version == version {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// event returns a part as an event.
func event(p *Part) []byte {
	e := append([]byte("data: "), p.ID...)
	for line := range bytes.Lines(bytes.TrimRight(p.Text, "\n")) {
		e = append(e, "\ndata: "...)
		e = append(e, bytes.TrimRight(line, "\r\n")...)
	}
	return append(e, "\n\n"...)
}

// since appends the events of the parts changed after a version, and returns the version
// they lead to, with a channel to wait for the next one.
func (p *page) since(seen uint64, dst []byte) ([]byte, uint64, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.order {
		if one := p.parts[id]; one.version > seen {
			dst = append(dst, one.event...)
		}
	}
	return dst, p.version, p.changed
}

// Script is the script of live pages. Its name changes with its text.
//
//go:embed live.js
var Script []byte

var (
	scriptSum = sha256.Sum256(Script)
	// ScriptName is the last segment of the URL of the script.
	ScriptName = "live." + hex.EncodeToString(scriptSum[:8]) + ".js"
	scriptHash = "sha256-" + base64.StdEncoding.EncodeToString(scriptSum[:])
)

// ScriptDir is the first segment of the URL of the script.
const ScriptDir = "dashboard"

// Policy is the Content-Security-Policy of the pages with a script: this one alone,
// streams from and images of their own origin. A browser that does not know hashes of
// scripts at URLs shows the same pages at rest.
var Policy = state.PagePolicy + "; script-src '" + scriptHash + "'; connect-src 'self'; img-src 'self'"

// jobNews says on the page of a job how the job differs from it. The page itself stays: its
// reader may be in a form.
type jobNews struct{ Text, Ref string }

// JobParts are the parts of the page of a job that change. The page was made after the event
// seen; j is nil for a job gone since.
func JobParts(base state.Base, j *job.Job, seen job.Seq) []Part {
	n := jobNews{}
	switch {
	case j == nil:
		n.Text = "The job is gone: a cull took it away, or its queue is removed."
	case j.Seq > seen:
		d := state.OfJob(base, j)
		n = jobNews{"The job has changed since. Now it is " + strings.Join(badges(&d), ", ") + ".", state.XHTML.Ask(d.Subject)}
	}
	return []Part{newPart("news", "job news", n)}
}
