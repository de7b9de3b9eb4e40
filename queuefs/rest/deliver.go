package rest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"cutie/queuefs"

	"cutie/queuefs/dir"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/web"
)

// deliver answers with one job; taken is the job if it was consumed for the
// answer, else nil.
func (h *Handler) deliver(w http.ResponseWriter, r *request, q *queuefs.Queue, t *queuefs.Taken, taken []queuefs.Taken) error {
	base, j := h.base(r.Request), &t.Job
	header := w.Header()
	values := make([]string, 8) // one allocation for all
	values[0] = base.JobRef("content", j.Queue, j.ID)
	values[3] = jobLink(base, "state", j, "describedby")
	header["Content-Location"], header["Link"] = values[:1:1], values[3:4] // up to four more links
	if t.Token != "" {
		for name, value := range leaseOf(base, t) {
			header[name] = append(header[name], value)
		}
	}
	for name, value := range h.traceOf(t, taken) {
		header[name] = []string{value}
	}
	header["X-Content-Type-Options"] = noSniff
	kind, asked, _ := r.wrapped()
	if !asked {
		kind = wrap(r.Header.Get("Accept"), MediaType(j.Type()))
	}
	if kind == bare {
		values[1] = MediaType(j.Type())
		values[2] = string(field.AppendDisposition(make([]byte, 0, 64), "attachment", "", j.Filename))
		header["Content-Type"], header["Content-Disposition"] = values[1:2:2], values[2:3:3]
		header["Content-Security-Policy"] = Sandbox
		if link := field.SetSidecar(header, j); link {
			header["Link"] = append(header["Link"], "<"+base.JobRef("content", j.Queue, j.ID)+`?part=sidecar>; rel="`+Relation+`sidecar"`)
		}
		if sum := digestOf(q, j.ID); sum != "" {
			header["Repr-Digest"] = []string{sum}
		}
		if data := t.AtHand(); data != nil {
			return h.send(w, r, q, taken, []piece{{text: data}})
		}
		return h.send(w, r, q, taken, []piece{{job: j}})
	}
	buf := texts.Get().(*[]byte)
	defer putBuffer(buf)
	m := message{buf: (*buf)[:0], boundary: newBoundary()}
	disposition, media, sum := "form-data", "multipart/form-data", "" // as Cutie 5.6 prints it
	if kind == mixed {
		disposition, media, sum = "attachment", "multipart/mixed", digestOf(q, j.ID)
	}
	m.open()
	m.buf = append(m.buf, "Content-Disposition: "...)
	m.buf = field.AppendDisposition(m.buf, disposition, "payload", j.Filename)
	m.payload(t, sum)
	if j.HasSidecar() {
		m.open()
		m.buf = append(m.buf, "Content-Disposition: "...)
		m.buf = field.AppendDisposition(m.buf, disposition, "sidecar", "")
		m.buf = append(m.buf, "\r\nContent-Type: application/octet-stream\r\n\r\n"...)
		m.buf = append(m.buf, j.Sidecar...)
	}
	*buf = m.end()
	values[1] = media + "; boundary=" + m.boundary
	header["Content-Type"] = values[1:2:2]
	return h.send(w, r, q, taken, m.pieces)
}

// traceOf returns the header fields with the trace of a job, for its consumer; none for
// who only looks at it.
func (h *Handler) traceOf(t *queuefs.Taken, taken []queuefs.Taken) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if len(taken) == 0 {
			return
		}
		pass := h.o.Trace
		if pass == nil {
			pass = (*job.Job).PassTrace
		}
		parent, state := pass(&t.Job)
		_ = (parent == "" || yield(field.TraceParent, parent)) && (state == "" || yield(field.TraceState, state))
	}
}

// sendSidecar answers with the octets of a sidecar alone.
func sendSidecar(w http.ResponseWriter, j *job.Job) error {
	if !j.HasSidecar() {
		return web.Errorf(http.StatusNotFound, "%s has no sidecar", j.ID)
	}
	header := w.Header()
	header["Content-Type"], header["Content-Length"] = []string{job.DefaultMediaType}, []string{strconv.Itoa(len(j.Sidecar))}
	header["X-Content-Type-Options"] = noSniff
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, j.Sidecar) // nobody is left to be told
	return nil
}

// deliverSeveral answers with jobs, each a part of multipart/mixed.
func (h *Handler) deliverSeveral(w http.ResponseWriter, r *request, q *queuefs.Queue, taken []queuefs.Taken) error {
	base := h.base(r.Request)
	buf := texts.Get().(*[]byte)
	defer putBuffer(buf)
	m := message{buf: slices.Grow((*buf)[:0], roomFor(taken)), boundary: newBoundary()}
	for i := range taken {
		t, j := &taken[i], &taken[i].Job
		m.open()
		m.buf = append(m.buf, "Content-Disposition: "...)
		m.buf = field.AppendDisposition(m.buf, "attachment", "", j.Filename)
		m.buf = append(m.buf, "\r\nContent-Location: "...)
		m.buf = base.AppendJob(m.buf, "content", j.Queue, j.ID)
		if t.Token != "" {
			for name, value := range leaseOf(base, t) {
				m.buf = append(append(append(append(m.buf, "\r\n"...), name...), ": "...), value...)
			}
		}
		for name, value := range h.traceOf(t, taken) {
			m.buf = append(append(append(append(m.buf, "\r\n"...), name...), ": "...), value...)
		}
		if j.HasSidecar() {
			m.buf = append(m.buf, "\r\n"+field.Sidecar+": "...)
			m.buf = field.AppendEscaped(m.buf, j.Sidecar)
		}
		m.payload(t, digestOf(q, j.ID))
	}
	*buf = m.end()
	header := w.Header()
	header["Content-Type"] = []string{"multipart/mixed; boundary=" + m.boundary}
	header["X-Content-Type-Options"] = noSniff
	return h.send(w, r, q, taken, m.pieces)
}

