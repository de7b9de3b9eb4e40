package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"cutie/queuefs"
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
// error is [queuefs.ErrNoJob].
func (s *fileServer) JobFile(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id queuefs.JobID, status queuefs.Status) error {
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
func JobLinks(base state.Base, queue string, id queuefs.JobID) []string {
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
// is [queuefs.ErrNoJob].
func (s *fileServer) Payload(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id queuefs.JobID) error {
	e, ok := q.Entry(id)
	if !ok {
		return queuefs.ErrNoJob
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
	if e.Status == queuefs.Pending {
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

// Result serves a result of a job. The error is [queuefs.ErrNoJob] or
// [queuefs.ErrNoResult] if it is missing.
func (s *fileServer) Result(w http.ResponseWriter, r *http.Request, q *queuefs.Queue, id queuefs.JobID, name string) error {
	result, in, err := q.Result(id, name)
	if err != nil {
		return err
	}
	defer in.Close()
	s.headers(w, r, q, "replica", result.SHA256)
	header := w.Header()
	header["Link"] = append(header["Link"], "<"+s.Base(r).JobRef("state", q.ID(), id)+`>; rel="describedby"`)
	header["Content-Type"] = []string{queuefs.DefaultMediaType}
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
// [queuefs.DefaultMediaType].
func MediaType(t string) string {
	if t == queuefs.DefaultMediaType || web.IsMediaType(t) {
		return t
	}
	return queuefs.DefaultMediaType
}
