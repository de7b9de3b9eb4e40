package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// eventBatch is how many events are read, and sent in one piece, at a time.
const eventBatch = 256

// A stream is one client that follows the events of queues as server-sent
// events (WHATWG HTML, 9.2). Nothing is kept for it except its position: the
// rest is read from the journal.
type stream struct {
	h       *Handler
	r       *http.Request
	w       http.ResponseWriter
	conn    *http.ResponseController
	kinds   []queuefs.Kind   // only these; all if there is none
	status  []queuefs.Status // only events that lead to these; all if there is none
	all     bool             // every queue of the service, also later ones
	follows []follow         // in the order of the service
	seen    uint64           // of all: the count of events when nothing was left to send, see [queuefs.Service.Wait]
	unnamed bool             // it has come further than the last id it was sent
	sent    int              // octets since the last id
}

// A follow is how far a stream has come in a queue.
type follow struct {
	q   *queuefs.Queue
	seq queuefs.Seq // last event sent or skipped
}

// events serves GET /events and GET /events/Q. It ends with the request, so
// stopping the server begins with the context of the request.
func (h *Handler) events(w http.ResponseWriter, r *request) error {
	s := &stream{h: h, r: r.Request, w: w, conn: http.NewResponseController(w)}
	if err := s.filters(r); err != nil {
		return err
	}
	lost, err := s.begin(r)
	if err != nil {
		return err
	}
	if r.Method != http.MethodHead {
		if h.streams.Add(1) > int64(h.o.MaxStreams) {
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
	header["X-Content-Type-Options"] = noSniff
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

// filters reads the wishes of the client: ?kind= and ?status=, each a list with
// commas.
func (s *stream) filters(r *request) (err error) {
	if s.kinds, err = list(r, "kind", queuefs.ParseKind); err != nil {
		return err
	}
	s.status, err = list(r, "status", queuefs.ParseStatus)
	return err
}

// list returns the parts of a parameter, none if it is not given.
func list[T any](r *request, name string, parse func(string) (T, error)) (all []T, err error) {
	text, ok, err := r.param(name)
	if err != nil || !ok {
		return nil, err
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// wants reports whether an event is sent. Events of phases, from former
// versions, are not.
func (s *stream) wants(e *queuefs.Event) bool {
	return e.Kind != queuefs.Phase && (len(s.kinds) == 0 || slices.Contains(s.kinds, e.Kind)) &&
		(len(s.status) == 0 || slices.Contains(s.status, e.To))
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
		if s.all {
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
	waiting, cancel := context.WithTimeout(ctx, s.h.o.Heartbeat)
	defer cancel()
	var err error
	if s.all {
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
	base := s.h.base()
	for i := range events {
		e := &events[i]
		f.seq = e.Seq
		s.unnamed = true
		if !s.wants(e) {
			continue
		}
		out = appendEvent(out, base, f.q.ID(), e)
		if !s.all || i == len(events)-1 && s.frugal(len(out)) {
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
	if s.all {
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
	until := func() { _ = s.conn.SetWriteDeadline(time.Now().Add(s.h.o.StreamIdle)) } // not all know deadlines
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
