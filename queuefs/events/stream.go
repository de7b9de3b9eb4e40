// Package events sends and reads events of queues as server-sent events (WHATWG
// HTML, 9.2). [Server] answers a client with events from the journal, [Follow]
// reads them over as many connections as needed. The id of an event is the
// position of the client, see [Wish]; the server keeps nothing else of it.
package events

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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
	Queue  *queuefs.Queue // nil: every queue of the service, also later ones
	LastID string         // id of the last event the client has; "": none
	From   *string        // number of an event of Queue; nil: not given
	Kinds  []job.Kind     // only these; all if there is none
	Status []job.Status   // only events that lead to these; all if there is none
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
	seq job.Seq // last event sent or skipped
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
	if err != nil && !errors.Is(err, ledger.ErrClosed) && !errors.Is(err, ledger.ErrNoQueue) {
		h.log(r, err)
	}
	return nil
}

// all reports whether the stream is of all queues.
func (s *stream) all() bool { return s.Queue == nil }

// wants reports whether an event is sent. Events of phases, from former
// versions, are not.
func (s *stream) wants(e *job.Event) bool {
	return e.Kind != job.Phase && (len(s.Kinds) == 0 || slices.Contains(s.Kinds, e.Kind)) &&
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
	if errors.Is(err, ledger.ErrGone) {
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

// The id of an event is the position of the client. Of one queue it is the
// sequence number. Of all queues it is
//
//	all-BASE64URL(check, N1, N2, …)
//
// where N are the sequence numbers of the queues, as varints, in the order of
// queues.txt (new queues come last), and check are four octets from the
// identifiers of these queues. A thousand queues with a million events each
// have an id of 4 KB.
const cursorPrefix = "all-"

// maxCursor is the longest id of a stream, in octets: a client sends it back as
// a header, and few servers take more than 8 KiB of one.
const maxCursor = 7 << 10

func appendCursor(dst []byte, follows []follow) []byte {
	raw := make([]byte, 4, 4+4*len(follows))
	check := fnv.New32a()
	for i := range follows {
		check.Write(append([]byte(follows[i].q.ID()), 0))
		raw = binary.AppendUvarint(raw, uint64(follows[i].seq))
	}
	binary.BigEndian.PutUint32(raw, check.Sum32())
	return base64.RawURLEncoding.AppendEncode(append(dst, cursorPrefix...), raw)
}

// parseCursor returns the sequence numbers of a cursor of all queues; it
// accepts only the output of appendCursor. same reports whether the cursor is
// of these queues, or of the first of them.
func parseCursor(text string, queues []*queuefs.Queue) (seqs []job.Seq, same bool, err error) {
	bad := web.BadRequest("last event id %.40q is not one of all events", text)
	encoded, ok := strings.CutPrefix(text, cursorPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(text) > 2*maxCursor || len(raw) < 4 {
		return nil, false, bad
	}
	for rest := raw[4:]; len(rest) > 0; {
		v, n := binary.Uvarint(rest)
		if n <= 0 || n > 1 && rest[n-1] == 0 {
			return nil, false, bad
		}
		seqs, rest = append(seqs, job.Seq(v)), rest[n:]
	}
	if len(seqs) > len(queues) {
		return seqs, false, nil
	}
	check := fnv.New32a()
	for _, q := range queues[:len(seqs)] {
		check.Write(append([]byte(q.ID()), 0))
	}
	return seqs, binary.BigEndian.Uint32(raw) == check.Sum32(), nil
}

// begin finds the beginning of the stream. lost is the reason if the client
// cannot go on at its position.
func (s *stream) begin() (lost *resetEvent, err error) {
	if s.all() {
		if s.From != nil {
			return nil, web.BadRequest("parameter from is for the events of one queue, see /events/Q")
		}
		return s.beginAll()
	}
	q := s.Queue
	now := q.Seq()
	after := now
	switch {
	case s.LastID != "":
		if after, err = parseSeq(s.LastID); err != nil {
			return nil, web.BadRequest("last event id %.40q is not one of this queue: %v", s.LastID, err)
		}
	case s.From != nil:
		if after, err = parseSeq(*s.From); err != nil {
			return nil, web.BadRequest("parameter from is %.40q: %v", *s.From, err)
		}
		after = max(after, 1) - 1
	}
	if after > now {
		lost, after = resetOf(s.base, q.ID(), after, now, errAhead.Error()), now
	}
	s.follows = []follow{{q, after}}
	return lost, nil
}

// errAhead says: the client knows events this queue never had. It followed
// another queue of the name, or the home is an older copy.
var errAhead = errors.New("the queue has not had that event")

// beginAll begins a stream of all queues.
func (s *stream) beginAll() (lost *resetEvent, err error) {
	queues := s.h.svc.Queues()
	for _, q := range queues {
		s.follows = append(s.follows, follow{q, q.Seq()})
	}
	if s.LastID != "" {
		seqs, same, err := parseCursor(s.LastID, queues)
		if err != nil {
			return nil, err
		}
		ahead := false
		for i := range min(len(seqs), len(queues)) {
			ahead = ahead || seqs[i] > s.follows[i].seq
		}
		switch {
		case !same:
			lost = resetOfAll(s.base, "the queues are not those of the last event id")
		case ahead:
			lost = resetOfAll(s.base, errAhead.Error())
		default:
			for i := range s.follows {
				s.follows[i].seq = 0 // new queues from their beginning
			}
			for i, n := range seqs {
				s.follows[i].seq = n
			}
		}
	}
	return lost, s.fits()
}

// fits refuses a stream too large for any id.
func (s *stream) fits() error {
	if n := len(appendCursor(nil, s.follows)); n > maxCursor {
		return web.Errorf(http.StatusConflict, "%d queues are too many for one stream, follow them one by one at /events/Q", len(s.follows))
	}
	return nil
}

// parseSeq accepts only the printed form.
func parseSeq(s string) (job.Seq, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("not a number of an event")
	}
	return job.Seq(n), nil
}

// meet adds new queues, from their first event on, and drops removed ones.
func (s *stream) meet() error {
	queues := s.h.svc.Queues()
	if slices.EqualFunc(s.follows, queues, func(f follow, q *queuefs.Queue) bool { return f.q == q }) {
		return nil
	}
	seqs := make(map[*queuefs.Queue]job.Seq, len(s.follows))
	for _, f := range s.follows {
		seqs[f.q] = f.seq
	}
	s.follows, s.unnamed = nil, true
	for _, q := range queues {
		// Of a new queue, all events.
		s.follows = append(s.follows, follow{q, max(seqs[q], q.State().Before)})
	}
	return s.fits()
}

// An eventData is the data of a server-sent event; its name is the kind.
type eventData struct {
	Queue string  `json:"queue"` // cleaned identifier
	Seq   job.Seq `json:"seq"`
	Time  string  `json:"time"` // as in states
	Kind  string  `json:"kind"`
	Job   string  `json:"job,omitempty"`   // absent: the event is of queue-info.txt
	From  string  `json:"from,omitempty"`  // absent: it was not in the queue
	To    string  `json:"to,omitempty"`    // absent: it no longer is
	State string  `json:"state,omitempty"` // of the job, or of the queue; absent when there is none any more
	Size  *int64  `json:"size,omitempty"`  // octets of the payload, or of queue-info.txt
	Type  string  `json:"type,omitempty"`  // of the same
}

// appendEvent appends an event without its id and without its end.
func appendEvent(dst []byte, base state.Base, queue string, e *job.Event) []byte {
	d := eventData{Queue: queue, Seq: e.Seq, Time: job.FormatTime(e.Time), Kind: e.Kind.String(), From: e.From.String(), To: e.To.String()}
	switch {
	case e.Job == 0:
		d.State, d.Size, d.Type = base.Ref("state", queue), &e.File.Length, e.File.Type
	default:
		d.Job, d.Size, d.Type = e.Job.String(), &e.Payload.Length, e.Payload.Type
		if e.To != 0 {
			d.State = base.JobRef("state", queue, e.Job)
		}
	}
	return appendData(dst, d.Kind, state.EventClass, d)
}

// A resetEvent tells a client that events cannot bring its copy of a queue up
// to date. The client reads the state, or the list of changes, and takes the
// events after Seq: earlier ones are in both already.
type resetEvent struct {
	Kind    string  `json:"kind"`            // reset
	Queue   string  `json:"queue,omitempty"` // absent: all of them
	After   job.Seq `json:"after,omitempty"` // last event the client has
	Seq     job.Seq `json:"seq,omitempty"`   // the next event is the one after it
	Reason  string  `json:"reason"`
	State   string  `json:"state"`   // of the queue, or of the service
	Changes string  `json:"changes"` // Change List of the queue, or Source Description
}

func resetOf(base state.Base, queue string, after, seq job.Seq, reason string) *resetEvent {
	return &resetEvent{Queue: queue, After: after, Seq: seq, Reason: reason,
		State:   base.Ref("state", queue),
		Changes: base.Ref(".well-known", "resourcesync", queue, "replica", "changelist.xml")}
}

func resetOfAll(base state.Base, reason string) *resetEvent {
	return &resetEvent{Reason: reason, State: base.Ref("state"), Changes: base.Ref(".well-known", "resourcesync")}
}

func (d *resetEvent) append(dst []byte) []byte {
	d.Kind = "reset"
	return appendData(dst, d.Kind, state.ResetClass, d)
}

// appendData appends an event with an object of a class, not an empty one.
func appendData(dst []byte, name string, c *state.Class, data any) []byte {
	line, err := json.Marshal(data) // in one line: it escapes line ends
	if err != nil {
		panic("events: " + err.Error()) // of text and numbers there is none
	}
	dst = append(append(append(dst, "event: "...), name...), "\ndata: {"...)
	dst = append(c.AppendType(dst), ',')
	return append(append(dst, line[1:]...), '\n')
}

func appendSeq(dst []byte, n job.Seq) []byte { return strconv.AppendUint(dst, uint64(n), 10) }

// A Source is a service with events.
type Source struct {
	// Open asks for the events after the one with the id last; "" asks for the
	// first ones. A refusal of the service is a [web.Error].
	Open func(ctx context.Context, last string) (io.ReadCloser, error)
	// Lost gets the reason for the end of a connection before it is made again.
	Lost func(error)
}

const (
	// silence is the longest pause of a service; it sends signs of life.
	silence = time.Minute
	// Pauses before another connection double from the first to the last.
	firstPause, lastPause = 500 * time.Millisecond, 15 * time.Second
	maxEventLine          = 1 << 20 // octets
)

// Follow gives each event to take, over as many connections as it takes, until
// take or the service refuses or ctx ends. The first
// connection must succeed; later ones are tried without an end. Each event comes
// at least once.
func Follow(ctx context.Context, s Source, take func(kind string, data []byte) error) error {
	last, pause := "", firstPause
	for first := true; ; first = false {
		began, err := s.followOnce(ctx, &last, take)
		var stop stopped
		var refused *web.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stop):
			return stop.error
		case errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusBadGateway:
			return err
		case first && !began:
			return err
		}
		if began {
			pause = firstPause
			s.Lost(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// A stopped error comes from the taker of the events.
type stopped struct{ error }

// followOnce follows one connection to its end. It begins after the event last.
// began is true if the service answered with events.
func (s *Source) followOnce(ctx context.Context, last *string, take func(string, []byte) error) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %v", silence)) })
	defer quiet.Stop()
	body, err := s.Open(ctx, *last)
	if err != nil {
		return false, err
	}
	defer body.Close()
	err = readEvents(body, last, func() { quiet.Reset(silence) }, take)
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = errors.Join(err, cause)
	}
	return true, err
}

// readEvents reads events to the end of a connection, always an error.
func readEvents(body io.Reader, last *string, alive func(), take func(string, []byte) error) error {
	var kind, id string
	var data []byte
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEventLine)
	for lines.Scan() {
		alive()
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			data = append(data, value...)
		case "id":
			id = string(value)
		}
		if len(line) > 0 {
			continue
		}
		if len(data) > 0 {
			if err := take(kind, data); err != nil {
				return stopped{err}
			}
		}
		if id != "" {
			*last = id
		}
		kind, id, data = "", "", data[:0]
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the daemon has ended it")
}
