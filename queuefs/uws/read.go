package uws

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// part serves a part of a job: one word, or a list (UWS 1.1, 2.2.1).
func (h *Handler) part(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	s := ""
	switch part := r.PathValue("part"); part {
	case "phase":
		s = string(j.phase())
	case "executionduration":
		s = strconv.FormatInt(j.duration(), 10)
	case "destruction":
		s = timeOrNone(j.destruction())
	case "owner":
		s = j.owner()
	case "error":
		if d, ok := j.cut.ErrorDetail(); ok {
			return serveResult(w, r, j, d.Name)
		}
		_, s, _ = j.failure()
	case "quote":
		t := h.quote(j)
		if s = timeOrNone(t); j.set.old {
			s = "-1" // seconds, in version 1.0 (2.1.6)
			if !t.IsZero() {
				s = strconv.FormatInt(max(0, int64(t.Sub(h.now()).Seconds())), 10)
			}
		}
	default:
		d := &document{}
		d.open(part, false)
		d.members(part, r, j)
		d.end(part)
		sendXML(w, d)
		return nil
	}
	text(w, http.StatusOK, s)
	return nil
}

// job serves a job, at once or after a change (UWS 1.1, 2.2.1.1).
func (h *Handler) job(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	if wait, ok := r.value("WAIT"); ok && !r.set.old {
		n, err := strconv.Atoi(strings.TrimSpace(wait))
		if err != nil || n < -1 {
			return bad("WAIT is %.40q, not seconds, and not -1", wait)
		}
		want := j.phase()
		if s, ok := r.value("PHASE"); ok {
			if want, err = parsePhase(s); err != nil {
				return bad("PHASE: %v", err)
			}
		}
		if n != 0 && j.phase() == want {
			if j, err = h.await(r, j, n); err != nil {
				return err
			}
		}
	}
	if r.page() {
		return h.jobPage(w, r, j)
	}
	sendXML(w, h.jobDocument(r, j))
	return nil
}

// result serves a result as it is.
func (h *Handler) result(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	if len(j.results()) == 0 {
		return notFound("result not found")
	}
	return serveResult(w, r, j, r.PathValue("name"))
}

func serveResult(w http.ResponseWriter, r *request, j *job, name string) error {
	res, in, err := j.q.Result(j.cut.ID, name)
	if errors.Is(err, queuefs.ErrBadName) {
		return notFound("result not found")
	}
	if err != nil {
		return err
	}
	defer in.Close()
	w.Header().Set("ETag", `"`+hex.EncodeToString(res.SHA256[:])+`"`)
	return serveFile(w, r.Request, typeOf(res), in)
}

// parameter serves the value of a parameter as it is.
func (h *Handler) parameter(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	for _, p := range j.parameters() {
		switch {
		case p.name != r.PathValue("name"):
		case !p.ref:
			text(w, http.StatusOK, p.value)
			return nil
		default:
			return serveUpload(w, r, j, p.name)
		}
	}
	return notFound("parameter not found")
}

// serveUpload serves the payload of a job, or one file of it.
func serveUpload(w http.ResponseWriter, r *request, j *job, name string) error {
	in, err := j.q.Payload(j.cut.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, p := range partsOf(&j.cut) {
		if p.name == name {
			mediaType, content, err := p.cut(in)
			if err != nil {
				return err
			}
			return serveFile(w, r.Request, mediaType, content)
		}
	}
	return serveFile(w, r.Request, j.cut.Type(), in)
}

// serveFile sends a file from a stranger; no browser may run it.
func serveFile(w http.ResponseWriter, r *http.Request, mediaType string, in io.ReadSeeker) error {
	header := w.Header()
	if mediaType == "" || strings.ContainsAny(mediaType, "\r\n\x00") {
		mediaType = queuefs.DefaultMediaType
	}
	header.Set("Content-Type", mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return web.Serve(w, r, time.Time{}, in)
}
