package rdm

import (
	"cmp"
	"errors"
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// catalogIDOf is x-catalog://host:port/name, or x-catalogs where the server is
// reached by https (Catalog Service IDs). server is a URL of the server.
func catalogIDOf(server, name string) string {
	scheme, rest, _ := strings.Cut(server, "://")
	host, _, _ := strings.Cut(rest, "/")
	catalog, port := "x-catalog", ":80"
	if scheme == "https" {
		catalog, port = "x-catalogs", ":443"
	}
	if (&url.URL{Host: host}).Port() == "" {
		host = strings.TrimSuffix(host, ":") + port
	}
	return state.Base(catalog + "://" + host).Ref(name)
}

func (x *exchange) catalogID(queue string) string { return catalogIDOf(string(x.base), queue) }

// answered is the Catalog-Service-ID of the answer: the catalog's, or the one
// in the request.
func (x *exchange) answered() string {
	if x.catalog != nil {
		return x.catalogID(x.catalog.ID())
	}
	return x.said(nameCatalog)
}

// catalogName returns the queue of a Catalog-Service-ID. Host and port are those of this
// server: of its base URI, or as the client has reached it.
func (x *exchange) catalogName(csid string) (string, error) {
	u, err := url.Parse(csid)
	if err != nil || !strings.EqualFold(strings.TrimSuffix(strings.ToLower(u.Scheme), "s"), "x-catalog") || u.Host == "" ||
		len(u.Path) < 2 || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", badRequest("%s %.80q is not x-catalog://host:port/name", nameCatalog, csid)
	}
	own := []string{x.r.Host}
	for _, base := range []state.Base{x.base, web.BaseOf(x.r, string(x.base))} {
		if b, err := url.Parse(string(base)); err == nil {
			own = append(own, b.Host)
		}
	}
	// The usual ports may be left out.
	bare := func(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443") }
	for _, host := range own {
		if strings.EqualFold(bare(u.Host), bare(host)) {
			return strings.TrimPrefix(u.Path, "/"), nil
		}
	}
	return "", web.Errorf(http.StatusNotFound, "catalog not found: %.200s is of another server, the catalogs here are %s",
		strings.ToValidUTF8(csid, "\ufffd"), x.catalogID("NAME"))
}

// open finds the catalog of the message, for a caller with the right. The default is the
// one in cutie-info.txt, or the first queue.
func (x *exchange) open(right web.Right) (err error) {
	name := x.h.svc.Info().DefaultCatalog
	if csid := x.said(nameCatalog); csid != "" {
		if name, err = x.catalogName(csid); err != nil {
			return err
		}
	} else if queues := x.h.svc.Queues(); name == "" && len(queues) > 0 {
		name = queues[0].ID()
	}
	q, err := x.h.svc.Ask(name)
	if err != nil {
		// The names of queues are for those with the right to see all.
		if err := x.allow(right, ""); err != nil {
			return err
		}
		if errors.Is(err, ledger.ErrNoQueue) || errors.Is(err, job.ErrBadName) {
			return web.Errorf(http.StatusNotFound, "catalog not found: %.200s", cmp.Or(name, "there is none"))
		}
		return err
	}
	x.catalog = q
	return x.allow(right, q.ID())
}

func (x *exchange) allow(right web.Right, queue string) error {
	return x.h.o.Allow(x.w.Header(), x.r, right, queue)
}

// may is allow for parts of an answer that can be left out.
func (x *exchange) may(right web.Right, queue string) bool {
	return x.h.o.Allow(http.Header{}, x.r, right, queue) == nil
}

// readable returns the queues with the right to read for the caller.
func (x *exchange) readable() (list []*queuefs.Queue) {
	for _, q := range x.h.svc.Queues() {
		if x.may(web.Read, q.ID()) {
			list = append(list, q)
		}
	}
	return list
}

// named returns the queue that the message names, or else all with the right to read.
func (x *exchange) named() ([]*queuefs.Queue, error) {
	if x.said(nameCatalog) == "" {
		return x.readable(), nil
	}
	err := x.open(web.Read)
	return []*queuefs.Queue{x.catalog}, err
}

// names are the submitted descriptions of a catalog, by their URLs: some 80 bytes each. It
// reads the job files of the queue once, and then those that its events are about.
type names struct {
	q *queuefs.Queue

	mu   sync.Mutex // guards the rest
	seq  job.Seq    // last event that was looked at
	jobs map[job.ID]named
	live map[uint64]job.ID // by the sums of the URLs: the last job in the catalog
}

// A named job has a URL, by its sum. It is gone if it is no longer in the catalog.
type named struct {
	url  uint64
	gone bool
}

var seed = maphash.MakeSeed()

func sumOf(url string) uint64 { return maphash.String(seed, url) }

// names returns the names in a catalog, up to its last event.
func (h *Handler) names(q *queuefs.Queue) (*names, error) {
	h.mu.Lock()
	n := h.catalogs[q.ID()]
	if n == nil || n.q != q {
		maps.DeleteFunc(h.catalogs, func(id string, _ *names) bool { // of queues that were removed
			_, err := h.svc.Queue(id)
			return errors.Is(err, ledger.ErrNoQueue)
		})
		n = &names{q: q}
		h.catalogs[q.ID()] = n
	}
	h.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if n.jobs == nil {
			n.begin()
		}
		events, err := n.q.Events(n.seq, 0)
		if errors.Is(err, ledger.ErrGone) { // too many since then
			n.jobs = nil
			continue
		}
		if err != nil || len(events) == 0 {
			return n, err
		}
		for i := range events {
			e := &events[i]
			if _, known := n.jobs[e.Job]; known || e.Kind == job.Submit {
				n.look(e.Job)
			}
			n.seq = e.Seq
		}
	}
}

