package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/octets"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// sandbox keeps a browser from running files of strangers.
var sandbox = []string{"sandbox; default-src 'none'"}

// file serves a payload or a job file as a plain resource: its exact octets.
func (h *Handler) file(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	dir := r.PathValue("dir")
	if dir == "payload" {
		return h.payloadFile(w, r, q, id)
	}
	status, err := queuefs.ParseStatus(dir)
	if err != nil {
		return web.Errorf(http.StatusNotFound, "nothing here, see /help")
	}
	// The file is not read again for a client with a current copy.
	if tags := r.Header["If-None-Match"]; tags != nil && r.Header["If-Match"] == nil {
		if e, ok := q.Entry(id); ok && e.Status == status && matches(tags, fileTag(e.File.SHA256)) {
			h.fileHeaders(w, q, "replica", e.File.SHA256)
			w.Header()["Link"] = append(w.Header()["Link"], h.jobLinks(q, id)...)
			w.Header()["Cache-Control"] = noCache
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	data, facts, err := q.JobFile(id, status)
	if err != nil {
		return notFound(err, queuefs.ErrNoJob, status.String()+"/"+id.String())
	}
	// A date tells apart files that change with events alone, and no two times
	// in a second.
	sum := sha256.Sum256(data)
	modified := facts.Modified
	if sum != facts.SHA256 || time.Since(modified) < 2*time.Second {
		modified = time.Time{}
	}
	return h.serveText(w, r, q, data, sum, modified, h.jobLinks(q, id)...)
}

// jobLinks are the links of a job file or job state: to its subject, its queue,
// and the forms of the state.
func (h *Handler) jobLinks(q *queuefs.Queue, id queuefs.JobID) []string {
	base := h.base()
	links := []string{
		"<" + string(base.AppendPayload(nil, q.ID(), id)) + `>; rel="describes"`,
		"<" + base.Ref("state", q.ID()) + `>; rel="collection"`,
	}
	ref := base.JobRef("state", q.ID(), id)
	for f := state.ANVL; f < state.HTML; f++ {
		links = append(links, "<"+ref+"?t="+f.String()+`>; rel="alternate"; type="`+f.MediaType()+`"`)
	}
	return links
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
	data, _ := q.InfoFile()
	return h.serveText(w, r, q, data, sha256.Sum256(data), time.Time{}) // other hands give it any date
}

// serveText serves a file with the given digest. A zero modified gives no date;
// links come after the link to the Capability List.
func (h *Handler) serveText(w http.ResponseWriter, r *request, q *queuefs.Queue, data []byte, sum [sha256.Size]byte, modified time.Time, links ...string) error {
	h.fileHeaders(w, q, "replica", sum)
	w.Header()["Link"] = append(w.Header()["Link"], links...)
	w.Header()["Cache-Control"] = noCache
	w.Header()["Content-Type"] = []string{"text/x-anvl"}
	return octets.Serve(w, r.Request, modified, bytes.NewReader(data))
}

var noCache = []string{"no-cache"}

// payloadFile serves a payload; it is there until the job is culled.
func (h *Handler) payloadFile(w http.ResponseWriter, r *request, q *queuefs.Queue, id queuefs.JobID) error {
	e, ok := q.Entry(id)
	if !ok {
		return notFound(queuefs.ErrNoJob, queuefs.ErrNoJob, id.String())
	}
	in := &lateReader{q: q, id: id, size: e.Payload.Length}
	defer in.Close()
	// Open it before the answer begins if it is to be read at all.
	conditional := r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != ""
	if r.Method != http.MethodHead && !conditional {
		if err := in.open(); err != nil {
			return notFound(err, queuefs.ErrNoJob, id.String())
		}
	}
	set := "replica"
	if e.Status == queuefs.Pending {
		set = "pending"
	}
	base := h.base()
	h.fileHeaders(w, q, set, e.Payload.SHA256)
	header := w.Header()
	header["Link"] = append(header["Link"], "<"+base.Ref("queues", q.ID(), e.Status.String(), id.String())+`>; rel="describedby"`,
		"<"+base.Ref("state", q.ID())+`>; rel="collection"`)
	header["Cache-Control"] = immutable
	header["Content-Type"] = []string{sentType(e.Payload.Type)}
	err := octets.Serve(&payloadWriter{w, in}, r.Request, e.Payload.Modified, in)
	if in.err != nil {
		h.log(r.Request, in.err) // the answer has begun, and ends before its length
	}
	return err
}

var immutable = []string{"max-age=31536000, immutable"}

func (h *Handler) fileHeaders(w http.ResponseWriter, q *queuefs.Queue, set string, sum [32]byte) {
	octetHeaders(w, sum)
	w.Header()["Link"] = []string{"<" + h.base().CapabilityList(q.ID(), set) + `>; rel="resourcesync"`}
}

// octetHeaders are for octets with a digest, of strangers.
func octetHeaders(w http.ResponseWriter, sum [32]byte) {
	header := w.Header()
	header["Etag"] = []string{fileTag(sum)}
	header["Repr-Digest"] = []string{"sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = sandbox
	delete(header, "Vary") // one form only
}

func fileTag(sum [32]byte) string { return `"` + hex.EncodeToString(sum[:]) + `"` }

// A lateReader is a payload of known size; the first read opens it.
type lateReader struct {
	q    *queuefs.Queue
	id   queuefs.JobID
	size int64
	at   int64
	in   *queuefs.Payload
	err  error
}

func (l *lateReader) open() error {
	if l.in != nil || l.err != nil {
		return l.err
	}
	l.in, l.err = l.q.Payload(l.id)
	return l.err
}

func (l *lateReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.at
	case io.SeekEnd:
		offset += l.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the payload")
	}
	l.at = offset
	return offset, nil
}

// position opens the payload and brings it to l.at.
func (l *lateReader) position() error {
	if err := l.open(); err != nil {
		return err
	}
	_, l.err = l.in.Seek(l.at, io.SeekStart)
	return l.err
}

func (l *lateReader) Read(p []byte) (int, error) {
	if err := l.position(); err != nil {
		return 0, err
	}
	n, err := l.in.Read(p)
	l.at += int64(n)
	if err != nil && err != io.EOF {
		l.err = err
	} else if err == io.EOF && l.at < l.size {
		l.err = fmt.Errorf("payload of %s ends at octet %d of %d", l.id, l.at, l.size)
	}
	return n, err
}

func (l *lateReader) Close() {
	if l.in != nil {
		l.in.Close()
	}
}

// A payloadWriter sends a whole payload from file to connection without
// copying; net/http does so for files only.
type payloadWriter struct {
	http.ResponseWriter
	in *lateReader
}

func (w *payloadWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *payloadWriter) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok && limited.R == w.in && w.in.at == 0 && limited.N == w.in.size {
		if err := w.in.position(); err != nil {
			return 0, err
		}
		n, err := w.in.in.SendTo(w.ResponseWriter)
		limited.N -= n
		return n, err
	}
	n := int64(0)
	err := copyPayload(countWriter{w.ResponseWriter, &n}, src)
	return n, err
}

type countWriter struct {
	w io.Writer
	n *int64
}

func (c countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	*c.n += int64(n)
	return n, err
}

// result serves a result as a plain resource: its exact octets.
func (h *Handler) result(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	result, in, err := q.Result(id, name)
	switch {
	case errors.Is(err, queuefs.ErrNoJob):
		return notFound(err, queuefs.ErrNoJob, id.String())
	case err != nil:
		return notFound(err, queuefs.ErrNoResult, name)
	}
	defer in.Close()
	octetHeaders(w, result.SHA256)
	header := w.Header()
	header["Link"] = []string{"<" + h.base().JobRef("state", q.ID(), id) + `>; rel="describedby"`}
	header["Content-Type"] = []string{queuefs.DefaultMediaType}
	if result.MediaType != "" {
		header["Content-Type"] = []string{sentType(result.MediaType)}
	}
	header["Cache-Control"] = noCache // another attempt at the job may give another one
	served := &lateReader{id: id, size: in.Size(), in: in}
	err = octets.Serve(w, r.Request, time.Time{}, served)
	if served.err != nil {
		h.log(r.Request, fmt.Errorf("result %s of %v: %w", name, id, served.err))
	}
	return err
}

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
