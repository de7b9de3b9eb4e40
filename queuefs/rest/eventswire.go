package rest

import (
	"encoding/json"
	"strconv"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

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
	return appendData(dst, d.Kind, d)
}

// A resetEvent tells a client that events cannot bring its copy of a queue up
// to date. The client reads the state, or the list of changes, and takes the
// events after Seq: earlier ones are in both already.
type resetEvent struct {
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

func (d *resetEvent) append(dst []byte) []byte { return appendData(dst, "reset", d) }

func appendData(dst []byte, name string, data any) []byte {
	line, err := json.Marshal(data) // in one line: it escapes line ends
	if err != nil {
		panic("rest: event: " + err.Error()) // of text and numbers there is none
	}
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	return append(append(dst, line...), '\n')
}

func appendSeq(dst []byte, n queuefs.Seq) []byte { return strconv.AppendUint(dst, uint64(n), 10) }
