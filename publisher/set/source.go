package set

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/dir"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// A Source is what all sets of a home have in common. Its methods are safe for
// concurrent use.
type Source struct {
	names.Complete
	Store *Store

	terms  atomic.Pointer[names.Terms] // nil: those of Complete
	closed atomic.Bool
	given  atomic.Int64 // damaged files and sets that were set aside
}

// Terms returns the terms in force. Those of the embedded settings hold until Take.
func (s *Source) Terms() names.Terms {
	if t := s.terms.Load(); t != nil {
		return *t
	}
	return s.Options.Terms()
}

// Take puts other terms in force, and writes them into the home first.
func (s *Source) Take(t names.Terms) error {
	if _, err := s.With(t).Complete(); err != nil {
		return err
	}
	if err := s.Store.Remember(s.Settings(t)); err != nil {
		return err
	}
	s.terms.Store(&t)
	return nil
}

// Failure is an error once the Source was shut.
func (s *Source) Failure() error {
	if s.closed.Load() {
		return fmt.Errorf("publisher: %w", ledger.ErrClosed)
	}
	return nil
}

// Shut makes everything fail from then on, and reports whether it did so before.
func (s *Source) Shut() (before bool) { return s.closed.Swap(true) }

// Closed reports whether the Source was shut.
func (s *Source) Closed() bool { return s.closed.Load() }

// Lost returns how many damaged files and sets were set aside since the start.
func (s *Source) Lost() int64 { return s.given.Load() }

func (s *Source) hasSpace(octets int64) bool { return s.HasSpace == nil || s.HasSpace(octets) }

// Queue is the part of *queuefs.Queue for a Source. All methods show committed
// events only. Seq, State, Pages, PageVersion, Page, Status and
// InfoFile read memory.
type Queue interface {
	ID() string
	Seq() job.Seq
	Wait(ctx context.Context, after job.Seq) error
	State() ledger.State
	Events(after job.Seq, max int) ([]job.Event, error)
	Journaled(after job.Seq, max, size int) ([]ledger.Journaled, error)
	Kept(from job.Seq) float64
	Pages() int
	PageVersion(p int) (version job.Seq, at time.Time, pending, total int)
	Page(p int, dst []ledger.Entry) (entries []ledger.Entry, version job.Seq, at time.Time)
	AddResults(entries []ledger.Entry) // those of now, or of the entries
	Status(id job.ID) (job.Status, time.Time)
	InfoFile() ([]byte, job.Facts)
	JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error)
	Payload(id job.ID) (*dir.Payload, error)
	Pass() queuefs.Pass
	Result(id job.ID, name string) (job.Result, *dir.Payload, error)
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
func (f *Subject) Renderer() names.Renderer {
	return names.Renderer{Refs: f.Refs, Dialect: f.Dialect, Mirrors: f.MirrorURIs, Via: f.via()}
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
func (f *Subject) ListNow() OpenList {
	st := f.Queue.State()
	return NewOpenList(st.Seq, f.OrCreated(st.LastEvent))
}

// resultsPerJob is how many results a job of a page of the Resource List may have on
// average before the page has more than MaxEntries entries.
const resultsPerJob = 4

// perPage returns how many engine pages fit into a page of the Resource List.
func (s *Set) perPage() int {
	const reserve = 1 // for queue-info.txt
	perJob, bound := s.Kind.PerJob(), s.bound
	if s.Kind == names.Replica {
		bound += bound * resultsPerJob / perJob
		perJob += resultsPerJob
	}
	n := min((s.MaxEntries-reserve)/(index.PageJobs*perJob), int(s.limit())/(index.PageJobs*bound))
	return max(1, n)
}

// limit returns how many bytes of entries a document may have.
func (s *Set) limit() int64 { return s.MaxBytes - 4096 - 2*int64(len(s.Refs.Docs[names.Pending])) }

// Fits reports whether one document may have n entries of jobs.
func (s *Set) Fits(n int) bool {
	if s.Kind == names.Replica {
		n++ // queue-info.txt
	}
	return n <= s.MaxEntries && int64(n)*int64(s.bound) <= s.limit()*int64(s.Kind.PerJob())
}

// PerDocument returns how many entries about documents one document may have:
// an entry has two references at most, times, a length and a digest.
func (s *Set) PerDocument() int {
	size := 2*(len(s.Refs.Docs[s.Kind])+64) + 512
	return max(2, min(sitemap.MaxEntries, int(s.limit())/size))
}

// perIndex returns how many entries the Change List Index and the Change Dump may
// have; archives have the rest.
func (s *Set) perIndex() int { return min(s.MaxEntries, s.PerDocument()) }

// Between returns the engine pages from lo up to hi.
func (s *Set) Between(lo, hi int, plain bool) Pages {
	p := Pages{Queue: s.Queue, Set: s.Kind, Lo: lo, Hi: hi, Render: s.Renderer}
	if plain {
		p.Render = s.plainRenderer
	}
	return p
}

// Info returns the facts of queue-info.txt if a document from engine page lo on has it.
func (s *Set) Info(lo int) *job.Facts {
	if s.Kind != names.Replica || lo > 0 {
		return nil
	}
	_, facts := s.Queue.InfoFile()
	return &facts
}

func (s *Set) plainRenderer() names.Renderer {
	r := s.Renderer()
	r.Plain = true
	return r
}
