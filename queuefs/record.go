package queuefs

import (
	"crypto/sha256"
	"cutie/queuefs/index"
	"encoding/binary"
	"errors"
	"fmt"
)

// A record is one event in the journal. It holds the whole new state of its
// job, so that replaying it twice, or on top of a later state, ends right. One
// of job 0 is of queue-info.txt, whose facts stand where a job has those of its
// payload.
//
//	length u32 | kind | from | to | flags | seq u64 | time µs i64 | job u64
//	size i64 | submitted µs i64 | SHA-256 of payload | SHA-256 of job file
//	length of queue u16, media type u16, job file u32, temporary name u16 | outcome | length of MD5
//	MD5 of payload, if known | queue | media type | temporary name | job file | payload
//
// The flags have the bit recSlim. Records without it are of an earlier layout,
// with 16 octets of MD5 behind either SHA-256.
type record struct {
	kind      Kind
	from, to  Status
	flags     byte
	outcome   Outcome
	seq       Seq
	time      int64
	job       JobID
	size      int64
	submitted int64
	sha       [32]byte
	md5       [16]byte // of the payload; zero: unknown
	fileSHA   [32]byte
	queue     string
	mediaType string
	temp      string // file of a large payload or, before a slash and its name, of a result; to be renamed
	text      []byte // job file
	textSize  int    // its length, also where text is out of reach
	payload   []byte // inline payload, or nil
	ends      int64  // of the lease, µs; 0 if there is none, or when read
	destroy   int64  // destruction of the job, likewise
	wide      bool   // read in the earlier layout
}

const (
	recInline   = 1 << iota // the payload follows
	recTemp                 // the payload is in a temporary file
	recHeld                 // the job is on hold
	recLeased               // the consumer of the job has a lease
	recResults              // the job has results
	recResult               // the last one is in a temporary file
	recRetained             // the job file says how long the job is retained
	recSlim     = 1 << 7    // the layout is not the earlier one
)

// Lengths of the fixed part in either layout.
const (
	recFixed = 4 + 4 + 24 + 16 + 64 + 12
	recWide  = recFixed + 32
)

// head returns the length of what comes before the name of the queue.
func (r *record) head() int {
	switch {
	case r.wide:
		return recWide
	case r.md5 != [16]byte{}:
		return recFixed + len(r.md5)
	}
	return recFixed
}

func (r *record) length() int {
	return r.head() + len(r.queue) + len(r.mediaType) + len(r.temp) + len(r.text) + len(r.payload)
}

// textAt and payloadAt tell where in the record its parts are.
func (r *record) textAt() int    { return r.head() + len(r.queue) + len(r.mediaType) + len(r.temp) }
func (r *record) payloadAt() int { return r.textAt() + r.textSize }

// put writes the record to dst, which has length() octets.
func (r *record) put(dst []byte) {
	le := binary.LittleEndian
	le.PutUint32(dst, uint32(len(dst)))
	dst[4], dst[5], dst[6], dst[7] = byte(r.kind), byte(r.from), byte(r.to), r.flags|recSlim
	le.PutUint64(dst[8:], uint64(r.seq))
	le.PutUint64(dst[16:], uint64(r.time))
	le.PutUint64(dst[24:], uint64(r.job))
	le.PutUint64(dst[32:], uint64(r.size))
	le.PutUint64(dst[40:], uint64(r.submitted))
	copy(dst[48:], r.sha[:])
	copy(dst[80:], r.fileSHA[:])
	putNames(dst[112:recFixed], r)
	n := r.head()
	copy(dst[recFixed:n], r.md5[:])
	n += copy(dst[n:], r.queue)
	n += copy(dst[n:], r.mediaType)
	n += copy(dst[n:], r.temp)
	n += copy(dst[n:], r.text)
	copy(dst[n:], r.payload)
}

// putNames writes the end of the fixed part.
func putNames(dst []byte, r *record) {
	le := binary.LittleEndian
	le.PutUint16(dst, uint16(len(r.queue)))
	le.PutUint16(dst[2:], uint16(len(r.mediaType)))
	le.PutUint32(dst[4:], uint32(len(r.text)))
	le.PutUint16(dst[8:], uint16(len(r.temp)))
	dst[10], dst[11] = byte(r.outcome), byte(r.head()-recFixed)
}

var errRecord = errors.New("journal record does not parse")

