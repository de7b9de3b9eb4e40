package express

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxHeld is how much of an answer waits for its end, so that most go out in
// one write.
const maxHeld = 8 << 10

// An answer is the ResponseWriter of a connection's requests, one after the
// other. Unlike that of the server it does not guess media types, and has no
// informational responses.
type answer struct {
	*text
	conn   *conn
	header http.Header
	status int   // 0: the handler has not said
	length int64 // of the body, as announced; -1: not said
	octets int64 // of the body, so far
	sent   bool  // the head is out
	chunks io.WriteCloser
	last   bool  // the connection ends with this answer
	failed error // of a write
}

// A text is what of an answer is not out yet. Connections that wait have none.
type text struct {
	head []byte // up to the fields that depend on the body
	held []byte // of the body
}

var texts = sync.Pool{New: func() any { return &text{} }}

func (a *answer) begin() {
	clear(a.header)
	t := texts.Get().(*text)
	t.head, t.held = t.head[:0], t.held[:0]
	*a = answer{text: t, conn: a.conn, header: a.header}
}

// release ends the use of an answer, whatever became of it.
func (a *answer) release() {
	texts.Put(a.text)
	a.text = nil
}

func (a *answer) Header() http.Header { return a.header }

// SetReadDeadline is for [http.ResponseController].
func (a *answer) SetReadDeadline(t time.Time) error {
	a.conn.bodyBy = t
	return nil
}

// SetWriteDeadline is for [http.ResponseController].
func (a *answer) SetWriteDeadline(t time.Time) error { return a.conn.nc.SetWriteDeadline(t) }

// bodiless tells whether an answer has no body whatever its fields say
// (RFC 9110, 6.4.1).
func (a *answer) bodiless() bool {
	return a.status == http.StatusNoContent || a.status == http.StatusNotModified
}

func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status, a.length = status, -1
	a.head = append(a.head, "HTTP/1.1 "...)
	a.head = strconv.AppendInt(a.head, int64(status), 10)
	a.head = append(append(append(a.head, ' '), http.StatusText(status)...), "\r\n"...)
	var sorted [16]string
	names := sorted[:0]
	for name := range a.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range a.header[name] {
			switch name {
			case "Content-Length":
				if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 && a.length < 0 {
					a.length = n
				}
				continue // it is this package's to say
			case "Connection":
				a.last = a.last || value == "close"
				continue
			case "Transfer-Encoding":
				continue
			}
			a.head = append(append(a.head, name...), ": "...)
			a.head = append(appendValue(a.head, value), "\r\n"...)
		}
	}
	if a.header["Date"] == nil {
		a.head = append(append(append(a.head, "Date: "...), date(time.Now())...), "\r\n"...)
	}
}

// appendValue keeps a value on its line.
func appendValue(b []byte, value string) []byte {
	for _, c := range []byte(value) {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// Write returns [http.ErrBodyNotAllowed] for an answer that has none, and
// [http.ErrContentLength] if there is more than was announced.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.failed != nil:
		return 0, a.failed
	case a.bodiless():
		return 0, http.ErrBodyNotAllowed
	}
	a.octets += int64(len(p))
	if a.length >= 0 && a.octets > a.length {
		return 0, http.ErrContentLength
	}
	if !a.sent && len(a.held)+len(p) <= maxHeld {
		a.held = append(a.held, p...)
		return len(p), nil
	}
	if !a.sent {
		return len(p), a.open(p)
	}
	return len(p), a.out(p)
}

// ReadFrom keeps the way to sendfile open, which wants a file or one
// LimitedReader around it. What is beyond the announced length is not read.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.length < 0 || a.bodiless() {
		return io.Copy(struct{ io.Writer }{a}, r)
	}
	if !a.sent && a.open(nil) != nil || a.failed != nil {
		return 0, a.failed
	}
	part := &io.LimitedReader{R: r, N: a.length - a.octets}
	asked, limited := r.(*io.LimitedReader)
	if limited {
		part.R, part.N = asked.R, min(asked.N, part.N)
	}
	n, err := io.Copy(a.conn.nc, part)
	if limited {
		asked.N -= n
	}
	a.octets += n
	return n, a.wrote(err)
}

// open sends the head of an answer that has more than is held, and with it what
// is held and p.
func (a *answer) open(p []byte) error {
	a.sent = true
	if a.length >= 0 {
		a.complete(a.length, false)
		parts := net.Buffers{a.head, a.held, p}
		_, err := parts.WriteTo(a.conn.nc)
		return a.wrote(err)
	}
	a.complete(0, true)
	if _, err := a.conn.nc.Write(a.head); a.wrote(err) != nil {
		return err
	}
	a.chunks = httputil.NewChunkedWriter(a.conn.nc)
	a.out(a.held)
	return a.out(p)
}

// out sends more of the body.
func (a *answer) out(p []byte) error {
	if a.failed != nil || len(p) == 0 {
		return a.failed
	}
	var err error
	if a.chunks != nil {
		_, err = a.chunks.Write(p)
	} else {
		_, err = a.conn.nc.Write(p)
	}
	return a.wrote(err)
}

// wrote notes what became of a write. The context of the request ends with the
// connection.
func (a *answer) wrote(err error) error {
	if err != nil {
		a.failed = err
		a.conn.stop()
	}
	return err
}

// complete ends the head with what depends on the body.
func (a *answer) complete(length int64, chunked bool) {
	switch {
	case a.bodiless():
	case chunked:
		a.head = append(a.head, "Transfer-Encoding: chunked\r\n"...)
	default:
		a.head = strconv.AppendInt(append(a.head, "Content-Length: "...), length, 10)
		a.head = append(a.head, "\r\n"...)
	}
	if a.last = a.last || a.conn.isLeaving(); a.last {
		a.head = append(a.head, "Connection: close\r\n"...)
	}
	a.head = append(a.head, "\r\n"...)
}

// end sends what is left, and reports whether another answer may follow.
func (a *answer) end() bool {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	whole := a.length < 0 || a.length == a.octets || a.bodiless()
	switch {
	case !a.sent:
		length := a.length
		if length < 0 {
			length = a.octets
		}
		a.complete(length, false)
		a.head = append(a.head, a.held...)
		_, err := a.conn.nc.Write(a.head)
		a.wrote(err)
	case a.chunks != nil && a.failed == nil:
		if a.wrote(a.chunks.Close()) == nil {
			_, err := io.WriteString(a.conn.nc, "\r\n") // no trailers
			a.wrote(err)
		}
	}
	return whole && a.failed == nil && !a.last
}
