package uws

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// atom answers with a part of a job that is a word (UWS 1.1, 2.2.1).
func (h *Handler) atom(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	s := ""
	switch r.path[2] {
	case "phase":
		s = string(j.phase())
	case "executionduration":
		s = strconv.FormatInt(j.duration(), 10)
	case "destruction":
		s = timeOrNone(j.destruction())
	case "owner":
		s = j.owner()
	case "error":
		_, s, _ = j.failure()
	}
	text(w, http.StatusOK, s)
	return nil
}

// job answers with a job, perhaps when it has changed (UWS 1.1, 2.2.1.1).
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
	if page := r.page(); page {
		return h.jobPage(w, r, j)
	}
	sendXML(w, h.jobDocument(j))
	return nil
}

// result serves a result as it is.
func (h *Handler) result(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	if j.cut == nil || len(j.results()) == 0 {
		return notFound("result not found")
	}
	res, in, err := j.q.Result(j.cut.ID, r.path[3])
	if errors.Is(err, queuefs.ErrBadName) {
		return notFound("result not found")
	}
	if err != nil {
		return err
	}
	defer in.Close()
	serveFile(w, r.Request, typeOf(res), "", in)
	return nil
}

// parameter serves the value of a parameter as it is.
func (h *Handler) parameter(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	for _, p := range j.parameters() {
		switch {
		case p.name != r.path[3]:
		case !p.ref:
			text(w, http.StatusOK, p.value)
			return nil
		case j.cut != nil:
			in, err := j.q.Payload(j.cut.ID)
			if err != nil {
				return err
			}
			defer in.Close()
			serveFile(w, r.Request, j.cut.Type(), j.cut.Filename, in)
			return nil
		case j.rec.upload == nil:
			send(w, http.StatusOK, mediaForm, []byte(formatForm(j.rec.params)))
			return nil
		default:
			files, _ := h.shelf(j.q).there()
			in, err := files.Open(j.id + uploadSuffix)
			if errors.Is(err, fs.ErrNotExist) {
				return notFound("the job was started meanwhile, ask again")
			}
			if err != nil {
				return err
			}
			defer in.Close()
			serveFile(w, r.Request, j.rec.upload.mediaType, j.rec.upload.filename, in)
			return nil
		}
	}
	return notFound("parameter not found")
}

// serveFile sends what a stranger made: no browser is to run any of it.
func serveFile(w http.ResponseWriter, r *http.Request, mediaType, filename string, in io.ReadSeeker) {
	header := w.Header()
	if mediaType == "" || strings.ContainsAny(mediaType, "\r\n\x00") {
		mediaType = queuefs.DefaultMediaType
	}
	header.Set("Content-Type", mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	http.ServeContent(w, r, "", time.Time{}, in)
}
