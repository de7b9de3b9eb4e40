package set

import (
	"context"
	"fmt"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// Queue is the part of *queuefs.Queue for a Source. All methods show committed
// events only. Seq, State, Pages, PageVersion, Page, Status and
// InfoFile read memory.
type Queue interface {
	ID() string
	Seq() queuefs.Seq
	Wait(ctx context.Context, after queuefs.Seq) error
	State() queuefs.QueueState
	Events(after queuefs.Seq, max int) ([]queuefs.Event, error)
	Journaled(after queuefs.Seq, max, size int) ([]queuefs.Journaled, error)
	Pages() int
	PageVersion(p int) (version queuefs.Seq, at time.Time, pending, total int)
	Page(p int, dst []queuefs.Entry) (entries []queuefs.Entry, version queuefs.Seq, at time.Time)
	AddResults(entries []queuefs.Entry) // those of now, or of the entries
	Status(id queuefs.JobID) (queuefs.Status, time.Time)
	InfoFile() ([]byte, queuefs.Facts)
	JobFile(id queuefs.JobID, st queuefs.Status) ([]byte, queuefs.Facts, error)
	Payload(id queuefs.JobID) (*queuefs.Payload, error)
	Pass() queuefs.Pass
	Result(id queuefs.JobID, name string) (queuefs.Result, *queuefs.Payload, error)
}

// A Subject is a queue as it is published. It never changes.
type Subject struct {
	*Source
	Queue Queue
	Refs  *names.Queue
	Born  string // when the queue was made, in entity tags
}

// Subject returns a queue as it is published.
func (s *Source) Subject(q Queue) Subject {
	return Subject{Source: s, Queue: q, Refs: s.Base.Queue(q.ID()), Born: fmt.Sprintf("-%x", q.State().Info.Created.UnixMicro())}
}

// Created returns when the queue was made.
func (f *Subject) Created() time.Time {
	t := f.Queue.State().Info.Created
	if t.IsZero() {
		t = time.Unix(0, 0) // a document must say since when
	}
	return t.UTC()
}

// Since returns when the events known begin: with the creation of the queue, or of a
// mirror with the copy.
func (f *Subject) Since() time.Time { return Since(f.Queue) }

// Since is [Subject.Since] of a queue.
func Since(q Queue) time.Time {
	if t := q.State().Since; !t.IsZero() {
		return t.UTC()
	}
	return (&Subject{Queue: q}).Created()
}

// OrCreated returns t, or when the queue was made if t is zero.
func (f *Subject) OrCreated(t time.Time) time.Time {
	if t.IsZero() {
		return f.Created()
	}
	return t.UTC()
}

// Renderer returns a new renderer of entries; it is for one goroutine.
func (f *Subject) Renderer() entries.Renderer {
	return entries.Renderer{Refs: f.Refs, Dialect: f.Dialect, Mirrors: f.MirrorURIs, Via: f.via()}
}

// via returns the base URI of the origin: of a mirror that of its original, else the one
// of all queues.
func (f *Subject) via() string {
	if m := f.Queue.State().Mirror; m != nil {
		if base := m.Base(); base != "" {
			return base
		}
	}
	return f.ViaURI
}

// ListNow returns the open list after the last event, without entries.
func (f *Subject) ListNow() store.OpenList {
	st := f.Queue.State()
	return store.NewOpenList(st.Seq, f.OrCreated(st.LastEvent))
}
