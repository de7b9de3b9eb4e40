// Package record encodes and decodes the records of the journal, one for each event. A record
// holds the whole new state of its job, so it can be applied alone, and more than once. Records
// of the earlier layout are read too. The package is pure.
package record

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A Record is one event in the journal. It holds the whole new state of its
// job, so that replaying it twice, or on top of a later state, ends right. One
// of job 0 is of queue-info.txt, whose facts stand where a job has those of its
// payload.
//
//	kind | from | to | flags | seq u64 | time µs i64 | job u64
//	size i64 | submitted µs i64 | SHA-256 of payload | SHA-256 of job file
//	length of queue u16, media type u16, job file u32, temporary name u16 | outcome | lengths of MD5 and key
//	key, if there is one | MD5 of payload, if known | queue | media type | temporary name | job file | payload,
//	or contents of a small result
//
// The octet before the key has the length of both, 0, 8, 16 or 24, and the bits keyed and
// passed. With passed the length of the true job file follows the media type, a u32.
//
// Beside from stands the bit follows if the contents of a result follow: programs without
// small results in the journal refuse the record.
//
// The flags have the bit slim. Records without it are of an earlier layout,
// with 16 octets of MD5 behind either SHA-256.
type Record struct {
	Kind      job.Kind
	From, To  job.Status
	Flags     byte
	Outcome   job.Outcome
	Seq       job.Seq
	Time      int64 // µs
	Job       job.ID
	Queue     string
	Payload   Payload
	File      File
	Temp      string     // file of a large payload or, before a slash and its name, of a result; to be renamed; else see Results
	LeaseEnds int64      // µs; 0 if there is no lease, or when read
	Destroy   int64      // destruction of the job, likewise
	HoldEnds  int64      // end of the hold of the job, likewise; see Change
	Key       job.KeySum // of the submission of the job
	Keyed     bool       // the job was consumed by a request with a key
	Result    []byte     // contents of a small result, of a whole record; nil: they are in the store or in the file
	Verify    bool       // read the record back before it counts; not in the record itself
}

// A Payload has the facts of the payload of a job, or of queue-info.txt.
type Payload struct {
	Size      int64
	Submitted int64 // µs
	SHA256    [32]byte
	MD5       [16]byte // zero: unknown
	MediaType string
	Data      []byte // nil: it is not in the record
}

// A File is the job file of a record. In a mirror it may have given way to a later one
// before anybody could read it: then it is Passed, Size and SHA256 are its own, and Text
// is a job file with nothing but the new results of the event. A later record of
// the same change has the file whole.
type File struct {
	Text   []byte
	Size   int // also where Text is out of reach
	SHA256 [32]byte
	Passed bool
	length int // of Text, where it is Passed
}

// TextSize returns the length of Text, also where it is out of reach.
func (f *File) TextSize() int {
	if f.Passed {
		return f.length
	}
	return f.Size
}

// Flags of a record.
const (
	Inline   = 1 << iota // the payload follows
	InTemp               // the payload is in a temporary file
	Held                 // the job is on hold
	Leased               // the consumer of the job has a lease
	Results              // the job has results
	Result               // the last one is in a temporary file
	Retained             // the job file says how long the job is retained
)

// follows is the bit beside from.
const follows = 1 << 7

// Bits beside the lengths of MD5 and key.
const (
	keyed  = 1 << 7
	passed = 1 << 6
	marked = keyed | passed
)

// passedLength is the length of the field with the length of a passed file.
const passedLength = 4

// Lengths of the fixed part, without and with the sums after it.
const (
	minFixed  = 4 + 24 + 16 + 64 + 12
	MaxFixed  = minFixed + keyLength + 16
	keyLength = 8
	MaxHead   = MaxFixed + job.MaxQueueID + job.MaxLabel + passedLength + maxTemp // and the names, at most
)

// maxTemp bounds the name of a temporary file, or of a result and a slash and such
// a name. Names of many results that came or went are longer.
const maxTemp = 512

// head returns the length of what comes before the name of the queue.
func (r *Record) head() int {
	n := minFixed
	if r.Key != 0 {
		n += keyLength
	}
	if r.Payload.MD5 != [16]byte{} {
		n += len(r.Payload.MD5)
	}
	return n
}

// PayloadAt is where in the record its payload begins.
func (r *Record) PayloadAt() int {
	n := r.head() + len(r.Queue) + len(r.Payload.MediaType) + len(r.Temp) + r.File.TextSize()
	if r.File.Passed {
		n += passedLength
	}
	return n
}

