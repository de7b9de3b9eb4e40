// Package events sends and reads events of queues as server-sent events (WHATWG
// HTML, 9.2). [Server] answers a client with events from the journal, [Follow]
// reads them over as many connections as needed. The id of an event is the
// position of the client, see [Wish]; the server keeps nothing else of it.
package events

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Limits are the limits of a [Server]. Zero values mean the defaults.
type Limits struct {
	Streams   int           // clients at a time; 0: 5000; beyond it 503
	Heartbeat time.Duration // longest silence of a stream; 0: 15 s
	Idle      time.Duration // a client taking nothing for this time is cut off; 0: 30 s
}

// A Server sends the events of a service. It is safe for concurrent use.
type Server struct {
	svc     *queuefs.Service
	base    func(*http.Request) state.Base
	limits  Limits
	log     func(*http.Request, error)
	streams atomic.Int64
}

// New returns a Server of svc. base begins references; log is called with errors
// too late for an answer.
func New(svc *queuefs.Service, base func(*http.Request) state.Base, l Limits, log func(*http.Request, error)) *Server {
	l.Streams = cmp.Or(l.Streams, 5000)
	l.Heartbeat = cmp.Or(l.Heartbeat, 15*time.Second)
	l.Idle = cmp.Or(l.Idle, 30*time.Second)
	return &Server{svc: svc, base: base, limits: l, log: log}
}

// A Wish selects the events of a stream and its beginning: after the event
// LastID, else with the event From, else now.
type Wish struct {
	Queue  *queuefs.Queue   // nil: every queue of the service, also later ones
	LastID string           // id of the last event the client has; "": none
	From   *string          // number of an event of Queue; nil: not given
	Kinds  []queuefs.Kind   // only these; all if there is none
	Status []queuefs.Status // only events that lead to these; all if there is none
}

// buffers hold batches of events; large ones are not kept.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

const largeBuffer = 64 << 10

func putBuffer(buf *[]byte) {
	if cap(*buf) <= largeBuffer {
		buffers.Put(buf)
	}
}

// eventBatch is how many events are read, and sent in one piece, at a time.
const eventBatch = 256

// A stream is one client that follows the events of queues. Nothing is kept for
// it except its position: the rest is read from the journal.
type stream struct {
	Wish
	h       *Server
	base    state.Base // begins references
	w       http.ResponseWriter
	conn    *http.ResponseController
	follows []follow // in the order of the service
	seen    uint64   // of all: the count of events when nothing was left to send, see [queuefs.Service.Wait]
	unnamed bool     // it has come further than the last id it was sent
	sent    int      // octets since the last id
}

// A follow is how far a stream has come in a queue.
type follow struct {
	q   *queuefs.Queue
	seq queuefs.Seq // last event sent or skipped
}

