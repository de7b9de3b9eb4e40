package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs/buffers"
)

// A pace is the least speed of clients in sending a request and in taking the
// answer. Slower clients hold a connection rather than use it, and are cut off.
type pace struct {
	take    time.Duration // for any answer
	give    time.Duration // that a body of a request may be behind the slowest pace
	idle    time.Duration // that nothing may come of such a body
	slowest int64         // octets a second, of bodies and of long answers
}

var defaultPace = pace{take: 10 * time.Minute, give: 2 * time.Minute, idle: 30 * time.Second, slowest: 1 << 10}

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
	route  string     // path of the matched route
	start  time.Time
	status int   // 0 while nothing was answered
	octets int64 // of the body
	conn   *connection
	until  time.Time // write deadline
	unread bool      // the body of the request was not read to its end
	readBy time.Time // read deadline of the request, zero if there is none

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
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// peer returns the login at the other end, or the number of a user without a
// name, or "".
func peer(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return ""
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || failed != nil {
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
	a := &answer{ResponseWriter: w, pace: p, start: time.Now(), unread: r.ContentLength != 0}
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
	room := a.take + a.atSlowest(n)
	if a.until.Sub(now) < room/2 {
		a.until = now.Add(room)
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(a.until)
	}
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.opens(status)
	}
	a.ResponseWriter.WriteHeader(status)
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

// giveUp limits the time of the server for the rest of a body to that of a
// handler.
func (a *answer) giveUp() {
	if a.unread {
		a.setReadDeadline(time.Now().Add(a.idle))
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.opens(http.StatusOK)
	a.extend(time.Now(), int64(len(p)))
	n, err := a.ResponseWriter.Write(p)
	a.octets += int64(n)
	return n, err
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
	a.opens(http.StatusOK)
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