// begin looks at all jobs. It does so to the end even if the request is given up: the next
// one needs it as well.
func (n *names) begin() {
	n.seq, n.jobs, n.live = n.q.Seq(), map[job.ID]named{}, map[uint64]job.ID{}
	var entries []ledger.Entry
	for page := range n.q.Pages() {
		entries, _, _ = n.q.Page(page, entries[:0])
		for i := range entries {
			n.look(entries[i].Job)
		}
	}
}

// look takes the URL of a job. A job that cannot be read has none: who asks for its
// description gets the error.
func (n *names) look(id job.ID) {
	if was := n.jobs[id]; n.live[was.url] == id {
		delete(n.live, was.url)
	}
	delete(n.jobs, id)
	j, err := n.q.Job(id)
	url := j.Extra.Value(elemURL)
	if err != nil || url == "" {
		return
	}
	now := named{sumOf(url), j.Status == job.Deleted || j.Extra.Value(elemRetired) != ""}
	n.jobs[id] = now
	if !now.gone && n.live[now.url] < id {
		n.live[now.url] = id
	}
}

// wanted reports whether a job is in the catalog, or was, if what is deleted is wanted. One
// that a later job has replaced is neither.
func (n *names) wanted(e *ledger.Entry, deleted bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	j, has := n.jobs[e.Job]
	if has && n.live[j.url] != 0 && n.live[j.url] != e.Job {
		return false
	}
	return (e.Status == job.Deleted || j.gone) == deleted
}

// jobOf returns the job of the description with a URL, zero if there is none.
func (x *exchange) jobOf(url string) (job.Job, error) {
	n, err := x.h.names(x.catalog)
	if err != nil {
		return job.Job{}, err
	}
	n.mu.Lock()
	id := n.live[sumOf(url)]
	n.mu.Unlock()
	if id == 0 {
		return job.Job{}, nil
	}
	j, err := x.catalog.Job(id)
	if errors.Is(err, ledger.ErrNoJob) || j.Extra.Value(elemURL) != url {
		return job.Job{}, nil
	}
	return j, err
}
