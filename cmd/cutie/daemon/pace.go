package daemon

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

// A pace is the least speed of clients in sending a request and in taking the
// answer. Slower clients hold a connection rather than use it, and are cut off.
type pace struct {
	take    time.Duration // for any answer
	stall   time.Duration // that nothing of an answer may go out on a stream of HTTP/2; 0: take
	give    time.Duration // that a body of a request may be behind the slowest pace
	idle    time.Duration // that nothing may come of such a body
	slowest int64         // octets a second, of bodies and of long answers
}

var defaultPace = pace{take: 10 * time.Minute, stall: stallTime, give: 2 * time.Minute, idle: 30 * time.Second, slowest: 1 << 10}

// ownerIdle is how long nothing may come of a body of the owner of the home,
// whose programs write into a pipe when they have something to say.
const ownerIdle = 24 * time.Hour

// atSlowest is how long n octets may take, a year at most.
func (p pace) atSlowest(n int64) time.Duration {
	return time.Duration(min(n/p.slowest, 365*24*3600)) * time.Second
}

// An answer is a ResponseWriter with its client and its figures. It keeps the
// client to the pace.
type answer struct {
	http.ResponseWriter
	pace
	client netip.Addr // zero for the socket of the home
	user   string     // "" for one without a name
	named  bool       // the user is one of the users file
	caller *access.Caller
	let    bool // the caller has the right for the route
	match  web.Match
	start  time.Time
	status int   // 0 while nothing was answered
	octets int64 // of the body
	conn   *connection
	until  time.Time // write deadline
	unread bool      // the body of the request was not read to its end
	readBy time.Time // read deadline of the request, zero if there is none

	head   int  // status that waits for the first of the body, see WriteHeader
	kept   int  // bytes of the longest part of the body so far, taken from memory
	fed    int  // bytes of the body of the request that its connection may keep, taken from memory
	denied bool // the answer is a refusal, for want of memory
	cut    bool // it has begun, and must not pass for whole
	// reads is the request, if its answer may be refused in place of the handler's. nil: it
	// may have changed something, and the answer goes out at any price.
	reads *http.Request

	stream   bool // of HTTP/2: deadlines hold while something goes out, see send
	buffered int  // bytes of the body on the way to the next frame

	// Parts of the answer: one allocation for all.
	body   sent
	asked  listen.Request
	entry  access.Entry
	memory buffers.Account
}

// A connection is our part of the state of one. With HTTP/1 it has one request at
// a time, so nothing guards it.
type connection struct {
	tcp   *listen.Conn // nil for other ones
	home  bool         // it came through the socket of the home
	login string       // whose process that is
	hosts hosts        // of its requests
}

// hosts writes the address of a client. Through a proxy there may be several.
type hosts struct {
	client netip.Addr
	text   string
}

// of returns the address as text, "localhost" for the socket of the home.
func (h *hosts) of(client netip.Addr) string {
	if h.client != client || h.text == "" {
		if h.client, h.text = client, "localhost"; client.IsValid() {
			h.text = client.String()
		}
	}
	return h.text
}

type connectionKey struct{}

