package state

import (
	"fmt"
	"net/url"
	"strings"

	"cutie/queuefs"
)

// A Base is the URL below which a service answers, without a slash at its end.
// All references are built from it.
type Base string

// NewBase returns the Base of a baseURI, with or without a slash at its end.
func NewBase(baseURI string) Base { return Base(strings.TrimRight(baseURI, "/")) }

// Append appends the reference of the given path to dst: the base and, each
// after a slash, the segments, percent-encoded where they need it. Characters
// allowed in a segment (RFC 3986) stay as they are, so a reference has one
// spelling.
func (b Base) Append(dst []byte, segments ...string) []byte {
	dst = append(dst, b...)
	for _, s := range segments {
		dst = appendSegment(append(dst, '/'), s)
	}
	return dst
}

// Ref returns the reference of the given path; see [Base.Append].
func (b Base) Ref(segments ...string) string {
	return string(b.Append(make([]byte, 0, 96), segments...))
}

// AppendJob appends the reference "kind/queue/job", such as
// "<base>/state/q/j000000000042". The queue is its cleaned identifier.
func (b Base) AppendJob(dst []byte, kind, queue string, id queuefs.JobID) []byte {
	return id.Append(append(b.Append(dst, kind, queue), '/'))
}

// JobRef returns the reference of [Base.AppendJob].
func (b Base) JobRef(kind, queue string, id queuefs.JobID) string {
	return string(b.AppendJob(make([]byte, 0, 96), kind, queue, id))
}

// AppendPayload appends the reference of a payload as a plain resource.
func (b Base) AppendPayload(dst []byte, queue string, id queuefs.JobID) []byte {
	return id.Append(append(b.Append(dst, "queues", queue, "payload"), '/'))
}

// CapabilityList returns the reference of the ResourceSync Capability List of a
// set of a queue; the sets are "pending" and "replica".
func (b Base) CapabilityList(queue, set string) string {
	return b.Ref(".well-known", "resourcesync", queue, set, "capabilitylist.xml")
}

// ParseJobRef returns the queue and the job of a reference from its last two
// segments, as in [Base.AppendJob]. Query and fragment do not count.
func ParseJobRef(ref string) (queue string, id queuefs.JobID, err error) {
	rest, last, ok := CutLast(ref)
	if ok {
		id, err = queuefs.ParseJobID(last)
		_, queue, ok = CutLast(rest)
	}
	if err == nil && (!ok || queue == "") {
		err = fmt.Errorf("%w: %.80q is no reference to a job", queuefs.ErrBadName, ref)
	}
	return queue, id, err
}

// CutLast splits a reference before its last segment, and decodes the segment.
func CutLast(ref string) (rest, last string, ok bool) {
	ref, _, _ = strings.Cut(ref, "#")
	ref, _, _ = strings.Cut(ref, "?")
	i := strings.LastIndexByte(ref, '/')
	if i < 0 {
		return "", "", false
	}
	last, err := url.PathUnescape(ref[i+1:])
	return ref[:i], last, err == nil
}

func appendSegment(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
