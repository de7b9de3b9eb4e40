package queuefs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A record is one event in the journal. It holds the whole new state of its
// job, so that replaying it twice, or on top of a later state, ends right. One
// of job 0 is of queue-info.txt, whose facts stand where a job has those of its
// payload.
//
//	kind | from | to | flags | seq u64 | time µs i64 | job u64
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
	recFixed = 4 + 24 + 16 + 64 + 12
	recWide  = recFixed + 32
	recHead  = recWide + job.MaxQueueID + job.MaxLabel + maxTemp // and the names, at most
)

// maxTemp bounds the name of a temporary file, or of a result and a slash and such
// a name.
const maxTemp = 512

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

// payloadAt is where in the record its payload begins.
func (r *record) payloadAt() int {
	return r.head() + len(r.queue) + len(r.mediaType) + len(r.temp) + r.textSize
}

// append adds the record without its payload to dst.
func (r *record) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, byte(r.kind), byte(r.from), byte(r.to), r.flags|recSlim)
	dst = le.AppendUint64(dst, uint64(r.seq))
	dst = le.AppendUint64(dst, uint64(r.time))
	dst = le.AppendUint64(dst, uint64(r.job))
	dst = le.AppendUint64(dst, uint64(r.size))
	dst = le.AppendUint64(dst, uint64(r.submitted))
	dst = append(dst, r.sha[:]...)
	dst = append(dst, r.fileSHA[:]...)
	dst = le.AppendUint16(dst, uint16(len(r.queue)))
	dst = le.AppendUint16(dst, uint16(len(r.mediaType)))
	dst = le.AppendUint32(dst, uint32(len(r.text)))
	dst = le.AppendUint16(dst, uint16(len(r.temp)))
	md5 := r.md5[:r.head()-recFixed]
	dst = append(dst, byte(r.outcome), byte(len(md5)))
	dst = append(dst, md5...)
	dst = append(dst, r.queue...)
	dst = append(dst, r.mediaType...)
	dst = append(dst, r.temp...)
	return append(dst, r.text...)
}

var errRecord = errors.New("journal record does not parse")

// get reads the record that src begins with. The fixed part and the names are
// copied; text and payload are slices of src, as far as src reaches.
func (r *record) get(src []byte) error {
	le := binary.LittleEndian
	if len(src) < recFixed {
		return errRecord
	}
	fixed := recFixed
	if r.wide = src[3]&recSlim == 0; r.wide {
		if fixed = recWide; len(src) < fixed {
			return errRecord
		}
	}
	end := src[fixed-12 : fixed] // of the fixed part
	nq, nm, nx, nt := int(le.Uint16(end)), int(le.Uint16(end[2:])), int(le.Uint32(end[4:])), int(le.Uint16(end[8:]))
	n := fixed + int(end[11])
	names := n + nq + nm + nt
	if len(src) < names {
		return errRecord
	}
	r.kind, r.from, r.to, r.flags = Kind(src[0]), Status(src[1]), Status(src[2]), src[3]&^recSlim
	r.outcome = Outcome(end[10])
	if r.from > Deleted || r.to > Deleted || r.outcome > Aborted {
		return fmt.Errorf("%w: status", errRecord)
	}
	r.seq = Seq(le.Uint64(src[4:]))
	r.time = int64(le.Uint64(src[12:]))
	r.job = JobID(le.Uint64(src[20:]))
	r.size = int64(le.Uint64(src[28:]))
	r.submitted = int64(le.Uint64(src[36:]))
	copy(r.sha[:], src[44:])
	if r.wide {
		copy(r.md5[:], src[76:])
		copy(r.fileSHA[:], src[92:])
	} else {
		r.md5 = [16]byte{}
		copy(r.md5[:], src[fixed:n])
		copy(r.fileSHA[:], src[76:])
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
		if end := int64(n+nx) + r.size; r.flags&recInline != 0 && r.size >= 0 && end >= 0 && int64(len(src)) >= end {
			r.payload = src[n+nx : end : end]
		}
	}
	return nil
}

// intern returns old if it equals b, so that runs of equal names cost nothing.
func intern(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return string(b)
}

// event returns the part of the record for followers.
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
		File:    Facts{Length: int64(r.textSize), SHA256: r.fileSHA, Type: job.FileType, Modified: at},
	}
}

// setType gives the record the media type of its job. Other hands may have put
// an impossible one into the job file; the index then knows none.
func (r *record) setType(t string) {
	if r.mediaType = t; len(t) > job.MaxLabel {
		r.mediaType = ""
	}
}

// mark makes the record say where j stands.
func (r *record) mark(j *Job) {
	var m index.Standing
	if j.Status != 0 {
		m = index.StandingOf(j)
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

// change returns the change of the record, with its number or 0.
func (r *record) change(at journal.LSN, replayed bool) index.Change {
	return index.Change{Kind: r.kind, Job: r.job, Seq: r.seq, Time: r.time, LeaseEnds: r.ends, Destroy: r.destroy,
		Standing: index.Standing{Status: r.to, Outcome: r.outcome, Held: r.flags&recHeld != 0, Leased: r.flags&recLeased != 0,
			Results: r.flags&recResults != 0, Retained: r.flags&recRetained != 0},
		FileLength: r.textSize, FileSHA256: r.fileSHA, Size: r.size, Submitted: r.submitted, SHA256: r.sha, MD5: r.md5,
		MediaType: r.mediaType, At: at, Inline: r.flags&recInline != 0, Replayed: replayed}
}

// sums gives the record the payload's digests in the index.
func (r *record) sums(x *index.Index, id JobID) {
	j, _ := x.Known(id)
	r.sha, r.md5 = j.SHA256, j.MD5
}