// Append adds the record without its payload to dst.
func (r *Record) Append(dst []byte) []byte {
	le := binary.LittleEndian
	from := byte(r.From)
	if r.Result != nil {
		from |= follows
	}
	dst = append(dst, byte(r.Kind), from, byte(r.To), r.Flags)
	dst = le.AppendUint64(dst, uint64(r.Seq))
	dst = le.AppendUint64(dst, uint64(r.Time))
	dst = le.AppendUint64(dst, uint64(r.Job))
	dst = le.AppendUint64(dst, uint64(r.Payload.Size))
	dst = le.AppendUint64(dst, uint64(r.Payload.Submitted))
	dst = append(dst, r.Payload.SHA256[:]...)
	dst = append(dst, r.File.SHA256[:]...)
	dst = le.AppendUint16(dst, uint16(len(r.Queue)))
	dst = le.AppendUint16(dst, uint16(len(r.Payload.MediaType)))
	dst = le.AppendUint32(dst, uint32(len(r.File.Text)))
	dst = le.AppendUint16(dst, uint16(len(r.Temp)))
	sums := r.head() - minFixed
	marks := byte(sums)
	if r.Keyed {
		marks |= keyed
	}
	if r.File.Passed {
		marks |= passed
	}
	dst = append(dst, byte(r.Outcome), marks)
	if r.Key != 0 {
		dst = le.AppendUint64(dst, uint64(r.Key))
	}
	dst = append(dst, r.Payload.MD5[:sums&^keyLength]...)
	dst = append(dst, r.Queue...)
	dst = append(dst, r.Payload.MediaType...)
	if r.File.Passed {
		dst = le.AppendUint32(dst, uint32(r.File.Size))
	}
	dst = append(dst, r.Temp...)
	return append(dst, r.File.Text...)
}

// ErrForm is the error for octets without the form of a record.
var ErrForm = errors.New("journal record does not parse")

