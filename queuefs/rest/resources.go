package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/events"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Sandbox keeps a browser from running files of strangers.
var Sandbox = []string{"sandbox; default-src 'none'"}

// A fileServer serves the files of a home as plain resources: payloads, job files, results
// and queue-info.txt, as exact bytes with strong entity tags, digests, dates and ranges. It is safe for concurrent use.
type fileServer struct {
	Base func(*http.Request) state.Base // begins references
	Log  func(*http.Request, error)     // called with errors too late for an answer
}

// JobFile serves the job file of a job with a status; without such a job the
// error is [ledger.ErrNoJob].
func (s *fileServer) JobFile(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id job.ID, status job.Status) error {
	links := JobLinks(s.Base(r), q.ID(), id)
	// The file is not read again for a client with a current copy.
	if tags := r.Header["If-None-Match"]; tags != nil && r.Header["If-Match"] == nil {
		if e, ok := q.Entry(id); ok && e.Status == status && web.Matches(tags, Tag(e.File.SHA256)) {
			s.headers(w, r, q, "replica", e.File.SHA256)
			w.Header()["Link"] = append(w.Header()["Link"], links...)
			w.Header()["Cache-Control"] = noCache
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	data, facts, err := q.JobFile(id, status)
	if err != nil {
		return err
	}
	// A date tells apart files that change with events alone, and no two times
	// in a second.
	sum := sha256.Sum256(data)
	modified := facts.Modified
	if sum != facts.SHA256 || time.Since(modified) < 2*time.Second {
		modified = time.Time{}
	}
	return s.text(w, r, q, data, sum, modified, links...)
}

// JobLinks are the links of a job file or job state: to its subject, its queue,
// and the forms of the state.
func JobLinks(base state.Base, queue string, id job.ID) []string {
	links := []string{
		"<" + string(base.AppendPayload(nil, queue, id)) + `>; rel="describes"`,
		"<" + base.Ref("state", queue) + `>; rel="collection"`,
	}
	ref := base.JobRef("state", queue, id)
	for f := state.ANVL; f < state.HTML; f++ {
		links = append(links, "<"+ref+"?t="+f.String()+`>; rel="alternate"; type="`+f.MediaType()+`"`)
	}
	return links
}

// Info serves queue-info.txt.
func (s *fileServer) Info(w http.ResponseWriter, r *http.Request, q *queuefs.Queue) error {
	data, _ := q.InfoFile()
	return s.text(w, r, q, data, sha256.Sum256(data), time.Time{}) // other hands give it any date
}

// text serves a file with the given digest. A zero modified gives no date;
// links come after the link to the Capability List.
func (s *fileServer) text(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, data []byte, sum [sha256.Size]byte, modified time.Time, links ...string) error {
	s.headers(w, r, q, "replica", sum)
	w.Header()["Link"] = append(w.Header()["Link"], links...)
	w.Header()["Cache-Control"] = noCache
	w.Header()["Content-Type"] = []string{"text/x-anvl"}
	return web.Serve(w, r, modified, bytes.NewReader(data))
}

// Payload serves a payload; it is there until the job is culled, then the error
// is [ledger.ErrNoJob].
func (s *fileServer) Payload(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id job.ID) error {
	e, ok := q.Entry(id)
	if !ok {
		return ledger.ErrNoJob
	}
	in := &lateReader{q: q, id: id, size: e.Payload.Length}
	defer in.Close()
	// Open it before the answer begins if it is to be read at all.
	conditional := r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != ""
	if r.Method != http.MethodHead && !conditional {
		if err := in.open(); err != nil {
			return err
		}
	}
	set := "replica"
	if e.Status == job.Pending {
		set = "pending"
	}
	base := s.Base(r)
	s.headers(w, r, q, set, e.Payload.SHA256)
	header := w.Header()
	header["Link"] = append(header["Link"], "<"+base.Ref("queues", q.ID(), e.Status.String(), id.String())+`>; rel="describedby"`,
		"<"+base.Ref("state", q.ID())+`>; rel="collection"`)
	header["Cache-Control"] = immutable
	header["Content-Type"] = []string{MediaType(e.Payload.Type)}
	err := web.Serve(&payloadWriter{w, in}, r, e.Payload.Modified, in)
	if in.err != nil {
		s.Log(r, in.err) // the answer has begun, and ends before its length
	}
	return err
}

var immutable = []string{"max-age=31536000, immutable"}

func (s *fileServer) headers(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, set string, sum [32]byte) {
	octetHeaders(w, sum)
	w.Header()["Link"] = []string{"<" + s.Base(r).CapabilityList(q.ID(), set) + `>; rel="resourcesync"`}
}

// octetHeaders are for octets with a digest, of strangers.
func octetHeaders(w http.ResponseWriter, sum [32]byte) {
	header := w.Header()
	header["Etag"] = []string{Tag(sum)}
	header["Repr-Digest"] = []string{"sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	header["X-Content-Type-Options"] = []string{"nosniff"}
	header["Content-Security-Policy"] = Sandbox
	delete(header, "Vary") // one form only
}

// Tag returns the entity tag of octets with a digest.
func Tag(sum [32]byte) string { return `"` + hex.EncodeToString(sum[:]) + `"` }

// Result serves a result of a job. The error is [ledger.ErrNoJob] or
// [content.ErrNoResult] if it is missing.
func (s *fileServer) Result(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id job.ID, name string) error {
	result, in, err := q.Result(id, name)
	if err != nil {
		return err
	}
	defer in.Close()
	s.headers(w, r, q, "replica", result.SHA256)
	header := w.Header()
	header["Link"] = append(header["Link"], "<"+s.Base(r).JobRef("state", q.ID(), id)+`>; rel="describedby"`)
	header["Content-Type"] = []string{job.DefaultMediaType}
	if result.MediaType != "" {
		header["Content-Type"] = []string{MediaType(result.MediaType)}
	}
	header["Cache-Control"] = noCache // another attempt at the job may give another one
	served := &lateReader{id: id, size: in.Size(), in: in}
	err = web.Serve(w, r, time.Time{}, served)
	if served.err != nil {
		s.Log(r, fmt.Errorf("result %s of %v: %w", name, id, served.err))
	}
	return err
}

// MediaType returns the media type of a payload for a header. Other hands may
// have written anything; a type unfit for a header becomes
// [job.DefaultMediaType].
func MediaType(t string) string {
	if t == job.DefaultMediaType || web.IsMediaType(t) {
		return t
	}
	return job.DefaultMediaType
}

// A lateReader is a payload of known size; the first read opens it.
type lateReader struct {
	q    *queuefs.Queue
	id   job.ID
	size int64
	at   int64
	in   *dir.Payload
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
	return io.Copy(struct{ io.Writer }{w.ResponseWriter}, src) // else it would call itself
}

// file serves a payload or a job file as a plain resource: its exact octets.
func (h *Handler) file(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	dir := r.PathValue("dir")
	if dir == "payload" {
		return notFound(h.files.Payload(w, r.Request, q, id), ledger.ErrNoJob, id.String())
	}
	status, err := job.ParseStatus(dir)
	if err != nil {
		return web.Errorf(http.StatusNotFound, "nothing here, see /help")
	}
	return notFound(h.files.JobFile(w, r.Request, q, id, status), ledger.ErrNoJob, status.String()+"/"+id.String())
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
	if errors.Is(err, ledger.ErrNoJob) {
		return notFound(err, ledger.ErrNoJob, id.String())
	}
	return notFound(err, content.ErrNoResult, name)
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

// events serves GET /events and GET /events/Q, with ?kind= and ?status=, each a
// list with commas. The stream begins after the event in the header
// Last-Event-ID or else in ?lastEventId=, with the event in ?from=, or now.
func (h *Handler) events(w http.ResponseWriter, r *request) (err error) {
	wish := events.Wish{Kinds: list(r, "kind", job.ParseKind), Status: list(r, "status", job.ParseStatus),
		LastID: r.text("lastEventId")}
	if from := r.text("from"); r.query.Has("from") {
		wish.From = &from
	}
	if r.bad != nil {
		return r.bad
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		wish.LastID = id // newer: the client kept the URL from its first request
	}
	if r.PathValue("queue") != "" {
		if wish.Queue, err = h.queue(r); err != nil {
			return err
		}
	}
	return h.streams.Serve(w, r.Request, wish)
}

// list returns the parts of a parameter, none if it is not given; see wrong.
func list[T any](r *request, name string, parse func(string) (T, error)) (all []T) {
	text := r.text(name)
	if !r.query.Has(name) {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		r.wrong(err)
		all = append(all, v)
	}
	return all
}
