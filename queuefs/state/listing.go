package state

import (
	"bytes"

	"cutie/queuefs"
	"cutie/queuefs/job"
)

// A Listing is the state of a queue in parts, so that jobStates can name any number of
// jobs in no more memory than a few. It is for all forms but SOIF, which numbers the
// items of a list.
type Listing struct {
	Head   []byte // up to the identifier of the first job
	Passes []Pass // over all jobs; two in Turtle, which names each job twice
	None   []byte // the whole state if there are no jobs
}

// A Pass is the part of a listing that names all jobs once.
type Pass struct {
	step []byte // from an identifier up to the next one
	tail []byte // from the last identifier on, up to the next pass
	a, b []byte // the identifiers in step and tail
}

// ListingOf returns the state of a queue for [Pass.Append]; the jobs in q are not in
// it.
func (f Form) ListingOf(base Base, q *Queue) Listing {
	q.Jobs.IDs = nil
	d := OfQueue(base, q)
	l := Listing{None: f.Append(nil, &d)}
	var a, b []byte
	// Two jobs stand for all, with numbers that the state has nowhere else.
	for id := queuefs.JobID(job.MaxID); ; id -= 2 {
		a, b = []byte((id - 1).String()), []byte(id.String())
		if !bytes.Contains(l.None, a) && !bytes.Contains(l.None, b) {
			q.Jobs.IDs = []queuefs.JobID{id - 1, id}
			break
		}
	}
	d = OfQueue(base, q)
	text := f.Append(nil, &d)
	first := bytes.Index(text, a)
	l.Head, text = text[:first:first], text[first:]
	for len(text) > 0 {
		second := bytes.Index(text, b)
		step, tail := text[:second], text[second:]
		if text = nil; bytes.Contains(tail, a) {
			next := bytes.Index(tail, a)
			tail, text = tail[:next], tail[next:]
		}
		l.Passes = append(l.Passes, Pass{step, tail, a, b})
	}
	return l
}

// Append appends a job, and with the last one all up to the next pass.
func (p *Pass) Append(dst []byte, id queuefs.JobID, last bool) []byte {
	part, of := p.step, p.a
	if last {
		part, of = p.tail, p.b
	}
	for {
		before, after, more := bytes.Cut(part, of)
		dst = append(dst, before...)
		if !more {
			return dst
		}
		dst, part = id.Append(dst), after
	}
}