// Parse reads the record that src begins with. The fixed part and the names are
// copied; text and payload are slices of src, as far as src reaches.
func (r *Record) Parse(src []byte) error {
	le := binary.LittleEndian
	if len(src) < minFixed {
		return ErrForm
	}
	fixed := minFixed
	end := src[fixed-12 : fixed] // of the fixed part
	nq, nm, nx, nt := int(le.Uint16(end)), int(le.Uint16(end[2:])), int(le.Uint32(end[4:])), int(le.Uint16(end[8:]))
	sums, gone := int(end[11]&^marked), end[11]&passed != 0
	n := fixed + sums
	names := n + nq + nm + nt
	if gone {
		names += passedLength
	}
	if len(src) < names {
		return ErrForm
	}
	r.Kind, r.From, r.To, r.Flags = job.Kind(src[0]), job.Status(src[1]&^follows), job.Status(src[2]), src[3]
	r.Outcome, r.Key, r.Keyed = job.Outcome(end[10]), 0, end[11]&keyed != 0
	if r.From > job.Deleted || r.To > job.Deleted || r.Outcome > job.Aborted {
		return fmt.Errorf("%w: status", ErrForm)
	}
	r.Seq = job.Seq(le.Uint64(src[4:]))
	r.Time = int64(le.Uint64(src[12:]))
	r.Job = job.ID(le.Uint64(src[20:]))
	r.Payload.Size = int64(le.Uint64(src[28:]))
	r.Payload.Submitted = int64(le.Uint64(src[36:]))
	copy(r.Payload.SHA256[:], src[44:])
	copy(r.File.SHA256[:], src[76:])
	r.Payload.MD5 = [16]byte{}
	if sums&keyLength != 0 {
		r.Key = job.KeySum(le.Uint64(src[fixed:]))
		fixed += keyLength
	}
	copy(r.Payload.MD5[:], src[fixed:n])
	if r.head() != n {
		return ErrForm
	}
	r.Queue = intern(r.Queue, src[n:n+nq])
	n += nq
	r.Payload.MediaType = intern(r.Payload.MediaType, src[n:n+nm])
	n += nm
	r.File.Size, r.File.Passed, r.File.length = nx, gone, 0
	if gone {
		r.File.Size, r.File.length = int(le.Uint32(src[n:])), nx
		n += passedLength
	}
	r.Temp = string(src[n : n+nt])
	n += nt
	r.File.Text, r.Payload.Data, r.Result = nil, nil, nil
	if len(src) >= n+nx {
		r.File.Text = src[n : n+nx]
		if src[1]&follows != 0 {
			r.Result = src[n+nx:]
		}
		if end := int64(n+nx) + r.Payload.Size; r.Flags&Inline != 0 && r.Payload.Size >= 0 && end >= 0 && int64(len(src)) >= end {
			r.Payload.Data = src[n+nx : end : end]
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

// Event returns the part of the record for followers. See Lacks.
func (r *Record) Event() job.Event {
	typ := r.Payload.MediaType
	if typ == "" {
		typ = job.DefaultMediaType
	}
	at := job.Instant(r.Time)
	switch {
	case r.Kind == job.Phase:
		return job.Event{Seq: r.Seq, Time: at, Kind: r.Kind}
	case r.Job == 0:
		return job.Event{Seq: r.Seq, Time: at, Kind: r.Kind,
			File: job.Facts{Length: r.Payload.Size, SHA256: r.Payload.SHA256, Type: typ, Modified: job.Instant(r.Payload.Submitted)}}
	}
	return job.Event{
		Seq: r.Seq, Time: at, Kind: r.Kind, Job: r.Job, From: r.From, To: r.To, Results: r.resultChange(),
		Payload: job.Facts{Length: r.Payload.Size, SHA256: r.Payload.SHA256, MD5: r.Payload.MD5, Type: typ, Modified: job.Instant(r.Payload.Submitted)},
		File:    job.Facts{Length: int64(r.File.Size), SHA256: r.File.SHA256, Type: job.FileType, Modified: at},
	}
}

// SetType gives the record the media type of its job. Other hands may have put
// an impossible one into the job file; the index then knows none.
func (r *Record) SetType(t string) {
	if r.Payload.MediaType = t; len(t) > job.MaxLabel {
		r.Payload.MediaType = ""
	}
}

// Mark makes the record say where j stands.
func (r *Record) Mark(j *job.Job) {
	var m index.Standing
	if j.Status != 0 {
		m = index.StandingOf(j)
	}
	r.To, r.Outcome, r.LeaseEnds, r.Destroy, r.HoldEnds = m.Status, m.Outcome, 0, 0, 0
	r.Keyed = m.Keyed
	if r.Key = 0; m.Status != 0 {
		r.Key = job.SumOfKey(j.Owner, j.Key)
	}
	r.Flags &^= Held | Leased | Results | Retained
	if m.Held {
		r.Flags |= Held
		r.HoldEnds = job.Micros(j.HeldUntil)
	}
	if m.Leased {
		r.Flags |= Leased
		r.LeaseEnds = j.Lease.Ends.UnixMicro()
	}
	if m.Results {
		r.Flags |= Results
	}
	if m.Retained {
		r.Flags |= Retained
		r.Destroy = job.Micros(j.Destruction)
	}
}

// SetText gives the record the job file and its digest.
func (r *Record) SetText(text []byte) {
	r.File.Text, r.File.Size = text, len(text)
	r.File.SHA256 = sha256.Sum256(text)
}

// Pass gives the record, with its time set, the facts of a job file now gone, and the
// results of its event.
func (r *Record) Pass(f *job.Facts, came []job.Result) {
	r.File = File{Size: int(f.Length), SHA256: f.SHA256, Passed: true, Text: []byte{}}
	if len(came) > 0 {
		j := job.Job{ID: r.Job, Status: r.To, Submitted: job.Instant(r.Time), Results: came}
		r.File.Text = j.AppendText(nil)
	}
	r.File.length = len(r.File.Text)
}

// FindHold fills in the end of a hold of a record that was read: the job file has it.
func (r *Record) FindHold() {
	if r.HoldEnds = 0; r.Flags&Held != 0 {
		r.HoldEnds = job.Micros(job.HoldEnds(r.File.Text))
	}
}

// Change returns the change of the record, with its number or 0. For a replayed one
// the end of a hold is found in the job file.
func (r *Record) Change(at journal.LSN, replayed bool) index.Change {
	if replayed {
		r.FindHold()
	}
	return index.Change{Kind: r.Kind, Job: r.Job, Seq: r.Seq, Time: r.Time, LeaseEnds: r.LeaseEnds, Destroy: r.Destroy, HoldEnds: r.HoldEnds,
		Standing: index.Standing{Status: r.To, Outcome: r.Outcome, Held: r.Flags&Held != 0, Leased: r.Flags&Leased != 0,
			Results: r.Flags&Results != 0, Retained: r.Flags&Retained != 0, Keyed: r.Keyed},
		FileLength: r.File.Size, FileSHA256: r.File.SHA256, Size: r.Payload.Size, Submitted: r.Payload.Submitted, SHA256: r.Payload.SHA256, MD5: r.Payload.MD5, Key: r.Key,
		MediaType: r.Payload.MediaType, At: at, Inline: r.Flags&Inline != 0, Replayed: replayed}
}

// Sums gives the record the payload's digests in the index.
func (r *Record) Sums(x *index.Index, id job.ID) {
	j, _ := x.Known(id)
	r.Payload.SHA256, r.Payload.MD5 = j.SHA256, j.MD5
}

// An Encoder holds records in the form of the journal until that has copied them.
type Encoder struct {
	heads   []byte
	Records []journal.Contents
}

var encoders = sync.Pool{New: func() any { return new(Encoder) }}

// NewEncoder returns an empty encoder. Call Free after use.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Add encodes a record and returns its size.
func (e *Encoder) Add(r *Record) int {
	from := len(e.heads)
	e.heads = r.Append(e.heads)
	body := r.Payload.Data
	if r.Result != nil {
		body = r.Result
	}
	c := journal.Contents{Head: e.heads[from:len(e.heads):len(e.heads)], Body: body, Verify: r.Verify}
	e.Records = append(e.Records, c)
	return c.Size()
}

// Free makes the encoder ready for another use.
func (e *Encoder) Free() {
	clear(e.Records)
	e.heads, e.Records = e.heads[:0], e.Records[:0]
	if cap(e.heads) <= 1<<20 {
		encoders.Put(e)
	}
}

// A HomeChange is a change of a home beside its jobs, in a journal that has the whole
// home. Records of jobs never begin as it does.
//
//	0xff | kind | length of queue u16 | time µs i64 | queue | text
type HomeChange struct {
	Kind  HomeKind
	Queue string // "" for one of the service
	Time  int64  // µs; modification of the file with the text, or 0
	Text  string
}

// A HomeKind is the kind of a [HomeChange].
type HomeKind byte

const (
	QueueMade   HomeKind = 1 + iota // Text is queue-info.txt
	QueueInfo                       // likewise; of a file too large for the record of its event
	QueueGone                       // the queue is no more
	CallbackURL                     // Text is the URL for callbacks
	ServiceInfo                     // Text is cutie-info.txt
	homeKinds
)

const (
	homeMark = 0xff
	homeHead = 12
)

// Bytes returns the record.
func (c *HomeChange) Bytes() []byte {
	b := append(make([]byte, 0, homeHead+len(c.Queue)+len(c.Text)), homeMark, byte(c.Kind))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(c.Queue)))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Time))
	return append(append(b, c.Queue...), c.Text...)
}