// get reads the record that src begins with. The fixed part and the names are
// copied; text and payload are slices of src, as far as src reaches.
func (r *record) get(src []byte) error {
	le := binary.LittleEndian
	if len(src) < recFixed {
		return errRecord
	}
	length := int(le.Uint32(src))
	fixed := recFixed
	if r.wide = src[7]&recSlim == 0; r.wide {
		if fixed = recWide; len(src) < fixed {
			return errRecord
		}
	}
	end := src[fixed-12 : fixed] // of the fixed part
	nq, nm, nx, nt := int(le.Uint16(end)), int(le.Uint16(end[2:])), int(le.Uint32(end[4:])), int(le.Uint16(end[8:]))
	n := fixed + int(end[11])
	names := n + nq + nm + nt
	if length < names+nx || len(src) < names {
		return errRecord
	}
	r.kind, r.from, r.to, r.flags = Kind(src[4]), Status(src[5]), Status(src[6]), src[7]&^recSlim
	r.outcome = Outcome(end[10])
	if r.from > Deleted || r.to > Deleted || r.outcome > Aborted {
		return fmt.Errorf("%w: status", errRecord)
	}
	r.seq = Seq(le.Uint64(src[8:]))
	r.time = int64(le.Uint64(src[16:]))
	r.job = JobID(le.Uint64(src[24:]))
	r.size = int64(le.Uint64(src[32:]))
	r.submitted = int64(le.Uint64(src[40:]))
	copy(r.sha[:], src[48:])
	if r.wide {
		copy(r.md5[:], src[80:])
		copy(r.fileSHA[:], src[96:])
	} else {
		r.md5 = [16]byte{}
		copy(r.md5[:], src[fixed:n])
		copy(r.fileSHA[:], src[80:])
	}
	if r.head() != n {
		return errRecord
	}
	r.queue = intern(r.queue, src[n:n+nq])
	n += nq
	r.mediaType = intern(r.mediaType, src[n:n+nm])
	n += nm
	r.temp = string(src[n : n+nt])
	n += nt
	r.text, r.payload, r.textSize = nil, nil, nx
	if len(src) >= n+nx {
		r.text = src[n : n+nx]
		if len(src) >= length && r.flags&recInline != 0 {
			r.payload = src[n+nx : length]
		}
	}
	return nil
}

// intern returns old if it has the octets of b, so that runs of equal names
// cost nothing.
func intern(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return string(b)
}

// event returns what followers see of the record.
func (r *record) event() Event {
	typ := r.mediaType
	if typ == "" {
		typ = DefaultMediaType
	}
	at := micro(r.time)
	switch {
	case r.kind == Phase:
		return Event{Seq: r.seq, Time: at, Kind: r.kind}
	case r.job == 0:
		return Event{Seq: r.seq, Time: at, Kind: r.kind,
			File: Facts{Length: r.size, SHA256: r.sha, Type: typ, Modified: micro(r.submitted)}}
	}
	return Event{
		Seq: r.seq, Time: at, Kind: r.kind, Job: r.job, From: r.from, To: r.to,
		Payload: Facts{Length: r.size, SHA256: r.sha, MD5: r.md5, Type: typ, Modified: micro(r.submitted)},
		File:    Facts{Length: int64(r.textSize), SHA256: r.fileSHA, Type: jobFileType, Modified: at},
	}
}

// jobFileType is the media type of job files and queue-info.txt (Cutie 0.3, 4).
const jobFileType = "text/x-anvl"

// setType gives the record the media type of its job. Other hands may have put
// one into a job file that no submitter could; the index then knows none.
func (r *record) setType(t string) {
	if r.mediaType = t; len(t) > maxLabel {
		r.mediaType = ""
	}
}

// mark makes the record say where j stands.
func (r *record) mark(j *Job) {
	var m index.Standing
	if j.Status != 0 {
		m = j.standing()
	}
	r.to, r.outcome, r.ends, r.destroy = m.Status, m.Outcome, 0, 0
	r.flags &^= recHeld | recLeased | recResults | recRetained
	if m.Held {
		r.flags |= recHeld
	}
	if m.Leased {
		r.flags |= recLeased
		r.ends = j.Lease.Ends.UnixMicro()
	}
	if m.Results {
		r.flags |= recResults
	}
	if m.Retained {
		r.flags |= recRetained
		r.destroy = microOf(j.Destruction)
	}
}

// setText gives the record the job file and its digest.
func (r *record) setText(text []byte) {
	r.text, r.textSize = text, len(text)
	r.fileSHA = sha256.Sum256(text)
}

// change is what the record says of its job.
func (r *record) change(replayed bool) index.Change {
	return index.Change{Kind: r.kind, Job: r.job, Seq: r.seq, Time: r.time, LeaseEnds: r.ends, Destroy: r.destroy,
		Standing: index.Standing{Status: r.to, Outcome: r.outcome, Held: r.flags&recHeld != 0, Leased: r.flags&recLeased != 0,
			Results: r.flags&recResults != 0, Retained: r.flags&recRetained != 0},
		FileLength: r.textSize, FileSHA256: r.fileSHA, Size: r.size, Submitted: r.submitted, SHA256: r.sha, MD5: r.md5,
		MediaType: r.mediaType, Replayed: replayed}
}

// sums gives the record what the index knows of the payload's digests.
func (r *record) sums(x *index.Index, id JobID) {
	j, _ := x.Known(id)
	r.sha, r.md5 = j.SHA256, j.MD5
}
