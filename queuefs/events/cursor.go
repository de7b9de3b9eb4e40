package events

import (
	"bufio"
	"bytes"
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
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

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
func parseCursor(text string, queues []*queuefs.Queue) (seqs []queuefs.Seq, same bool, err error) {
	bad := badRequest("last event id %.40q is not one of all events", text)
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
		seqs, rest = append(seqs, queuefs.Seq(v)), rest[n:]
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
			return nil, badRequest("parameter from is for the events of one queue, see /events/Q")
		}
		return s.beginAll()
	}
	q := s.Queue
	now := q.Seq()
	after := now
	switch {
	case s.LastID != "":
		if after, err = parseSeq(s.LastID); err != nil {
			return nil, badRequest("last event id %.40q is not one of this queue: %v", s.LastID, err)
		}
	case s.From != nil:
		if after, err = parseSeq(*s.From); err != nil {
			return nil, badRequest("parameter from is %.40q: %v", *s.From, err)
		}
		after = max(after, 1) - 1
	}
	if after > now {
		lost, after = resetOf(s.base, q.ID(), after, now, errAhead.Error()), now
	}
	s.follows = []follow{{q, after}}
	return lost, nil
}

func badRequest(format string, args ...any) error {
	return web.Errorf(http.StatusBadRequest, format, args...)
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
func parseSeq(s string) (queuefs.Seq, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("not a number of an event")
	}
	return queuefs.Seq(n), nil
}

// meet adds new queues, from their first event on, and drops removed ones.
func (s *stream) meet() error {
	queues := s.h.svc.Queues()
	if slices.EqualFunc(s.follows, queues, func(f follow, q *queuefs.Queue) bool { return f.q == q }) {
		return nil
	}
	seqs := make(map[*queuefs.Queue]queuefs.Seq, len(s.follows))
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
	Queue string      `json:"queue"` // cleaned identifier
	Seq   queuefs.Seq `json:"seq"`
	Time  string      `json:"time"` // as in states
	Kind  string      `json:"kind"`
	Job   string      `json:"job,omitempty"`   // absent: the event is of queue-info.txt
	From  string      `json:"from,omitempty"`  // absent: it was not in the queue
	To    string      `json:"to,omitempty"`    // absent: it no longer is
	State string      `json:"state,omitempty"` // of the job, or of the queue; absent when there is none any more
	Size  *int64      `json:"size,omitempty"`  // octets of the payload, or of queue-info.txt
	Type  string      `json:"type,omitempty"`  // of the same
}

// appendEvent appends an event without its id and without its end.
func appendEvent(dst []byte, base state.Base, queue string, e *queuefs.Event) []byte {
	d := eventData{Queue: queue, Seq: e.Seq, Time: queuefs.FormatTime(e.Time), Kind: e.Kind.String(), From: e.From.String(), To: e.To.String()}
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
	Kind    string      `json:"kind"`            // reset
	Queue   string      `json:"queue,omitempty"` // absent: all of them
	After   queuefs.Seq `json:"after,omitempty"` // last event the client has
	Seq     queuefs.Seq `json:"seq,omitempty"`   // the next event is the one after it
	Reason  string      `json:"reason"`
	State   string      `json:"state"`   // of the queue, or of the service
	Changes string      `json:"changes"` // Change List of the queue, or Source Description
}

func resetOf(base state.Base, queue string, after, seq queuefs.Seq, reason string) *resetEvent {
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

func appendSeq(dst []byte, n queuefs.Seq) []byte { return strconv.AppendUint(dst, uint64(n), 10) }

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
