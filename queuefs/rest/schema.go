package rest

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs/octets"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// schema serves the schema of a class of states, such as queue.xsd or
// queue.json.
func (h *Handler) schema(w http.ResponseWriter, r *request) error {
	name, ext, _ := strings.Cut(r.PathValue("file"), ".")
	var data []byte
	header := w.Header()
	if c := state.Schemas[name]; c != nil {
		switch ext {
		case "xsd":
			data = state.XMLSchema(c)
			header["Content-Type"] = []string{"application/xml"}
		case "json":
			data = state.JSONSchema(c)
			header["Content-Type"] = []string{"application/schema+json"}
		}
	}
	if data == nil {
		return web.Errorf(http.StatusNotFound, "no such schema; there are service, queue, job, batch and exception, each .xsd and .json")
	}
	header["Etag"] = []string{fileTag(sha256.Sum256(data))}
	header["Cache-Control"] = noCache
	header["X-Content-Type-Options"] = noSniff
	delete(header, "Vary")
	return octets.Serve(w, r.Request, time.Time{}, bytes.NewReader(data))
}