// Serve answers GET and HEAD with the events of a wish. It ends with the
// request, so stopping a server begins with the context of its requests.
func (h *Server) Serve(w http.ResponseWriter, r *http.Request, wish Wish) error {
	s := &stream{Wish: wish, h: h, base: h.base(r), w: w, conn: http.NewResponseController(w)}
	lost, err := s.begin()
	if err != nil {
		return err
	}
	if r.Method != http.MethodHead {
		if h.streams.Add(1) > int64(h.limits.Streams) {
			h.streams.Add(-1)
			w.Header().Set("Retry-After", "10")
			return web.Errorf(http.StatusServiceUnavailable, "too many event streams, try again later")
		}
		defer h.streams.Add(-1)
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // or a proxy collects events instead of sending them
	header["X-Content-Type-Options"] = []string{"nosniff"}
	if r.ProtoMajor == 1 {
		// A stream has other deadlines than the next answer would.
		header.Set("Connection", "close")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	err = s.run(r.Context(), lost)
	if err != nil && !errors.Is(err, queuefs.ErrClosed) && !errors.Is(err, queuefs.ErrNoQueue) {
		h.log(r, err)
	}
	return nil
}

// all reports whether the stream is of all queues.
func (s *stream) all() bool { return s.Queue == nil }

// wants reports whether an event is sent. Events of phases, from former
// versions, are not.
func (s *stream) wants(e *queuefs.Event) bool {
	return e.Kind != queuefs.Phase && (len(s.Kinds) == 0 || slices.Contains(s.Kinds, e.Kind)) &&
		(len(s.Status) == 0 || slices.Contains(s.Status, e.To))
}

// run sends the opening, the events so far, and new ones, until ctx ends, the
// service does, or the client takes nothing more. lost is the reason if the
// client could not go on at its position, else nil.
func (s *stream) run(ctx context.Context, lost *resetEvent) error {
	opening := []byte("retry: 3000\n")
	if lost != nil {
		opening = lost.append(opening)
	}
	if err := s.send(s.appendID(opening)); err != nil {
		return nil // the client has gone
	}
	for {
		if s.all() {
			if err := s.meet(); err != nil {
				return err
			}
		}
		more, err := s.deliver()
		if err == nil && !more {
			err = s.wait(ctx)
		}
		var gone clientError
		if errors.As(err, &gone) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wait returns when there may be a new event, or after a heartbeat. The
// heartbeat shows proxies and the client a live connection, and the server a
// dead client.
func (s *stream) wait(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, s.h.limits.Heartbeat)
	defer cancel()
	var err error
	if s.all() {
		s.seen, err = s.h.svc.Wait(waiting, s.seen)
	} else {
		err = s.follows[0].q.Wait(waiting, s.follows[0].seq)
	}
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if s.unnamed {
		return s.send(s.appendID(nil))
	}
	return s.send([]byte(":\n\n"))
}

// deliver sends one batch of each queue with events, and reports whether there
// was any.
func (s *stream) deliver() (more bool, err error) {
	for i := range s.follows {
		f := &s.follows[i]
		if f.q.Seq() <= f.seq {
			continue
		}
		more = true
		if err := s.batch(f); err != nil {
			return false, err
		}
	}
	return more, nil
}

// batch sends the next events of one queue.
func (s *stream) batch(f *follow) error {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	out := (*buf)[:0]
	events, err := f.q.Events(f.seq, eventBatch)
	base := s.base
	for i := range events {
		e := &events[i]
		f.seq = e.Seq
		s.unnamed = true
		if !s.wants(e) {
			continue
		}
		out = appendEvent(out, base, f.q.ID(), e)
		if !s.all() || i == len(events)-1 && s.frugal(len(out)) {
			out = s.appendID(out)
		} else {
			out = append(out, '\n')
		}
	}
	if errors.Is(err, queuefs.ErrGone) {
		lost := resetOf(base, f.q.ID(), f.seq, f.q.Seq(), err.Error())
		f.seq = lost.Seq
		out, err = s.appendID(lost.append(out)), nil
	}
	*buf = out
	if err != nil || len(out) == 0 {
		return err
	}
	return s.send(out)
}

// frugal reports whether an id may be sent after n octets of events: the long
// id of many queues must be a small part of the whole. Without it a returning
// client gets some events again.
func (s *stream) frugal(n int) bool {
	length := 8 * len(s.follows)
	return length <= 256 || s.sent+n >= 16*length
}

// appendID ends an event, or a block without one, with how far the client has
// come by now.
func (s *stream) appendID(dst []byte) []byte {
	s.unnamed, s.sent = false, -len(dst)
	dst = append(dst, "id: "...)
	if s.all() {
		dst = appendCursor(dst, s.follows)
	} else {
		dst = appendSeq(dst, s.follows[0].seq)
	}
	return append(dst, "\n\n"...)
}

// A clientError is a client that has gone or takes nothing.
type clientError struct{ error }

// send writes a piece, within its time.
func (s *stream) send(p []byte) error {
	s.sent += len(p)
	until := func() { _ = s.conn.SetWriteDeadline(time.Now().Add(s.h.limits.Idle)) } // not all know deadlines
	until()
	_, err := s.w.Write(p)
	if err == nil {
		until() // the caller of the handler may have a deadline of its own
		err = s.conn.Flush()
	}
	if err != nil {
		return clientError{err}
	}
	return nil
}
