package queuefs

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A record is one event in the journal. It holds the whole new state of its
// job, so that replaying it twice, or on top of a later state, ends right. One
// of job 0 is of queue-info.txt, whose facts stand where a job has those of its
// payload, or, if its kind is Phase, of what the text in the place of the job
// file names.
//
//	length u32 | kind | from | to | flags | seq u64 | time µs i64 | job u64
//	size i64 | submitted µs i64 | SHA-256, MD5 of payload | SHA-256, MD5 of job file
//	length of queue u16, media type u16, job file u32, temporary name u16 | outcome | 0
//	queue | media type | temporary name | job file | payload
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
	md5       [16]byte
	fileSHA   [32]byte
	fileMD5   [16]byte
	queue     string
	mediaType string
	temp      string // file of a large payload or, before a slash and its name, of a result; to be renamed
	text      []byte // job file
	textSize  int    // its length, also where text is out of reach
	payload   []byte // inline payload, or nil
	ends      int64  // of the lease, µs; 0 if there is none, or when read
	destroy   int64  // destruction of the job, likewise
}

const (
	recInline   = 1 << iota // the payload follows
	recTemp                 // the payload is in a temporary file
	recHeld                 // the job is on hold
	recLeased               // the consumer of the job has a lease
	recResults              // the job has results
	recResult               // the last one is in a temporary file
	recRetained             // the job file says how long the job is retained
)

const recFixed = 4 + 4 + 24 + 16 + 96 + 12

func (r *record) length() int {
	return recFixed + len(r.queue) + len(r.mediaType) + len(r.temp) + len(r.text) + len(r.payload)
}

// textAt and payloadAt tell where in the record its parts are.
func (r *record) textAt() int    { return recFixed + len(r.queue) + len(r.mediaType) + len(r.temp) }
func (r *record) payloadAt() int { return r.textAt() + r.textSize }

// put writes the record to dst, which has length() octets.
func (r *record) put(dst []byte) {
	le := binary.LittleEndian
	le.PutUint32(dst, uint32(len(dst)))
	dst[4], dst[5], dst[6], dst[7] = byte(r.kind), byte(r.from), byte(r.to), r.flags
	le.PutUint64(dst[8:], uint64(r.seq))
	le.PutUint64(dst[16:], uint64(r.time))
	le.PutUint64(dst[24:], uint64(r.job))
	le.PutUint64(dst[32:], uint64(r.size))
	le.PutUint64(dst[40:], uint64(r.submitted))
	copy(dst[48:], r.sha[:])
	copy(dst[80:], r.md5[:])
	copy(dst[96:], r.fileSHA[:])
	copy(dst[128:], r.fileMD5[:])
	le.PutUint16(dst[144:], uint16(len(r.queue)))
	le.PutUint16(dst[146:], uint16(len(r.mediaType)))
	le.PutUint32(dst[148:], uint32(len(r.text)))
	le.PutUint16(dst[152:], uint16(len(r.temp)))
	dst[154], dst[155] = byte(r.outcome), 0
	n := recFixed
	n += copy(dst[n:], r.queue)
	n += copy(dst[n:], r.mediaType)
	n += copy(dst[n:], r.temp)
	n += copy(dst[n:], r.text)
	copy(dst[n:], r.payload)
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
	nq, nm, nx, nt := int(le.Uint16(src[144:])), int(le.Uint16(src[146:])), int(le.Uint32(src[148:])), int(le.Uint16(src[152:]))
	names := recFixed + nq + nm + nt
	if length < names+nx || len(src) < names {
		return errRecord
	}
	r.kind, r.from, r.to, r.flags = Kind(src[4]), Status(src[5]), Status(src[6]), src[7]
	r.outcome = Outcome(src[154])
	if r.from > Deleted || r.to > Deleted || r.outcome > Aborted {
		return fmt.Errorf("%w: status", errRecord)
	}
	r.seq = Seq(le.Uint64(src[8:]))
	r.time = int64(le.Uint64(src[16:]))
	r.job = JobID(le.Uint64(src[24:]))
	r.size = int64(le.Uint64(src[32:]))
	r.submitted = int64(le.Uint64(src[40:]))
	copy(r.sha[:], src[48:])
	copy(r.md5[:], src[80:])
	copy(r.fileSHA[:], src[96:])
	copy(r.fileMD5[:], src[128:])
	n := recFixed
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
		return r.phaseEvent()
	case r.job == 0:
		return Event{Seq: r.seq, Time: at, Kind: r.kind,
			File: Facts{Length: r.size, SHA256: r.sha, MD5: r.md5, Type: typ, Modified: micro(r.submitted)}}
	}
	return Event{
		Seq: r.seq, Time: at, Kind: r.kind, Job: r.job, From: r.from, To: r.to,
		Payload: Facts{Length: r.size, SHA256: r.sha, MD5: r.md5, Type: typ, Modified: micro(r.submitted)},
		File:    Facts{Length: int64(r.textSize), SHA256: r.fileSHA, MD5: r.fileMD5, Type: jobFileType, Modified: at},
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
	var m marks
	if j.Status != 0 {
		m = j.marks()
	}
	r.to, r.outcome, r.ends, r.destroy = m.status, m.outcome, 0, 0
	r.flags &^= recHeld | recLeased | recResults | recRetained
	if m.held {
		r.flags |= recHeld
	}
	if m.leased {
		r.flags |= recLeased
		r.ends = j.Lease.Ends.UnixMicro()
	}
	if m.results {
		r.flags |= recResults
	}
	if m.retained {
		r.flags |= recRetained
		r.destroy = microOf(j.Destruction)
	}
}

// marks returns where the record leaves its job.
func (r *record) marks() marks {
	return marks{status: r.to, outcome: r.outcome, held: r.flags&recHeld != 0, leased: r.flags&recLeased != 0, results: r.flags&recResults != 0,
		retained: r.flags&recRetained != 0}
}

// setText gives the record the job file and its digests.
func (r *record) setText(text []byte) {
	r.text, r.textSize = text, len(text)
	r.fileSHA, r.fileMD5 = sha256.Sum256(text), md5.Sum(text)
}