// ParseHomeChange reads a record, and reports whether it is one of a home.
func ParseHomeChange(src []byte) (c HomeChange, is bool, err error) {
	if len(src) == 0 || src[0] != homeMark {
		return c, false, nil
	}
	if len(src) < homeHead {
		return c, true, ErrForm
	}
	c.Kind = HomeKind(src[1])
	n := int(binary.LittleEndian.Uint16(src[2:]))
	if c.Kind == 0 || c.Kind >= homeKinds || len(src) < homeHead+n {
		return c, true, fmt.Errorf("%w: change of a home", ErrForm)
	}
	c.Time = int64(binary.LittleEndian.Uint64(src[4:]))
	src = src[homeHead:]
	c.Queue, c.Text = string(src[:n]), string(src[n:])
	return c, true, nil
}

// A record without a temporary file may name the changed results of its job in the same
// field: /+NAME for a new one, described in the job file, and /-NAME for a removed one.
const (
	cameMark = "/+"
	wentMark = "/-"
)

// MaxResultNames bounds the names of all results of a job before and after an event.
const MaxResultNames = 2 * job.MaxResults * (len(cameMark) + job.MaxResultName)

// SetResults names the changes from the results before to the results after.
func (r *Record) SetResults(before, after []job.Result) {
	r.NameResults(job.Results(before, after))
}

// NameResults names changes of results.
func (r *Record) NameResults(c *job.ResultChange) {
	if c == nil || r.Flags&(InTemp|Result) != 0 {
		return
	}
	var b strings.Builder
	for _, res := range c.Came {
		b.WriteString(cameMark + res.Name)
	}
	for _, name := range c.Went {
		b.WriteString(wentMark + name)
	}
	r.Temp = b.String()
}

// resultChange returns the named changes of results. New ones need the job file: see Lacks.
func (r *Record) resultChange() *job.ResultChange {
	if r.Flags&InTemp != 0 || r.Temp == "" {
		return nil
	}
	var c job.ResultChange
	came := map[string]bool{}
	if r.Flags&Result != 0 {
		_, name, _ := strings.Cut(r.Temp, "/")
		came[name] = true
	} else {
		for entry := range strings.SplitSeq(r.Temp[1:], "/") {
			if name, ok := strings.CutPrefix(entry, wentMark[1:]); ok {
				c.Went = append(c.Went, name)
			} else {
				came[strings.TrimPrefix(entry, cameMark[1:])] = true
			}
		}
	}
	if len(came) > 0 {
		j, err := job.Parse(r.File.Text)
		if err != nil {
			return nil // no file of ours
		}
		for _, res := range j.Results {
			if came[res.Name] {
				c.Came = append(c.Came, res)
			}
		}
	}
	return &c
}

// Lacks reports whether the record was read without its job file, and Event needs it.
func (r *Record) Lacks() bool {
	return r.File.Text == nil && r.File.TextSize() > 0 && (r.Flags&Result != 0 || strings.Contains(r.Temp, cameMark))
}