// rememberConn is the [http.Server] ConnContext hook.
func rememberConn(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{}
	switch conn := conn.(type) {
	case *net.UnixConn:
		c.home, c.login = true, peer(conn)
	case *listen.Conn:
		c.tcp = conn
	case *tls.Conn:
		if tcp, ok := conn.NetConn().(*listen.Conn); ok {
			tcp.LimitUnsent(maxUnsent)
		}
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// peer returns the login at the other end, or the number of a user without a
// name, or "".
func peer(conn *net.UnixConn) string {
	cred := listen.Peer(conn)
	if cred == nil {
		return ""
	}
	id := strconv.FormatUint(uint64(cred.Uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// begin wraps the answer to one request.
func (p pace) begin(w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w, pace: p, start: time.Now(), unread: r.ContentLength != 0, stream: r.ProtoMajor == 2 && p.stall > 0}
	// The requests of an HTTP/2 connection have deadlines of their own.
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && r.ProtoMajor == 1 {
		a.conn = c
	} else {
		a.conn = new(connection)
	}
	a.extend(a.start, 0)
	return a
}

// extend moves the write deadline to leave time for n bytes. It moves it far,
// hence seldom: most answers are one small write.
func (a *answer) extend(now time.Time, n int64) {
	if a.stream {
		return // a deadline of a stream ends it, whether something goes out then or not
	}
	room := a.take + a.atSlowest(n)
	if a.until.Sub(now) < room/2 {
		a.setWriteDeadline(now.Add(room))
	}
}

func (a *answer) setWriteDeadline(t time.Time) {
	a.until = t
	http.NewResponseController(a.ResponseWriter).SetWriteDeadline(t)
}

// streamBytes is about what a stream of HTTP/2 takes besides its header and its bodies: the
// stack of its handler, and buffers of the server. Connections of HTTP/1 are few enough.
const streamBytes = 16 << 10

// takeStream counts a stream, with its header and with what its connection may keep of the
// body.
func (a *answer) takeStream(r *http.Request) error {
	if !a.stream {
		return nil
	}
	n := streamBytes + len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	if a.fed = maxUnread; r.ContentLength >= 0 {
		a.fed = int(min(r.ContentLength, maxUnread))
	}
	return a.memory.Take(n + a.fed)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sends the status with the first of the body, or at the end: until then
// the answer can be refused.
func (a *answer) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		a.ResponseWriter.WriteHeader(status)
	case a.status == 0:
		a.opens(status)
		a.head = status
	}
}

// opens completes the header before it goes out.
func (a *answer) opens(status int) {
	if a.status == 0 {
		a.status = status
		if status == http.StatusServiceUnavailable && a.memory.Refused() {
			a.Header().Set("Retry-After", "5")
		}
		a.extend(time.Now(), 0)
		access.Protect(a.Header(), a.named)
		a.giveUp()
	}
}

// sendHead sends a status that waits.
func (a *answer) sendHead() {
	a.opens(http.StatusOK)
	if status := a.head; status != 0 {
		a.head = 0
		a.ResponseWriter.WriteHeader(status)
	}
}

// giveUp limits the time of the server for the rest of a body to that of a
// handler.
func (a *answer) giveUp() {
	if a.unread {
		a.setReadDeadline(time.Now().Add(a.idle))
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if err := a.keeps(len(p)); err != nil {
		return 0, err
	}
	a.sendHead()
	a.extend(time.Now(), int64(len(p)))
	n, err := a.send(p)
	a.octets += int64(n)
	return n, err
}

const (
	// chunk is the size of the buffers of the server in front of a connection or stream.
	chunk = 4 << 10
	// piece is how much of an answer goes out in one frame of HTTP/2.
	piece = 16 << 10
	// copied is the size of the buffer for a file that does not go out by sendfile.
	copied = 32 << 10
)

// keeps counts a part of n bytes of the body, which stays in memory until the client has
// taken it. Of a handler that writes again and again the longest part counts. If there is no
// memory for the first one, the answer is a refusal; a later one ends it.
func (a *answer) keeps(n int) error {
	switch {
	case a.denied:
		return buffers.ErrFull
	case n <= chunk || n <= a.kept:
		return nil
	case a.memory.Take(n-a.kept) == nil:
		a.kept = n
		return nil
	case a.reads == nil:
		return nil
	}
	r, begun := a.reads, a.status != 0 && a.head == 0
	if a.reads = nil; !begun {
		a.status, a.head = 0, 0
		for _, name := range []string{"Content-Encoding", "Content-Range", "Accept-Ranges", "Trailer"} {
			a.Header().Del(name)
		}
		a.match.Fail(a, r, buffers.ErrFull)
	}
	a.denied, a.cut = true, begun
	return buffers.ErrFull
}

// send writes a part of the body. On a stream each frame has a time of its own: the server
// shows no progress within a longer write.
func (a *answer) send(p []byte) (n int, err error) {
	if !a.stream || a.buffered+len(p) <= chunk {
		a.buffered += len(p)
		return a.ResponseWriter.Write(p)
	}
	for n < len(p) && err == nil {
		a.arm()
		var k int
		k, err = a.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		n += k
	}
	a.buffered = chunk // at most
	a.disarm(err)
	return n, err
}

// arm begins the time for the next frame of a stream.
func (a *answer) arm() {
	if now := time.Now(); a.until.Sub(now) < a.stall-a.stall/8 {
		a.setWriteDeadline(now.Add(a.stall))
	}
}

// disarm ends it: the handler may wait now.
func (a *answer) disarm(err error) {
	if err == nil {
		a.setWriteDeadline(time.Time{})
	}
}

// FlushError is for [http.ResponseController].
func (a *answer) FlushError() error {
	a.sendHead()
	flush := http.NewResponseController(a.ResponseWriter).Flush
	if !a.stream {
		return flush()
	}
	a.arm()
	err := flush()
	a.buffered = 0
	a.disarm(err)
	return err
}

// end sends what is left of an answer. On a stream it waits for the client, while the answer
// still counts.
func (a *answer) end() {
	if a.head != 0 {
		a.sendHead()
	}
	if a.stream && a.buffered > 0 {
		a.arm()
		http.NewResponseController(a.ResponseWriter).Flush() // nobody is left to be told of an error
	}
	a.extend(time.Now(), 0) // the answer goes out now
}

// takePart is how much goes out under one deadline.
const takePart = 64 << 20

// ReadFrom keeps the way to sendfile open: sendfile wants a file or one
// LimitedReader around it.
func (a *answer) ReadFrom(r io.Reader) (total int64, err error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	if a.conn.tcp == nil && a.client.IsValid() {
		if err := a.keeps(copied); err != nil {
			return 0, err
		}
	}
	a.sendHead()
	if a.stream {
		n, err := io.CopyBuffer(struct{ io.Writer }{a}, struct{ io.Reader }{limited}, make([]byte, min(limited.N, copied)))
		return n, err
	}
	for limited.N > 0 {
		part := &io.LimitedReader{R: limited.R, N: min(limited.N, takePart)}
		a.extend(time.Now(), part.N)
		n, err := io.Copy(a.ResponseWriter, part)
		a.octets += n
		total += n
		limited.N -= n
		if err != nil || part.N > 0 {
			return total, err
		}
	}
	return total, nil
}

// A sent is the body of a request. It keeps the client to the pace.
type sent struct {
	io.ReadCloser
	to     *answer
	behind time.Duration // the slowest pace: to be fast at first earns nothing
	until  time.Time     // when the read deadline is to be moved
}

// context returns the context of the request.
func (a *answer) context(r *http.Request) context.Context {
	if a.conn.tcp == nil {
		return r.Context()
	}
	a.asked.Begin(r.Context(), a.conn.tcp, a.start)
	return &a.asked
}

// receive watches the body of a request from here on.
func (a *answer) receive(r *http.Request) {
	if !a.unread {
		a.asked.Whole()
		return
	}
	a.body = sent{ReadCloser: r.Body, to: a}
	r.Body = &a.body
}

// Read returns [os.ErrDeadlineExceeded] if the client is too slow. The owner of
// the home may be slower, but not stop for good.
func (s *sent) Read(p []byte) (int, error) {
	start := time.Now()
	if start.After(s.until) {
		s.extend(start)
		s.to.extend(start, 0) // the answer is still to come
	}
	n, err := s.ReadCloser.Read(p)
	s.behind = max(0, s.behind+time.Since(start)-time.Duration(int64(n)*int64(time.Second)/s.to.slowest))
	switch {
	case err == io.EOF:
		s.to.unread = false
		s.to.memory.Give(s.to.fed)
		s.to.fed = 0
		s.to.asked.Whole()
		s.to.setReadDeadline(time.Time{}) // what comes next is none of it
	case err == nil && s.to.client.IsValid() && s.behind > s.to.give:
		s.to.unread = false
		s.to.setReadDeadline(start) // nor does the server wait for the rest
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// extend moves the read deadline. Moving it at every read would cost more than
// the read.
func (s *sent) extend(now time.Time) {
	s.until = now.Add(s.to.idle / 8)
	s.to.SetReadDeadline(now.Add(s.to.idle))
}

// SetReadDeadline sets when the next part of the body must be there at the
// latest. It is for [http.ResponseController]: handlers know no owners.
func (a *answer) SetReadDeadline(t time.Time) error {
	if now := time.Now(); !a.client.IsValid() && t.After(now) {
		t = now.Add(ownerIdle)
	}
	return a.setReadDeadline(t)
}

// setReadDeadline moves the read deadline unless it is about the same: the body is
// read through two readers with an eye on the time, and each call has its price.
func (a *answer) setReadDeadline(t time.Time) error {
	if t.Equal(a.readBy) || t.After(a.readBy) && t.Sub(a.readBy) < a.idle/64 {
		return nil
	}
	err := http.NewResponseController(a.ResponseWriter).SetReadDeadline(t)
	if err == nil {
		a.readBy = t
	}
	return err
}
