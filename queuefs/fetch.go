package queuefs

import (
	"crypto/sha256"

	"cutie/queuefs/index"
	"cutie/queuefs/journal/segment"
)

// fetchLimit is how many octets of the journal are read at a time, and how many
// octets of payloads come along with their jobs.
const fetchLimit = 256 << 10

// fetchGap is up to how many octets between two jobs are read for nothing,
// rather than reading again; most are the head of a record.
const fetchGap = 4 << 10

// A fetch reads jobs that are neighbours in the journal with one read.
type fetch struct {
	q        *Queue
	jobs     []Job
	payloads [][]byte // those that were at hand; nil if they are not wanted
	kept     int      // octets of payloads
	parts    []part
}

// A part is what is to be read of one job.
type part struct {
	status Status
	size   int64
	sum    [32]byte // SHA-256 of the job file
	text   int      // where the job file begins in what is read,
	end    int      // where it ends,
	whole  int      // and where the payload does that follows; -1 if it is not read
}

// partOf is the part of a job whose job file begins at at, without payload.
func partOf(j *index.Job, at int) part {
	return part{status: j.Status, size: j.Size, sum: j.FileSHA256, text: at, end: at + j.FileLength, whole: -1}
}

// fetch is Job for each of ids, and with payloads their payloads, as far as they
// are at hand: one that is empty is not nil. It releases none of the jobs.
func (q *Queue) fetch(ids []JobID, payloads bool) ([]Job, [][]byte, error) {
	f := fetch{q: q, jobs: make([]Job, 0, len(ids))}
	if payloads {
		f.payloads = make([][]byte, 0, len(ids))
	}
	for len(f.jobs) < len(ids) {
		rest := ids[len(f.jobs):]
		if f.run(rest) > 0 {
			continue
		}
		if j, payload, ok := q.packed(rest[0]); ok {
			f.add(j, payload)
			continue
		}
		j, err := q.Job(rest[0])
		if err != nil {
			return nil, nil, err
		}
		f.add(j, nil)
	}
	return f.jobs, f.payloads, nil
}

func (f *fetch) add(j Job, payload []byte) {
	f.jobs = append(f.jobs, j)
	if f.payloads != nil {
		f.payloads = append(f.payloads, payload)
		f.kept += len(payload)
	}
}

// run adds those of the jobs that ids begins with which are in the journal, one
// behind the other, and returns how many. What does not read as it should is left
// to [Queue.Job].
func (f *fetch) run(ids []JobID) int {
	from, length := f.plan(ids)
	if len(f.parts) == 0 {
		return 0
	}
	buf := make([]byte, length)
	if err := f.q.svc.log.ReadAt(buf, from); err != nil {
		return 0
	}
	apart := f.lean(length)
	for i := range f.parts {
		p := &f.parts[i]
		text := buf[p.text:p.end]
		if sha256.Sum256(text) != p.sum {
			return i
		}
		j, err := ParseJob(text)
		if err != nil || j.ID != ids[i] {
			return i
		}
		j.Queue, j.Status, j.Size = f.q.id, p.status, p.size
		var payload []byte
		if p.whole >= p.end {
			if payload = buf[p.end:p.whole:p.whole]; apart {
				payload = append(make([]byte, 0, len(payload)), payload...)
			}
		}
		f.add(j, payload)
	}
	return len(f.parts)
}

// lean tells whether the payloads are less than half of what is read, and so are
// to be kept without it.
func (f *fetch) lean(length int) bool {
	for i := range f.parts {
		if p := &f.parts[i]; p.whole >= 0 {
			length -= 2 * (p.whole - p.end)
		}
	}
	return length > 0
}

// plan sets the parts of the next run and returns what is to be read for them.
func (f *fetch) plan(ids []JobID) (from segment.Position, length int) {
	q := f.q
	f.parts = f.parts[:0]
	q.mu.RLock()
	defer q.mu.RUnlock()
	kept := f.kept
	for _, id := range ids {
		j, ok := q.idx.Job(id)
		if !ok {
			break
		}
		u := q.unfiled.of(id)
		if u.text == 0 {
			break
		}
		if len(f.parts) == 0 {
			from = u.text
		}
		if u.text.Segment() != from.Segment() || u.text < from.Add(length) {
			break
		}
		at := int(u.text - from)
		p := partOf(&j, at)
		if f.payloads != nil && u.payload == u.text.Add(j.FileLength) && kept+int(p.size) <= fetchLimit {
			p.whole = p.end + int(p.size)
			kept += int(p.size)
		}
		if !f.join(p, &length) {
			break
		}
	}
	return from, length
}

// join adds a part to those that are read with one read of length octets, unless
// it is too far away or too much.
func (f *fetch) join(p part, length *int) bool {
	next := max(p.end, p.whole)
	if len(f.parts) > 0 && (p.text-*length > fetchGap || next > fetchLimit) {
		return false
	}
	f.parts, *length = append(f.parts, p), next
	return true
}