// roomFor returns about how many octets deliverSeveral needs.
func roomFor(taken []queuefs.Taken) (n int) {
	for i := range taken {
		n += 512 + len(taken[i].Filename) + field.EscapedLen(taken[i].Sidecar) + len(taken[i].AtHand())
	}
	return n
}

// A piece of an answer is some text and the payload behind it.
type piece struct {
	text []byte
	end  int      // of the text in the buffer of a message
	job  *job.Job // nil at the end
}

// A message is a multipart answer in the making.
type message struct {
	boundary string
	buf      []byte
	pieces   []piece
}

func (m *message) open() {
	m.buf = append(append(append(m.buf, "\r\n--"...), m.boundary...), "\r\n"...)
}

// digestOf returns the digest of a payload as the index has it, for Repr-Digest (RFC 9530);
// "" if the job is gone. A consumer verifies by it what storage and network gave.
func digestOf(q *queuefs.Queue, id job.ID) string {
	e, ok := q.Entry(id)
	if !ok {
		return ""
	}
	return field.SHA256(e.Payload.SHA256)
}

// payload ends the header of a part, with a digest for Repr-Digest, and puts the payload
// behind it.
func (m *message) payload(t *queuefs.Taken, sum string) {
	j := &t.Job
	m.buf = append(append(m.buf, "\r\nContent-Type: "...), MediaType(j.Type())...)
	m.buf = strconv.AppendInt(append(m.buf, "\r\nContent-Length: "...), j.Size, 10)
	if sum != "" {
		m.buf = append(append(m.buf, "\r\nRepr-Digest: "...), sum...)
	}
	m.buf = append(m.buf, "\r\n\r\n"...)
	if data := t.AtHand(); data != nil {
		m.buf = append(m.buf, data...)
		return
	}
	m.pieces = append(m.pieces, piece{job: j, end: len(m.buf)})
}

// end closes the message and returns the buffer of its pieces.
func (m *message) end() []byte {
	m.buf = append(append(append(m.buf, "\r\n--"...), m.boundary...), "--\r\n"...)
	m.pieces = append(m.pieces, piece{end: len(m.buf)})
	from := 2 // the first boundary needs no line end before it
	for i := range m.pieces {
		p := &m.pieces[i]
		p.text, from = m.buf[from:p.end], p.end
	}
	return m.buf
}

// send writes the pieces with their exact length before them. If the first
// payload cannot be opened, nothing is sent and the taken jobs are put back. If
// a later one cannot be read, less comes than announced: the server breaks off
// the connection, and the client notices. Where nothing of this payload was
// sent, the jobs from it on are put back.
func (h *Handler) send(w http.ResponseWriter, r *request, q *queuefs.Queue, taken []queuefs.Taken, pieces []piece) error {
	var length int64
	for i := range pieces {
		length += int64(len(pieces[i].text))
		if j := pieces[i].job; j != nil {
			length += j.Size
		}
	}
	header := w.Header()
	if r.Method == http.MethodHead {
		header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
		w.WriteHeader(http.StatusOK)
		return nil
	}
	for i := range pieces {
		p := &pieces[i]
		in, unread := p.open(q)
		switch {
		case i > 0:
		case unread == nil:
			header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
			w.WriteHeader(http.StatusOK)
		case taken == nil:
			return unread
		default:
			return h.putBack(r, q, taken, p.job.ID, unread)
		}
		var err error
		if len(p.text) > 0 {
			_, err = w.Write(p.text) // also before an unreadable payload: whole jobs may be in it
		}
		if in != nil {
			if err == nil {
				err = p.pour(w, in)
			}
			in.Close()
		}
		switch {
		case unread != nil:
			_ = h.putBack(r, q, from(taken, p.job.ID), p.job.ID, unread) // its error is in the log
			return nil
		case err != nil && p.job != nil && taken != nil:
			h.log(r.Request, fmt.Errorf("%w; consumed, though not handed out whole: %s", err, idRanges(idsOf(from(taken, p.job.ID)))))
			return nil
		case err != nil:
			h.log(r.Request, err)
			return nil
		}
	}
	return nil
}

// open returns the payload of the piece, nil if it has none.
func (p *piece) open(q *queuefs.Queue) (*dir.Payload, error) {
	if p.job == nil {
		return nil, nil
	}
	in, err := q.Payload(p.job.ID)
	if err == nil && in.Size() != p.job.Size {
		in.Close()
		return nil, fmt.Errorf("payload of %s has %d octets instead of %d", p.job.ID, in.Size(), p.job.Size)
	}
	return in, err
}

// pour writes the payload, and fails if it has become shorter: the next piece
// would pass for a part of it.
func (p *piece) pour(w http.ResponseWriter, in *dir.Payload) error {
	n, err := in.WriteTo(w)
	if err == nil && n != p.job.Size {
		err = fmt.Errorf("payload of %s ends after %d octets instead of %d", p.job.ID, n, p.job.Size)
	}
	return err
}

// from returns the jobs from one on.
func from(taken []queuefs.Taken, id job.ID) []queuefs.Taken {
	return taken[slices.IndexFunc(taken, func(t queuefs.Taken) bool { return t.ID == id }):]
}

func idsOf(taken []queuefs.Taken) (ids []job.ID) {
	for i := range taken {
		ids = append(ids, taken[i].ID)
	}
	return ids
}

// newBoundary returns 32 random digits; nobody can make a payload with them.
func newBoundary() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
