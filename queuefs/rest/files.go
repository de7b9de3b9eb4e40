package rest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// file serves a payload or a job file as a plain resource: its exact octets.
func (h *Handler) file(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	dir := r.PathValue("dir")
	if dir == "payload" {
		return notFound(h.files.Payload(w, r.Request, q, id), queuefs.ErrNoJob, id.String())
	}
	status, err := queuefs.ParseStatus(dir)
	if err != nil {
		return web.Errorf(http.StatusNotFound, "nothing here, see /help")
	}
	return notFound(h.files.JobFile(w, r.Request, q, id, status), queuefs.ErrNoJob, status.String()+"/"+id.String())
}

// infoFile serves queue-info.txt.
func (h *Handler) infoFile(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	if r.PathValue("file") != "queue-info.txt" {
		return web.Errorf(http.StatusNotFound, "nothing here, see /help")
	}
	return h.files.Info(w, r.Request, q)
}

// result serves a result as a plain resource: its exact octets.
func (h *Handler) result(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	err = h.files.Result(w, r.Request, q, id, name)
	if errors.Is(err, queuefs.ErrNoJob) {
		return notFound(err, queuefs.ErrNoJob, id.String())
	}
	return notFound(err, queuefs.ErrNoResult, name)
}

// schema serves the schema of a class of states, such as queue.xsd or
// queue.json, or by its type, queueState.json.
func (h *Handler) schema(w http.ResponseWriter, r *request) error {
	name, ext, _ := strings.Cut(r.PathValue("file"), ".")
	var data []byte
	header := w.Header()
	if c := state.ClassNamed(name); c != nil {
		switch {
		case ext == "xsd" && state.Facts[name] == nil: // facts have no XML
			data = state.XMLSchema(c)
			header["Content-Type"] = []string{"application/xml"}
		case ext == "json":
			data = state.JSONSchema(c)
			header["Content-Type"] = []string{"application/schema+json"}
		}
	}
	if data == nil {
		return web.Errorf(http.StatusNotFound, "no such schema; there are service, queue, job, batch and exception, each .xsd and .json, and %s, each .json",
			strings.Join(slices.Sorted(maps.Keys(state.Facts)), ", "))
	}
	header["Etag"] = []string{Tag(sha256.Sum256(data))}
	header["Cache-Control"] = noCache
	header["X-Content-Type-Options"] = noSniff
	delete(header, "Vary")
	return web.Serve(w, r.Request, time.Time{}, bytes.NewReader(data))
}
